"""Speed of mining: reading against zstd and duckdb, each step against reading, the join, growth, duplicates.

Every program runs in its own process on the same file, in turns; a ratio is of the medians of seven rounds. Wall times
depend on the load of the machine; the CPU ratios beside them say the same with less noise.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bench_oracle import cpu
from tests.bench.figures import figure
from tests.worlds import reddit_dump

ROUNDS = 7
MEGABYTES = int(os.environ.get("BENCH_MINE_MB", "2200"))
TOOL = str(Path(sys.executable).with_name("saferec-build"))
READ = """
import os, sys
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # as engine.py starts one worker a core
from pathlib import Path
from saferec_builder.sources import reddit
tally = reddit.Tally()
kept = sum(frame.height for frame, _ in reddit.read(Path(sys.argv[1]), ["MovieSuggestions", "movies"], tally, "x"))
assert kept and kept == tally.passed
"""
DUCKDB = """
import sys, duckdb
names = "id link_id parent_id author created_utc score body title selftext link_flair_text subreddit".split()
columns = {name: "VARCHAR" for name in names}
con = duckdb.connect()
con.execute(f"create table kept as select * from read_json('{sys.argv[1]}', format='newline_delimited',"
    f" columns={columns}, ignore_errors=true, maximum_object_size=33554432)"
    " where subreddit in ('MovieSuggestions', 'movies')")
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-mine-") as name:
        folder = Path(name)
        plain = folder / "RC_2022-10.ndjson"
        reddit_dump.bulk(plain, MEGABYTES, share=0.1, links=links(MEGABYTES))
        print(f"  {plain.stat().st_size / 1e9:.2f} GB of comments, one in ten passes")
        packed, wide = folder / "RC_2022-10.zst", folder / "RC_2022-11.zst"
        run(["zstd", "-q", "-3", "-T0", str(plain), "-o", str(packed)])
        run(["zstd", "-q", "-9", "--long=31", str(plain), "-o", str(wide)])
        plain.unlink()
        reading(packed, wide)
        steps(folder, packed)
        packed.unlink()
        wide.unlink()
        growth(folder)
    joining()
    duplicates()


def links(megabytes: int) -> int:
    """The number of submissions in a file of a twentieth of the size: a line has about 1.3 kB, one in ten passes."""
    return megabytes * 1_000_000 // 20 // 1_300 // 10


def run(command: list[str]) -> tuple[float, float, float]:
    """Returns (wall seconds, CPU seconds, peak MiB) of a process and its children."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def reading(packed: Path, wide: Path) -> None:
    for path, mark, goal in ((packed, "", ">= 0.25"), (wide, "_long", ">= 0.35")):
        ours, zstd, duckdb = [], [], []
        for _ in range(ROUNDS):
            zstd.append(run(["zstd", "-dc", "--long=31", str(path)]))
            ours.append(run([sys.executable, "-c", READ, str(path)]))
            if not mark:  # duckdb cannot read such large windows
                duckdb.append(run([sys.executable, "-c", DUCKDB, str(path)]))
        figure(f"mine.read_over_zstd{mark}", median(zstd, 0) / median(ours, 0), "ratio", goal)
        figure(f"mine.read_over_zstd{mark}_cpu", median(zstd, 1) / median(ours, 1), "ratio", "none")
        figure(f"mine.read_peak{mark}", median(ours, 2), "MiB", "none")
        if duckdb:
            figure("mine.read_over_duckdb", median(duckdb, 0) / median(ours, 0), "ratio", ">= 1")
            figure("mine.read_over_duckdb_cpu", median(duckdb, 1) / median(ours, 1), "ratio", "none")


def median(runs: list[tuple[float, float, float]], which: int) -> float:
    return statistics.median(run[which] for run in runs)


def workspace(folder: Path, name: str) -> Path:
    root = folder / name
    run([TOOL, "init", str(root)])
    items = folder / "items.csv"
    lines = [f"film,{title},{year}" for title, year in reddit_dump.titles(7_000)]
    items.write_text("domain,title,year\n" + "\n".join(lines) + "\n")
    run([TOOL, "catalog", "add", "csv", str(items), "-C", str(root)])
    return root


def steps(folder: Path, comments: Path) -> None:
    """The whole command with a catalog of 7,000 titles, and the cost of each step compared with reading."""
    root = workspace(folder, "steps")
    posts = folder / "RS_2022-10.ndjson"
    reddit_dump.bulk(posts, MEGABYTES // 20, share=0.1, kind="submissions", seed=4)
    command = [TOOL, "mine", "reddit", str(posts), str(comments), "-C", str(root), "--workers", "1", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(result.stdout)
    seconds = report["cpu_seconds"]
    total = sum(seconds.values())
    for step, used in seconds.items():
        figure(f"mine.share_{step}", used / total, "of CPU", "none")
    extra = sum(seconds[step] for step in ("privacy", "language", "linking"))
    figure("mine.steps_over_reading", extra / seconds["reading"], "ratio", "<= 5")


def growth(folder: Path) -> None:
    """CPU and peak memory of the whole command for four times the input."""
    used = []
    for n, megabytes in enumerate((150, 600)):
        root = workspace(folder, f"growth{n}")
        posts, comments = folder / f"RS_{n}.ndjson", folder / f"RC_{n}.ndjson"
        reddit_dump.bulk(posts, megabytes // 20, share=0.1, kind="submissions", seed=5 + n)
        reddit_dump.bulk(comments, megabytes, share=0.1, seed=7 + n, links=links(megabytes))
        command = [TOOL, "mine", "reddit", str(posts), str(comments), "-C", str(root), "--workers", "1"]
        used.append(run(command))
        posts.unlink()
        comments.unlink()
    figure("mine.cpu_at_4x_input", used[1][1] / used[0][1], "ratio", "<= 4.4")
    figure("mine.peak_at_4x_input", used[1][2] / used[0][2], "ratio", "flat")


JOIN = """
import sys, numpy as np, polars as pl
from saferec_builder.sources import reddit, threads
buckets, comments, links = int(sys.argv[1]), 10_000_000, 1_000_000
for bucket in range(buckets):
    rng = np.random.default_rng(bucket)
    n, m = comments // buckets, links // buckets
    link = rng.integers(0, m, n)
    deep = rng.random(n) < 0.6
    number = np.arange(n)
    above = np.maximum(number - rng.integers(1, 40, n), 0)
    who = rng.integers(0, 500_000, n)
    posts = pl.DataFrame({"n": number, "link_n": link, "deep": deep, "above": above, "who": who})
    posts = posts.with_columns(same=pl.col("link_n").gather(pl.col("above")))
    name, first = pl.col("n").cast(pl.String), pl.lit("t3_") + pl.col("link_n").cast(pl.String)
    text = pl.lit("a film about the sea, with a good score, number ")
    frame = posts.select(post=pl.lit("t1_") + name, link=first,
        parent=pl.when("deep").then(pl.lit("t1_") + pl.col("above").cast(pl.String)).otherwise(first),
        subreddit=pl.lit("MovieSuggestions"), author=pl.lit("u") + pl.col("who").cast(pl.String),
        time=pl.col("n").cast(pl.Int64), score=pl.lit(1, pl.Int64), title=pl.lit(None, pl.String),
        text=text + name, flair=pl.lit(None, pl.String), place=pl.lit("RC:") + name)
    del posts
    asked = pl.DataFrame({"k": np.arange(m)}).select(
        link=pl.lit("t3_") + pl.col("k").cast(pl.String), author=pl.lit("u") + pl.col("k").cast(pl.String))
    talk, left = threads.joined(asked, frame)
    print(bucket, talk.height, len(left), flush=True)
"""


def joining() -> None:
    """10M comments on 1M submissions: all at once, and in 16 buckets one after the other."""
    unbounded, bucketed = run([sys.executable, "-c", JOIN, "1"]), run([sys.executable, "-c", JOIN, "16"])
    figure("mine.join_peak", bucketed[2], "MiB", "<= 1536")
    figure("mine.join_peak_unbounded", unbounded[2], "MiB", "none")
    figure("mine.join_cpu_over_unbounded", bucketed[1] / unbounded[1], "ratio", "<= 1.3")


def duplicates() -> None:
    import polars as pl
    from datasketch import MinHash, MinHashLSH

    from saferec_builder.mining import near_duplicates as duplicates

    rng = random.Random(5)
    docs = [" ".join(rng.choices([f"w{n}" for n in range(5_000)], k=60)) for _ in range(20_000)]
    for n in range(0, 2_000, 2):
        words = docs[n].split()
        words[rng.randrange(60)] = "other"
        docs[10_000 + n] = " ".join(words)
    series, part = pl.Series(docs), docs[:4_000]

    def sketched() -> None:
        index = MinHashLSH(threshold=duplicates.SAME, num_perm=120)
        for n, doc in enumerate(part):
            words = doc.split()
            sketch = MinHash(num_perm=120)
            sketch.update_batch([" ".join(words[k : k + 3]).encode() for k in range(len(words) - 2)])
            index.query(sketch)
            index.insert(n, sketch)

    assert len(duplicates.similar(series)) == 1_000
    # the best of three each, in turns: imports and warming up count for neither
    seconds = [(cpu(lambda: duplicates.similar(series)), cpu(sketched)) for _ in range(3)]
    ours, theirs = len(docs) / min(mine for mine, _ in seconds), len(part) / min(other for _, other in seconds)
    figure("mine.duplicates_per_cpu_second", ours, "docs", "none")
    figure("mine.duplicates_over_datasketch", ours / theirs, "ratio", ">= 20")
