"""The workspace, the bare write and the uploads for bench_release."""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from exports.release import release
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import shards, tables, workspace as store
from tests.bench.figures import figure

FILMS = 7_000
WORDS = 5_000
SHARD = 100_000


def fill(root: Path, rows: int) -> None:
    """Makes a workspace with `rows` labelled conversations."""
    ws = store.Workspace.create(root)
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(WORDS)]
    titles = [" ".join(w.title() for w in rng.sample(words, rng.randint(1, 4))) for _ in range(FILMS)]
    store.append(ws, tables.CATALOG_ROWS, _catalog(titles))
    store.append(ws, tables.WARNINGS, _warnings(rng))
    for start in range(0, rows, SHARD):
        pairs = list(_conversations(start, min(rows, start + SHARD), rng, words, titles))
        frame = tables.CONVERSATIONS.frame([conversation for conversation, _ in pairs])
        _shard(ws, tables.CONVERSATIONS, frame, start)
        store.append(ws, tables.LABELS, tables.LABELS.frame(label for _, label in pairs))


def _shard(ws: store.Workspace, table: tables.Table, frame: pl.DataFrame, number: int) -> None:
    """Writes directly to disk: `append` reads the table back for every shard, which is not measured here."""
    folder = ws.root / "tables" / table.name
    folder.mkdir(parents=True, exist_ok=True)
    shards._write_shard(folder / f"{number:09d}-x.parquet", frame)


def _catalog(titles: list[str]) -> pl.DataFrame:
    rows = [
        {"source": "csv", "source_id": str(n), "domain": "film", "title": title, "year": 1950 + n % 70, "plot": None}
        | {"refs": [f"imdb:tt{n:07d}"], "aliases": [], "genres": []}
        for n, title in enumerate(titles)
    ]
    return tables.CATALOG_ROWS.frame(rows)


def _warnings(rng: random.Random) -> pl.DataFrame:
    rows = [
        {"warning": f"w{n}-{topic}", "ref": f"imdb:tt{n:07d}", "domain": "film", "kind": "topic", "topic": topic}
        | {"source": "csv", "answer": "yes" if rng.random() < 0.2 else "no"}
        for n in range(FILMS)
        if rng.random() < 0.7
        for topic in traits.load()["gore"].core
    ]
    return tables.WARNINGS.frame(rows)


def _conversations(
    start: int, end: int, rng: random.Random, words: list[str], titles: list[str]
) -> Iterator[tuple[dict, dict]]:
    first = datetime(2015, 1, 1, tzinfo=UTC)
    for n in range(start, end):
        texts = [" ".join(rng.choices(words, k=k)) for k in (50, 12, 38, 12, 8)]
        picked = [min(int(rng.expovariate(1 / 900)), FILMS - 1) for _ in range(4)]
        items = [[], [picked[0]], [], picked[1:], []]
        texts[1] += f" {titles[picked[0]]} ({1950 + picked[0] % 70})"
        hurt = n % 3 == 0
        texts[0] += " I faint at blood" if hurt else ""
        turns = [
            {"role": ("seeker", "recommender")[t % 2], "text": text, "items": [f"imdb:tt{i:07d}" for i in items[t]]}
            for t, text in enumerate(texts)
        ]
        refs = [f"imdb:tt{i:07d}" for i in picked]
        name, digest = f"{n:016x}", f"{n * 7919:016x}"
        row = {"conversation": name, "digest": digest, "source": "messages", "source_id": str(n), "domain": "film"}
        row |= {"source_file": "x", "seeker": f"p{n:09d}", "time": first + timedelta(minutes=n), "turns": turns}
        span = {"turn": 0, "start": len(texts[0]) - 16, "end": len(texts[0]), "quote": "I faint at blood"}
        label = {"label": f"l{n}", "kind": "sensitivity", "subject": name, "trait": "gore", "digest": digest}
        label |= {"verdict": "present" if hurt else "absent", "form": "implicit" if hurt else None}
        label |= {"spans": [span] if hurt else [], "method": "agreed", "reviews": [], "simulated": False}
        yield row | {"recommended": refs, "accepted": refs[2:], "seen": []}, label


def bare(folder: Path, out: Path) -> float:
    """CPU seconds of pyarrow alone for the same rows with the same settings, one file after the other."""
    import pyarrow.parquet as pq

    out.mkdir()
    spent = 0.0
    for number, path in enumerate(sorted(folder.rglob("*.parquet"))):
        table = pq.read_table(path)
        start = time.process_time()
        settings = {"compression": "zstd", "compression_level": 3, "use_content_defined_chunking": True}
        pq.write_table(table, out / f"{number}.parquet", row_group_size=50_000, write_page_index=True, **settings)
        spent += time.process_time() - start
    return spent


# ---- how much of a changed release is uploaded again


def reupload(root: Path, rows: int) -> None:
    """The shares of bytes in whole releases that are new to Xet's own chunker, after changes of 1 %."""
    import hf_xet

    fill(root, rows)
    ws = store.Workspace.open(root)
    release(ws, "1.0.0")
    more = rows // 100
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(WORDS)]
    titles = [" ".join(rng.sample(words, 2)).title() for _ in range(FILMS)]
    pairs = list(_conversations(rows, rows + more, rng, words, titles))
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([t for t, _ in pairs]))
    store.append(ws, tables.LABELS, tables.LABELS.frame(label for _, label in pairs))
    release(ws, "1.1.0")
    fixed = store.read(ws, tables.LABELS).filter(verdict="present").sample(more, seed=5)
    null = pl.lit(None, pl.String)
    fixed = fixed.with_columns(verdict=pl.lit("absent"), form=null, spans=pl.lit([], pl.List(tables.SPAN)))
    store.append(ws, tables.LABELS, fixed.with_columns(label="fix-" + pl.col("label")))
    release(ws, "1.1.1")
    session = hf_xet.XetSession()
    shares = [_sent(session, root / "cas", root / "releases" / version) for version in ("1.0.0", "1.1.0", "1.1.1")]
    figure("release.reupload_first", shares[0], "ratio", "1 (all of it)")
    figure("release.reupload_append_1pct", shares[1], "ratio", "<= 0.03")
    figure("release.reupload_fix_1pct", shares[2], "ratio", "<= 0.05")


def _sent(session: Any, shelf: Path, folder: Path) -> float:
    """The share of a release's bytes that a store with the earlier releases does not have yet.

    File by file, as `publish --hub` sends large ones: then content shared by two configs is found.
    """
    shelf.mkdir(exist_ok=True)
    new = total = 0
    for path in sorted(folder.rglob("*.parquet")):
        commit = session.new_upload_commit(endpoint=f"local://{shelf}")
        commit.start_upload_file(str(path))
        metrics = commit.wait_to_finish().dedup_metrics
        new, total = new + metrics.new_bytes, total + metrics.total_bytes
    return float(new / total)
