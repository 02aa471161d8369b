"""Reddit dumps: from lines to conversations, what every line became, and what no line may do."""

import itertools
import json
import os
import random
import re
import shutil
import threading
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import zstandard

from saferec_builder.mining import privacy, reddit as command
from saferec_builder.sources import dumps, reddit
from saferec_builder.storage import tables, workspace as store
from tests.conftest import NOT_RUN
from tests.worlds import reddit_dump
from tests.worlds.reddit_dump import comment, line, submission

S = submission(1, author="Asker", title="Looking for a calm film", selftext="My wife Anna likes Heat (1995).")
THREAD = [
    comment(1, "s1", author="Helper", body="Try Alien (1979). Mail me: jo@example.org", score=2),
    comment(2, "s1", "t1_c1", author="asker", body="Thanks, adding it!", created_utc=1660002000),
    comment(3, "s1", author="Other", body="Ronin (1998)", score=50, created_utc=1660001500),
    comment(4, "s1", "t1_c3", author="third", body="no way", created_utc=1660001600),  # not to the seeker
    comment(5, "s1", "t1_c2", author="helper", body="Enjoy", created_utc=1660003000),
    comment(6, "s1", "t1_gone", author="late", body="Aliens (1986)"),  # its parent never comes
    comment(7, "s1", author="[deleted]", body="Thief (1981)"),
    comment(8, "s1", author="ghost", body="[removed]"),
    comment(9, "s1", author="AutoModerator", body="Read the rules"),
    comment(10, "s1", author="fan", body="Speed (1994)", score=3),
    comment(11, "elsewhere", author="fan", body="on a thread that is not here"),
]


@pytest.fixture
def catalog(cli, workspace, tmp_path):
    path = tmp_path / "items.csv"
    named = "Heat,1995 Alien,1979 Ronin,1998 Speed,1994 Thief,1981".split()
    path.write_text("source_id,title,year,domain\n" + "".join(f"i{n},{row},film\n" for n, row in enumerate(named)))
    ran = cli("catalog", "add", "csv", path, "-C", workspace.root)
    assert ran.code == 0, ran.err


def mined(cli, ws, *paths, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    ran = cli("mine", "reddit", *paths, "-C", ws.root, "--json", *words)
    assert ran.code == 0, ran.err
    return ran.json


def current(ws):
    return tables.last(store.read(ws, tables.CONVERSATIONS), "conversation").sort("source_id")


def balanced(told):
    """Every line became a post, a drop or is of another subreddit; every post a part of a conversation or a drop."""
    dropped = told["dropped"]
    assert told["in"] == told["out"] + sum(dropped.values())
    posts = told["posts"]
    used = told["requests"] + told["replies"] + told["comments_on_no_request"]
    after = ("no request", "talk among others", "parent missing", "same id")
    assert posts == used + sum(dropped.get(reason, 0) for reason in after)
    return True


def test_a_better_search_for_personal_data_reads_the_dumps_again(cli, workspace, tmp_path, monkeypatch):
    """Else the shards of an earlier run would hand their texts to every later one, and a release would stop at them."""
    rs = reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S])
    rc = reddit_dump.write(tmp_path / "RC_2022-08.ndjson", THREAD)
    with monkeypatch.context() as before:
        before.setattr(privacy, "redact_all", lambda texts, titles=None: (texts, Counter()))
        before.setattr(privacy, "rules", lambda: "of an earlier version")
        mined(cli, workspace, rs, rc)
        assert "jo@example.org" in str(current(workspace)["turns"].to_list())
    assert mined(cli, workspace, rs, rc)["added"] == 1  # a new revision
    said = str(current(workspace)["turns"].to_list())
    assert "[email]" in said and "jo@example.org" not in said
    assert mined(cli, workspace, rs, rc)["added"] == 0


def test_a_thread_becomes_one_conversation(cli, workspace, tmp_path, catalog):
    rs = reddit_dump.write(tmp_path / "RS_2022-08.ndjson", [S])
    rc = reddit_dump.write(tmp_path / "RC_2022-08.ndjson", THREAD)
    told = mined(cli, workspace, rs, rc)
    assert (told["in"], told["added"], balanced(told)) == (6, 1, True)
    assert told["dropped"] == {
        "talk among others": 1,
        "parent missing": 1,
        "deleted author": 1,
        "deleted text": 1,
        "bot": 1,
    }
    assert (told["lines"], told["comments_on_no_request"]) == (12, 1)
    row = current(workspace).row(0, named=True)
    assert [(t["role"], t["text"]) for t in row["turns"]] == [
        ("seeker", "Looking for a calm film\n\nMy wife [name] likes Heat (1995)."),
        ("recommender", "Try Alien (1979). Mail me: [email]"),
        ("recommender", "Speed (1994)"),
        ("recommender", "Ronin (1998)"),
        ("seeker", "Thanks, adding it!"),
        ("recommender", "Enjoy"),
    ]
    title = dict(store.read(workspace, tables.CATALOG_ROWS).select("source_id", "title").rows())
    names = {c: [title[ref.split(":", 1)[1]] for ref in row[c]] for c in ("recommended", "accepted", "seen")}
    # thanked for Alien, 50 votes for Ronin; 3 votes are under the bar of 10
    assert names == {"recommended": ["Alien", "Speed", "Ronin"], "accepted": ["Alien", "Ronin"], "seen": ["Heat"]}
    assert (row["domain"], row["time"].isoformat()) == ("film", "2022-08-08T23:06:41+00:00")
    again = mined(cli, workspace, rs, rc)
    assert (again["in"], again["added"], again["skipped"]) == (6, 0, 1)


def test_names_and_authors_never_reach_the_disk(cli, workspace, tmp_path):
    path = reddit_dump.write(tmp_path / "all.ndjson", [S, *THREAD])
    mined(cli, workspace, path)
    for file in workspace.root.rglob("*.parquet"):
        text = json.dumps(pl.read_parquet(file).to_dicts(), default=str).lower()
        assert not [word for word in ("asker", "helper", "example.org", "anna") if word in text], file
    origin = store.read(workspace, tables.ORIGINS)
    assert origin["source_id"].to_list() == ["t3_s1", "t1_c1", "t1_c10", "t1_c3", "t1_c2", "t1_c5"]
    assert origin["author"][0] == origin["author"][4] == current(workspace)["seeker"][0]
    assert origin["author"][1] == origin["author"][5]  # Helper and helper are one person


@pytest.mark.slow
def test_zst_and_plain_with_any_window_give_the_same(cli, tmp_path):
    from saferec_builder.storage.workspace import make

    rows = [S, *THREAD, *(comment(n, "s1", body="🙂 é " * (n % 50)) for n in range(20, 400))]
    data = "".join(line(row) + "\n" for row in rows).encode()
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=31, enable_ldm=True)
    files = {
        "plain.ndjson": data,
        "level3.zst": zstandard.ZstdCompressor().compress(data),
        "window31.zst": zstandard.ZstdCompressor(compression_params=wide).compress(data),
        "frames.zst": b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:999], data[999:], b"")),
        "no_end.ndjson": data[:-1],
    }
    found = []
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        make(tmp_path / name[:4], demo=False)
        ws = store.Workspace.open(tmp_path / name[:4])
        told = mined(cli, ws, tmp_path / name)
        found.append((told["dropped"], current(ws)["turns"].to_list()))
    assert all(one == found[0] for one in found) and len(found[0][1]) == 1


def test_what_no_line_may_do(cli, workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "LONGEST", 3_000_000)
    good = [line(S), line(comment(1, "s1"))]
    odd = [
        line(comment(20, "s1"))[:200],  # cut
        line(comment(21, "s1", created_utc="1660001234")),  # a number as text is a number
        line(comment(22, "s1", created_utc="yesterday")),
        line(comment(23, "s1", created_utc=1e18)),
        line(comment(24, "s1", body="\ud83d")),  # half a pair
        line(comment(25, "s1", body="\ud83d\ude00")),
        line(comment(26, "s1", body=["a"])),
        line(comment(27, "s1", author=None)),
        line(comment(28, "s1")).replace('"id":"c28",', ""),
        line(comment(29, "s1", parent="t1_c29")),  # its own parent
        "[1, 2]",
        '{"subreddit":"MovieSuggestions"}',
        line(comment(30, "s1", body="x" * 4_000_000)),
        '{"subreddit":"MovieSuggestions",}',
        "",
        line(comment(31, "s1", subreddit="movies", body='"subreddit":"MovieSuggestions"')),
        line(comment(1, "s1", body="the same id again")),
    ]
    path = tmp_path / "odd.ndjson"
    data = (
        "\n".join([*good, *odd]).encode() + b"\n" + line(comment(32, "s1")).replace("Heat", "He\xff").encode("latin1")
    )
    path.write_bytes(data)
    told = mined(cli, workspace, path)
    assert balanced(told)
    assert told["dropped"] == {
        "not JSON": 3,
        "wrong time": 2,
        "lone surrogate": 1,
        "wrong type": 1,
        "deleted author": 1,
        "missing field": 2,
        "talk among others": 1,
        "line too long": 1,
        "not UTF-8": 1,
        "same id": 1,
    }
    assert told["lines"] + 1 == len(good) + len(odd) + 1  # the line that is too long is never held, so never counted
    drops = store.read(workspace, tables.DROPS)
    places = {(r["place"], r["reason"]) for r in drops.to_dicts()}
    assert {("odd.ndjson:3", "not JSON"), ("odd.ndjson:15", "line too long"), ("odd.ndjson:20", "not UTF-8")} <= places
    texts = [t["text"] for t in current(workspace)["turns"][0]]
    assert "😀" in texts and not any("\x00" in text for text in texts)


def test_escaped_characters_are_read_as_json_means_them():
    # every run of up to three of: both halves of a pair in either case, a backslash, a plain escape, a letter
    parts = (r"\ud83d", r"\uDE00", r"\uD83D", "\\\\", r"\u0041", "d")
    bodies = ["".join(run) for n in range(1, 4) for run in itertools.product(parts, repeat=n)]
    for n, body in enumerate(bodies):  # each alone: one fault in a batch sends all its lines the slow way
        batch = reddit._Batch(Path("RC"), [n], [line(comment(n, "s1", body="@")).replace("@", body).encode()])
        frame, drops = reddit._parsed(batch)
        meant = json.loads(f'"{body}"')
        if re.search("[\ud800-\udfff]", meant):
            assert [drop["reason"] for drop in drops] == ["lone surrogate"], body
        else:
            assert (frame["body"].to_list(), drops) == ([meant], []), body


def test_a_frame_that_is_corrupt_or_cut_ends_its_file_and_keeps_what_came_before(cli, workspace, tmp_path):
    rows = [S, *(comment(n, "s1", body=str(random.Random(n).random()) * 20) for n in range(1_600))]
    data = "".join(line(row) + "\n" for row in rows).encode()
    half = len(data) // 2
    frames = [zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:])]
    cut = tmp_path / "cut.zst"
    cut.write_bytes(frames[0] + frames[1][:-500])
    broken = tmp_path / "broken.zst"
    broken.write_bytes(frames[0] + b"\x00" * 40 + frames[1])
    after = reddit_dump.write(tmp_path / "after.ndjson", [submission(2), comment(9_999, "s2")])
    told = mined(cli, workspace, cut, broken, after)
    assert told["added"] == 2 and balanced(told)
    assert told["dropped"]["unreadable from here on"] == 2
    faults = store.read(workspace, tables.DROPS).filter(pl.col("reason") == "unreadable from here on")
    assert faults["detail"].str.contains("corrupt zst frame").all()
    assert faults["place"].str.starts_with("broken.zst:").any()
    assert current(workspace)["turns"].list.len().to_list()[0] > 700


def test_a_fifo_is_read_and_an_empty_file_is_no_fault(cli, workspace, tmp_path):
    fifo = tmp_path / "pipe.ndjson"
    os.mkfifo(fifo)
    data = "".join(line(row) + "\n" for row in [S, *THREAD])
    writer = threading.Thread(target=lambda: fifo.write_text(data))
    writer.start()
    (tmp_path / "empty.ndjson").write_bytes(b"")
    (tmp_path / "empty.zst").write_bytes(b"")
    told = mined(cli, workspace, fifo, tmp_path / "empty.ndjson", tmp_path / "empty.zst", workers="1")
    writer.join()
    assert (told["added"], told["lines"]) == (1, 12)


def test_requests_are_told_by_flair_and_by_words(cli, workspace, tmp_path):
    kinds = [
        submission(1, link_flair_text="REQUESTING", title="A film", selftext=""),
        submission(2, link_flair_text=None, title="Looking for a film about trains", selftext=""),
        submission(3, link_flair_text="SUGGESTING", title="I recommend Heat", selftext=""),
        submission(4, link_flair_text=None, title="Saw Heat yesterday", selftext="It was long."),
        submission(5, link_flair_text="Discussion", title="What should I watch?", selftext=""),
    ]
    told = mined(cli, workspace, reddit_dump.write(tmp_path / "RS.ndjson", kinds))
    assert told["dropped"] == {"no request": 3} and balanced(told)
    assert current(workspace)["source_id"].to_list() == ["s1", "s2"]


def test_removals_are_honoured_by_mine_and_found_in_what_was_mined(cli, workspace, tmp_path):
    from saferec_builder.mining import removals

    rows = [S, *THREAD, submission(2, author="Bo"), comment(40, "s2", author="Helper"), submission(3)]
    path = reddit_dump.write(tmp_path / "all.ndjson", rows)
    mined(cli, workspace, path)
    wishes = workspace.root / "removals.csv"
    wishes.write_text("source,source_id,author\nreddit,,u/Helper\nreddit,t3_s3,\n")

    def gone():
        rows, origin = store.read(workspace, tables.CONVERSATIONS), store.read(workspace, tables.ORIGINS)
        return set(removals.gone(wishes, rows, origin, workspace.secret))

    rows = store.read(workspace, tables.CONVERSATIONS)
    of = dict(rows.select("source_id", "conversation").rows())
    assert gone() == {of["s1"], of["s2"], of["s3"]}  # Helper answers in the first two
    told = mined(cli, workspace, path)
    assert told["dropped"]["removed on request"] == 4  # three comments, one submission
    assert told["dropped"]["parent missing"] == 2  # the seeker's thanks to a comment that is not there any more
    assert store.read(workspace, tables.DROPS).filter(reason="removed on request")["detail"].unique().to_list() == [""]
    assert gone() == {of["s3"]}  # the new revisions of the others are without Helper
    rows, origin = store.read(workspace, tables.CONVERSATIONS), store.read(workspace, tables.ORIGINS)
    old = removals.removed(wishes, rows, origin, workspace.secret)  # the revisions before are not
    newest = rows.unique("conversation", keep="last").select("conversation", "digest")
    assert set(old["conversation"]) == {of["s1"], of["s2"], of["s3"]}
    assert set(old.join(newest, on=newest.columns, how="semi")["conversation"]) == {of["s3"]}
    assert mined(cli, workspace, path)["added"] == 0


def test_a_comment_is_removed_by_the_id_that_its_address_ends_with(cli, workspace, tmp_path):
    path = reddit_dump.write(tmp_path / "all.ndjson", [S, *THREAD])
    mined(cli, workspace, path)
    (workspace.root / "removals.csv").write_text("source,source_id,author\nreddit,c10,\n")
    assert cli("propose", "-C", workspace.root, "--json").json["withheld"] == 1  # what was mined before holds it
    assert mined(cli, workspace, path)["dropped"]["removed on request"] == 1
    assert "Speed (1994)" not in str(current(workspace)["turns"].to_list())


def test_files_of_one_name_in_two_folders_count_each_post(cli, tmp_path):
    """The same post at the same place of both, once with a later score: the table does not hang on their order."""
    rows = [S, comment(1, "s1", score=2)], [S, comment(1, "s1", score=50)]
    paths = []
    for n, part in enumerate(rows):
        (tmp_path / f"dump{n}").mkdir()
        paths.append(reddit_dump.write(tmp_path / f"dump{n}" / "RC.ndjson", part))
    one, two = (tables_of(cli, tmp_path / f"ws{n}", order) for n, order in enumerate((paths, paths[::-1])))
    assert all(a.equals(b) for a, b in zip(one, two, strict=True))  # tables_of has counted: four posts, two twice


def test_a_flair_that_its_author_wrote_reaches_no_disk(cli, workspace, tmp_path):
    path = reddit_dump.write(tmp_path / "RS.ndjson", [S | {"link_flair_text": "Request, mail jo@example.org"}])
    assert mined(cli, workspace, path)["added"] == 1
    posts = [pl.read_parquet(file) for file in (workspace.root / "mining").rglob("posts-*.parquet")]
    assert [frame["flair"].to_list() for frame in posts] == [["Request, mail [email]"]]


MONTHS = 3
TOLD = (tables.CONVERSATIONS, tables.ORIGINS, tables.MARKS, tables.CLUSTERS, tables.DROPS)


def tables_of(cli, root, dumps_, *, buckets=16, **how):
    """The tables of a fresh workspace after mining these dumps, with a secret that is the same for all."""
    from saferec_builder.storage.workspace import make

    make(root, demo=False)
    toml = root / "saferec.toml"
    toml.write_text(toml.read_text().replace("# buckets = 16 ", f"buckets = {buckets}"))
    (root / ".secret").write_bytes(b"the same for all, so that pseudonyms are")
    ws = store.Workspace.open(root)
    assert balanced(mined(cli, ws, *dumps_, **how))
    return [store.read(ws, table).sort(table.key) for table in TOLD]


@pytest.fixture
def months(tmp_path):
    found = []
    for month in range(MONTHS):
        rows = [submission(n) for n in range(month * 20, month * 20 + 20)]
        rows += [comment(month * 100 + n, f"s{n % 60}", author=f"h{n % 7}") for n in range(100)]
        found.append(reddit_dump.write(tmp_path / f"month{month}.ndjson", rows))
    return found


@pytest.mark.slow
def test_two_processes_and_many_buckets_give_the_same_tables(cli, tmp_path, months):
    one = tables_of(cli, tmp_path / "one", months, buckets=1, workers="1")
    two = tables_of(cli, tmp_path / "two", months, buckets=7, workers="2")
    assert one[0].height == 20 * MONTHS
    assert all(a.equals(b) for a, b in zip(one, two, strict=True))


def test_what_is_held_at_once_changes_no_table(cli, tmp_path, months, monkeypatch):
    whole = tables_of(cli, tmp_path / "whole", months, buckets=2, workers="1")
    monkeypatch.setattr(command, "_HELD", 1)  # every batch of lines is written at once
    monkeypatch.setattr(command, "_PART", 0)  # every shard is a part of its own
    monkeypatch.setattr(dumps, "_BLOCK", 60_000)
    monkeypatch.setattr(reddit, "_ENOUGH", 0)
    parts = tables_of(cli, tmp_path / "parts", months, buckets=2, workers="1")
    assert len(list((tmp_path / "parts" / "mining").glob("file-*/posts-0-*.parquet"))) >= 2 * MONTHS
    assert all(a.equals(b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.slow
def test_two_workers_of_ray_give_the_same_tables(cli, tmp_path, months):
    pytest.importorskip("ray", reason=f"{NOT_RUN}Ray (pip install --constraint constraints.txt ray)")
    one = tables_of(cli, tmp_path / "one", months, workers="1")
    two = tables_of(cli, tmp_path / "two", months, workers="2", engine="ray")
    assert all(a.equals(b) for a, b in zip(one, two, strict=True))


@pytest.mark.slow
def test_a_lost_node_costs_only_the_shards_that_it_had_not_done(cli, tmp_path, months):
    """The node is gone with its run: manifests that it wrote count, and what is missing is done by the next one."""
    one = tables_of(cli, tmp_path / "one", months, workers="1")
    tables_of(cli, tmp_path / "two", months, workers="1")
    staging = tmp_path / "two" / "mining"
    done = sorted(staging.glob("file-*.json"))
    done[0].unlink()
    shutil.rmtree(staging / done[0].stem)
    kept = {p: p.stat().st_mtime_ns for p in staging.glob("file-*.json")}
    ws = store.Workspace.open(tmp_path / "two")
    again = mined(cli, ws, *months, workers="1")
    assert again["added"] == 0 and done[0].exists()
    two = [store.read(ws, table).sort(table.key) for table in TOLD]
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert all(a.equals(b) for a, b in zip(one, two, strict=True))


def test_the_reader_counts_every_line(tmp_path):
    path = tmp_path / "RC.ndjson"
    lines = reddit_dump.bulk(path, 3, share=0.3)
    tally = reddit.Tally()
    read = list(reddit.read(path, ["MovieSuggestions"], tally))
    assert tally.lines == lines
    assert tally.passed == sum(frame.height for frame, _ in read) == path.read_text().count('"subreddit":"MovieSugg')
    assert not any(drops for _, drops in read)
