"""Packed dumps: any window, a corrupt frame, and what no line may cause."""

import gzip
import random
from collections import Counter

import numpy as np
import polars as pl
import pytest
import zstandard

from saferec_builder.sources import dumps
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.catalog_files import file
from tests.worlds.reddit_dump import comment, line, submission
from tests.worlds.reddit_mined import S, balanced, current, mined


def test_zst_and_plain_with_any_window_give_the_same(tmp_path):
    lines = ["🙂 é ".encode() * (n % 50) + b"%d" % n for n in range(400)]
    data = b"\n".join([*lines, b""])
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=31, enable_ldm=True)
    files = {
        "plain.ndjson": data,
        "level3.zst": zstandard.ZstdCompressor().compress(data),
        "window31.zst": zstandard.ZstdCompressor(compression_params=wide).compress(data),
        "frames.zst": b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:999], data[999:], b"")),
        "no_end.ndjson": data[:-1],
        "gzip.gz": gzip.compress(data[:999]) + gzip.compress(data[999:]),
    }
    for name, content in files.items():
        blocks = dumps.blocks(file(tmp_path, name, content))
        assert [line for block in blocks for line in block.lines(np.arange(block.ends.size))] == lines, name


def test_what_no_line_may_do(cli, workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "LONGEST", 3_000_000)
    odd = [  # each with the reason why it is left out
        (line(S), None),
        (line(comment(1, "s1")), None),
        (line(comment(20, "s1"))[:200], "not JSON"),  # cut
        (line(comment(21, "s1", created_utc="1660001234")), None),  # a number as text is a number
        (line(comment(22, "s1", created_utc="yesterday")), "wrong time"),
        (line(comment(23, "s1", created_utc=1e18)), "wrong time"),
        (line(comment(24, "s1", body="\ud83d")), "lone surrogate"),  # half a pair
        (line(comment(25, "s1", body="\ud83d\ude00")), None),
        (line(comment(26, "s1", body=["a"])), "wrong type"),
        (line(comment(27, "s1", author=None)), "deleted author"),
        (line(comment(28, "s1")).replace('"id":"c28",', ""), "missing field"),
        (line(comment(29, "s1", parent="t1_c29")), "talk among others"),  # its own parent
        ("[1, 2]", "not JSON"),
        ('{"subreddit":"MovieSuggestions"}', "missing field"),
        (line(comment(30, "s1", body="x" * 4_000_000)), "line too long"),
        ('{"subreddit":"MovieSuggestions",}', "not JSON"),
        ("", None),
        (line(comment(31, "s1", subreddit="movies", body='"subreddit":"MovieSuggestions"')), None),
        (line(comment(1, "s1", body="the same id again")), "same id"),
        (line(comment(32, "s1")).replace("Heat", "He\xff"), "not UTF-8"),
    ]
    path = tmp_path / "odd.ndjson"
    path.write_bytes("\n".join(text for text, _ in odd).encode("latin1"))
    summary = mined(cli, workspace, path)
    assert balanced(summary)
    assert summary["dropped"] == Counter(reason for _, reason in odd if reason)
    assert summary["lines"] + 1 == len(odd)  # the line that is too long is never read whole, so never counted
    drops = store.read(workspace, tables.DROPS)
    places = {(r["place"], r["reason"]) for r in drops.to_dicts()}
    assert {("odd.ndjson:3", "not JSON"), ("odd.ndjson:15", "line too long"), ("odd.ndjson:20", "not UTF-8")} <= places
    texts = [t["text"] for t in current(workspace)["turns"][0]]
    assert "😀" in texts and not any("\x00" in text for text in texts)


@pytest.mark.slow
def test_a_frame_that_is_corrupt_or_cut_ends_its_file_and_keeps_what_came_before(cli, workspace, tmp_path):
    rows = [S, *(comment(n, "s1", body=str(random.Random(n).random()) * 20) for n in range(1_600))]
    data = "".join(line(row) + "\n" for row in rows).encode()
    half = len(data) // 2
    frames = [zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:])]
    cut = file(tmp_path, "cut.zst", frames[0] + frames[1][:-500])
    broken = file(tmp_path, "broken.zst", frames[0] + b"\x00" * 40 + frames[1])
    packed = file(tmp_path, "cut.gz", gzip.compress(data)[:-5000])
    later = reddit_dump.write(tmp_path / "after.ndjson", [submission(2), comment(9_999, "s2")])
    result = cli("mine", "reddit", cut, broken, packed, later, "-C", workspace.root, "--json")
    assert result.code == 1 and "get this file whole, and mine it again" in result.err
    summary = result.json
    assert summary["added"] == 2 and balanced(summary)
    assert summary["dropped"]["unreadable from here on"] == 3
    faults = store.read(workspace, tables.DROPS).filter(pl.col("reason") == "unreadable from here on")
    assert faults["detail"].str.contains("corrupt (zst frame|gzip file): ").all()
    assert faults["place"].str.starts_with("broken.zst:").any()
    assert current(workspace)["turns"].list.len().to_list()[0] > 700
