"""Files of conversations, items and warnings with arbitrary cells: in = out + dropped, and no traceback.

Each row becomes a row of a table or a drop with its reason; written to disk and read again, it is the same.
"""

import gzip
import io
import itertools
import json
import random
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import example, given, strategies as st

from saferec_builder.catalog.adding import REMARKS
from saferec_builder.core.errors import SafeRecError, SourceError
from saferec_builder.mining import removals
from saferec_builder.sources import (
    Read,
    conversation_rows as conversations,
    doesthedogdie as ddd,
    doesthedogdie_api as fetch,
    dumps,
    esrb,
    hf,
    imdb_titles,
    items_csv,
    items_demo,
    movielens,
    parent_guide,
    reddit,
    redial,
    redial_items,
    saferec,
    warnings_csv,
)
from saferec_builder.storage import tables
from tests.worlds import reddit_dump, source_lines
from tests.worlds.catalog_files import media
from tests.worlds.csv_rows import save
from tests.worlds.fuzz_strategies import CALM, TEXT, changed, values

pytestmark = pytest.mark.slow  # each runs on many examples

KNOWN = "1¦0¦2017¦film¦game¦tt0078748¦imdb:tt1¦Alien¦Mild¦Severe¦²¦٣¦\\N¦1e9¦9999999999¦Clear"
CELLS = st.sampled_from(KNOWN.split("¦")) | TEXT


def whole(read: Read, table: tables.Table | None = None) -> int:
    """Returns the number of rows and drops; both fit their tables and survive a round trip to disk."""
    assert read.rows.schema == (table.schema if table else conversations.SCHEMA)
    tables.check(read.drops, tables.DROPS)
    for frame in (read.rows, read.drops):
        file = io.BytesIO()
        frame.write_parquet(file)
        assert pl.read_parquet(file.getvalue()).equals(frame)
    assert read.drops["reason"].str.len_chars().min() != 0
    return read.rows.height + read.drops.height


ITEMS, WARNINGS = tables.CATALOG_ROWS, tables.WARNINGS
BLOODY = dict.fromkeys(esrb.ASKED, "0") | {"title": "Chess", "blood": "1", "esrb_rating": "T"}
GUIDE = "violence, profanity, drugs, frightening, year, imdb"
# reader, a valid row, the other columns
CSV: dict[str, tuple[Callable[[Path], Any], dict[str, str], str]] = {
    "items": (items_csv.read, {"domain": "film", "title": "It"}, "year, ids, aliases, genres, plot"),
    "warnings": (warnings_csv.read, dict(title="It", topic="blood", yes="3", no="1"), "year, imdb, domain, retrieved"),
    "movielens": (movielens.read, {"movieId": "1", "title": "It (2017)"}, "genres"),
    "certificates": (esrb.read, {"certificate": "1", "game": "Chess", "esrb_rating": "E"}, "platform_name"),
    "descriptors": (esrb.read, BLOODY, "console"),
    "guide": (parent_guide.read, {"title": "It", "sex": "Mild"}, GUIDE),
    "clear answers": (ddd.read, {"title": "It", "Clear Yes: blood": "1"}, "Clear No: blood, imdbId, movieId"),
}


@pytest.mark.parametrize("name", CSV)
@CALM
@given(st.data())
def test_every_row_of_a_table_makes_rows_or_is_a_drop(tmp_path: Path, name: str, data: st.DataObject) -> None:
    reader, valid, optional = CSV[name]
    columns = (*valid, *optional.split(", "))
    cells = st.dictionaries(st.sampled_from(columns), CELLS, max_size=5)
    rows = [valid, *(valid | changes for changes in data.draw(st.lists(cells, max_size=4)))]
    result = reader(save(tmp_path / "table.csv", rows, columns))
    of_items, of_warnings = (result, result) if isinstance(result, Read) else (result.items, result.warnings)
    if "warning" in of_warnings.rows.columns:
        assert whole(of_warnings, WARNINGS) >= 1 and of_warnings.figures["rows_read"] == len(rows)
    if "source_id" in of_items.rows.columns:
        remarks = of_items.drops.filter(pl.col("reason").is_in(REMARKS)).height  # no row is left out for them
        answers = reader is ddd.read  # a table of answers has no items of its own
        assert answers or whole(of_items, ITEMS) == len(rows) + remarks


TITLE = ("tt0078748", "movie", "Alien", "Alien", "1979", "Horror")
NO_TAB = CELLS.map(lambda text: re.sub(r"[\t\n\r]", " ", text))


@CALM
@given(st.lists(st.lists(NO_TAB, min_size=5, max_size=7), max_size=4), st.integers(0, 400))
def test_every_line_of_imdb_is_a_row_or_a_drop_or_of_another_kind(tmp_path, more, cut) -> None:
    lines = ["\t".join(row) for row in (imdb_titles.WANTED, TITLE, *more)]
    path = tmp_path / "titles.tsv"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    result = imdb_titles.read(path)
    kinds = result.drops.filter(reason="no film or series")["detail"].str.extract(r"^([\d,]+)").str.replace_all(",", "")
    total = whole(result, ITEMS) - kinds.len() + int(kinds.cast(pl.Int64).sum())
    assert total == sum(bool(line.strip()) for line in lines[1:])
    packed = gzip.compress("\n".join(lines).encode(), mtime=0)
    broken = bytearray(packed)
    broken[10 + cut % (len(packed) - 10)] ^= 0xFF
    for raw in (packed[: 2 + cut % (len(packed) - 2)], bytes(broken)):
        path.write_bytes(raw)
        with pytest.raises(SourceError):
            imdb_titles.read(path)


MEDIA = media(7, "Alien", imdb="tt0078748", stats=[("Is there blood", 3, 1)])
MEDIA |= {"ids": ["imdb:tt0078748"], "retrieved": "2026-01-01"}
MEDIA["item"]["tmdbId"] = 348


@CALM
@given(changed(MEDIA))
@example({**MEDIA, "ids": 5})
@example({**MEDIA, "item": {**MEDIA["item"], "tmdbId": "²"}})
@example({**MEDIA, "topicItemStats": [{"yesSum": 10**30, "topic": {"name": "blood"}}]})
def test_every_answer_of_a_site_is_an_item_or_a_drop(tmp_path: Path, answer: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps([MEDIA, answer]))
    try:
        result = ddd.read(tmp_path / "a.json")
    except SourceError:
        assert not isinstance(answer, dict)
        return
    whole(result.warnings, WARNINGS)
    absent = isinstance(answer, dict) and "absent" in answer
    assert whole(result.items, ITEMS) - result.items.drops.filter(reason="no topic").height == 2 - absent


@CALM
@given(changed({"7": {"name": "Alien (1979)", "genre": ["Horror"], "plot": None, "imdb_id": "tt0078748"}}) | values())
def test_every_film_of_redial_is_an_item_or_a_drop(tmp_path: Path, films: Any) -> None:
    (tmp_path / "id2info.json").write_text(json.dumps(films))
    if isinstance(films, dict):
        assert whole(redial_items.read(tmp_path / "id2info.json"), ITEMS) == len(films)
    else:
        with pytest.raises(SourceError):
            redial_items.read(tmp_path / "id2info.json")


INVENTED = {"title": "Bergamot", "year": 2011, "domain": "film", "genres": ["x"], "plot": "p", "id": 7}
LINES: dict[str, tuple[Callable[[Path], Read], Any, tables.Table | None]] = {
    "redial": (redial.read, source_lines.REDIAL, None),
    "saferec": (saferec.read, source_lines.OFFICIAL, None),
    "demo": (items_demo.read, INVENTED, ITEMS),
}


@pytest.mark.parametrize("name", LINES)
@CALM
@given(st.data())
def test_every_line_of_json_is_a_row_or_a_drop(tmp_path: Path, name: str, data: st.DataObject) -> None:
    reader, valid, table = LINES[name]
    rows = [valid, *data.draw(st.lists(changed(valid) | values(), max_size=3))]
    assert whole(reader(source_lines.jsonl(tmp_path / "lines.jsonl", *map(json.dumps, rows))), table) == len(rows)


ROW = {"id": "a", "messages": [{"from": "human", "value": "hi"}], "time": None, "seen": []}


@CALM
@given(st.lists(changed(ROW), max_size=3))
def test_every_row_of_a_dataset_is_a_row_or_a_drop(rows: list[Any]) -> None:
    rows = [row for row in rows if isinstance(row, dict)]
    assert whole(hf.of_rows("hf:x/y", rows, {})) == len(rows)


@CALM
@given(changed(json.loads(reddit_dump.line(reddit_dump.comment(1, "s1")))))
def test_every_post_is_passed_or_dropped_or_of_another_place(tmp_path: Path, post: Any) -> None:
    path = tmp_path / "RC.jsonl"
    valid = reddit_dump.line(reddit_dump.comment(2, "s1"))
    path.write_text(json.dumps(post, separators=(",", ":")) + "\n" + valid.strip() + "\n")
    tally = reddit.Tally()
    batches = list(reddit.read(path, ["MovieSuggestions"], tally, path.name))
    passed, dropped = sum(frame.height for frame, _ in batches), sum(len(drops) for _, drops in batches)
    is_ours = isinstance(post, dict) and post.get("subreddit") == "MovieSuggestions"
    assert tally.lines == 2 and tally.passed == passed >= 1 and passed + dropped >= 1 + is_ours


# ---- packed files


def test_a_frame_that_unpacks_to_a_thousand_times_its_size_is_never_in_memory_at_once(tmp_path: Path) -> None:
    """1 GiB without a line end in 100 kB: skipped, reported, and no block is larger than a line may be."""
    path, packer = tmp_path / "bomb.zst", zstandard.ZstdCompressor(level=3)
    frame = packer.compressobj()
    with open(path, "wb") as file:
        for _ in range(64):
            file.write(frame.compress(b"x" * (1 << 24)))
        file.write(frame.compress(b"\n{}\n") + frame.flush())
    assert path.stat().st_size < 1 << 20
    largest, faults, lines = 0, [], 0
    for block in dumps.blocks(path):
        largest, lines = max(largest, len(block.data)), lines + block.ends.size
        faults += block.faults
    assert [reason for _, reason, _ in faults] == ["line too long"] and lines == 1
    assert largest <= 2 * dumps.LONGEST


def test_a_dump_that_is_cut_anywhere_but_between_two_frames_is_told(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(150).replace(b"\n", b"x")  # cannot be compressed
    frames = [
        zstandard.compress(b"{1}\n" * 90),
        struct.pack("<II", 0x184D2A50, 5) + b"hello",  # a skippable frame
        zstandard.ZstdCompressor(write_checksum=True).compress(noise),
        *map(zstandard.compress, (noise, b"", b"x" * 9_000 + b"\n")),
    ]
    data, ends = b"".join(frames), set(itertools.accumulate(map(len, frames), initial=0))
    path = tmp_path / "cut.zst"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        blocks = list(dumps.blocks(path))
        reasons = [reason for block in blocks for _, reason, _ in block.faults]
        assert reasons == ([] if cut in ends else ["unreadable from here on"]), cut
        assert sum(block.ends.size for block in blocks) >= 90 * (cut >= len(frames[0])), cut


@pytest.mark.parametrize("last", [b"", b"y" * 90, b"z" * 450], ids=["line", "open", "too-long"])
def test_lines_are_the_same_wherever_the_parts_of_a_dump_end(tmp_path, monkeypatch, last: bytes) -> None:
    lines = [b"x" * n for n in (*range(40), 3_000, *range(200, 210))]
    monkeypatch.setattr(dumps, "LONGEST", 400)
    monkeypatch.setattr(dumps, "_SPARE", 100)
    path = tmp_path / "RC.zst"
    path.write_bytes(zstandard.compress(b"".join(line + b"\n" for line in lines) + last))
    expected = [line for line in lines if len(line) < 400] + [last] * (0 < len(last) < 400)
    for size in range(30, 300):
        monkeypatch.setattr(dumps, "_BLOCK", size)
        lines_read, faults = list[bytes](), list[str]()
        for block in dumps.blocks(path):  # a block's bytes are valid until the next is requested
            lines_read += block.lines(np.arange(block.ends.size))
            faults += [reason for _, reason, _ in block.faults]
        assert lines_read == expected and faults == ["line too long"] * (1 + (len(last) > 400)), size


def test_a_block_holds_until_the_next_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "_BLOCK", 50)  # one line each
    path = tmp_path / "RC.zst"
    lines = [f"{n:040}".encode() for n in range(30)]
    path.write_bytes(zstandard.compress(b"".join(line + b"\n" for line in lines)))
    lines_read = list[bytes]()
    for block in dumps.blocks(path):
        time.sleep(0.005)  # by now, all blocks of the read-ahead are unpacked
        lines_read += block.lines(np.arange(block.ends.size))
    assert lines_read == lines


# ---- removal requests, and answers of sites


@CALM
@given(st.lists(st.dictionaries(st.sampled_from(["source", "source_id", "author"]), CELLS, max_size=3), max_size=4))
def test_every_wish_to_be_removed_is_read_or_refused_in_a_line(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    path = save(tmp_path / "removals.csv", rows, ("source", "source_id", "author"))
    try:
        wishes = removals.read_removals(path)
    except SafeRecError as fault:
        assert "removals.csv" in str(fault)
        return
    requested = {value for _, value in (*wishes.ids, *wishes.authors)}
    assert {row.get("source_id", "").strip() for row in rows} - {""} <= requested  # no request is overlooked


FOUND = {"items": [{"id": 7, "name": "Alien", "releaseYear": "1979", "itemType": {"name": "Movie"}}]}


@CALM
@given(changed(FOUND) | values())
@example({"items": [{"id": 7, "imdbId": "tt1", "name": "Alien", "releaseYear": "²", "itemType": "Movie"}]})
@example({"items": [{"id": "²", "imdbId": "tt1", "name": "Alien"}]})
def test_any_answer_of_a_site_is_an_item_or_none_or_one_line(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(fetch, "_get", lambda site, path: answer)
    item = {"title": "Alien", "year": 1979, "domain": "film", "refs": ["imdb:tt0078748"]}
    try:
        assert fetch.media(fetch.Site("k"), item) is None or "topicItemStats" in answer
    except SourceError as fault:
        assert "has the API changed" in str(fault)
