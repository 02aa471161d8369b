"""Reddit dumps: submissions and comments as JSON lines, plain or .zst, in the schema of the monthly files.

Only lines of the wanted subreddits are parsed. What passes: posts (id, link, parent, author, time, score, texts) with
the place of their line. A line that is no JSON object, or whose fields are not what they should be, is a row of drops.
"""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ahocorasick_rs
import numpy as np
import polars as pl

from saferec_builder import sources
from saferec_builder.sources import Left, Rows, dumps

SOURCE = "reddit"
FIELDS = (
    *("id", "subreddit", "author", "created_utc", "score"),
    *("title", "selftext", "link_flair_text"),  # of submissions
    *("link_id", "parent_id", "body"),  # of comments
)
_STRINGS = pl.Schema({name: pl.String for name in FIELDS})
POSTS = pl.Schema(
    {
        "post": pl.String,  # t3_... or t1_...
        "link": pl.String,  # the submission's t3_...
        "parent": pl.String,  # null for a submission
        "subreddit": pl.String,
        "author": pl.String,  # lower case, as Reddit compares names
        "time": pl.Int64,
        "score": pl.Int64,
        "title": pl.String,
        "text": pl.String,
        "flair": pl.String,
        "place": pl.String,
    }
)
_GONE = ["[deleted]", "[removed]", "[deleted by user]", "[ removed by reddit ]"]
_EVER = (1_100_000_000, 4_000_000_000)  # seconds of 2004 and 2096
_BOTS = r"(?i)^automoderator$|[_-]bot$|^[a-z]+bot$"


@dataclass
class Tally:
    """What became of the lines of a file: lines = passed + other subreddits + blank + rejected."""

    lines: int = 0
    passed: int = 0


def read(path: Path, subreddits: Iterable[str], tally: Tally) -> Iterator[tuple[pl.DataFrame, Rows]]:
    """(rows of POSTS, drops) block by block."""
    wanted = sorted(subreddits)
    # one automaton per name: a single needle is searched several times faster than a set with a common beginning
    needles = [ahocorasick_rs.BytesAhoCorasick([f'"{name}"'.encode()]) for name in wanted]
    batch: list[tuple[int, bytes]] = []
    drops: Rows = []
    size = 0
    for block in dumps.blocks(path):
        tally.lines += block.ends.size
        odd = dumps.odd_lines(block)
        drops += [_drop(path, block.first + n, "not JSON", "a cut line, or no object") for n in odd]
        drops += [_drop(path, *fault) for fault in block.faults]
        for n in _matching(block, needles, set(odd)):
            batch.append((block.first + n, block.line(n)))
            size += len(batch[-1][1])
        if size > _ENOUGH or len(drops) > 10_000:
            yield _posts(path, batch, drops, wanted, tally)
            batch, drops, size = [], [], 0
    yield _posts(path, batch, drops, wanted, tally)


_ENOUGH = 16 << 20  # bytes of passing lines that are parsed at once


def _matching(block: dumps.Block, needles: list[Any], odd: set[int]) -> list[int]:
    """Numbers of the lines in which a wanted name stands between quotes; what it names there is seen after parsing."""
    if not block.ends.size:
        return []
    last = int(block.ends[-1])
    found = [at for needle in needles for _, at, _ in needle.find_matches_as_indexes(block.data) if at < last]
    lines = np.unique(np.searchsorted(block.ends, found)).tolist()
    return [n for n in lines if n not in odd] if odd else lines


def _posts(
    path: Path, batch: list[tuple[int, bytes]], drops: Rows, wanted: list[str], tally: Tally
) -> tuple[pl.DataFrame, Rows]:
    frame, rejects = _parsed(path, batch)
    drops = drops + rejects
    # the name may stand in a nested object only, as in a cross-post
    frame = frame.filter(pl.col("subreddit").is_in(wanted))
    time, score = (_whole(frame[c]) for c in ("created_utc", "score"))
    comment = pl.col("link_id").is_not_null()
    rows = frame.with_columns(time=time, score=score).select(
        post=pl.when(comment).then(pl.lit("t1_")).otherwise(pl.lit("t3_")) + pl.col("id"),
        link=pl.when(comment).then("link_id").otherwise(pl.lit("t3_") + pl.col("id")),
        parent=pl.when(comment).then(pl.coalesce("parent_id", "link_id")),
        subreddit="subreddit",
        author=pl.col("author").str.to_lowercase(),
        time="time",
        score=pl.col("score").fill_null(0),
        title="title",
        text=pl.when(comment).then("body").otherwise(pl.col("selftext").fill_null("")),
        flair="link_flair_text",
        place="place",
    )
    good, faults = _checked(rows)
    tally.passed += good.height
    return good, drops + faults


def _checked(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """Posts that say who wrote what when; the others with the first reason that holds."""
    text, title = pl.col("text"), pl.col("title")
    gone = text.str.strip_chars().str.to_lowercase().is_in(_GONE) | title.str.to_lowercase().is_in(_GONE).fill_null(
        False
    )
    reason = (
        pl.when(pl.col("post").is_null() | text.is_null() | (pl.col("parent").is_null() & title.is_null()))
        .then(pl.lit("missing field"))
        .when(~pl.col("time").is_between(*_EVER).fill_null(False))
        .then(pl.lit("wrong time"))
        .when(gone)
        .then(pl.lit("deleted text"))
        .when(pl.col("author").is_null() | pl.col("author").is_in(_GONE))
        .then(pl.lit("deleted author"))
        .when(pl.col("author").str.contains(_BOTS))
        .then(pl.lit("bot"))
    )
    judged = rows.with_columns(reason=reason)
    bad = judged.filter(pl.col("reason").is_not_null())
    drops = [sources.drop("mine", SOURCE, place, why) for place, why in bad.select("place", "reason").iter_rows()]
    return judged.filter(pl.col("reason").is_null()).select(list(POSTS)), drops


def _whole(values: pl.Series) -> pl.Series:
    """Numbers, and numbers as text; anything else is null."""
    return values.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)


def _parsed(path: Path, batch: list[tuple[int, bytes]]) -> tuple[pl.DataFrame, Rows]:
    """(FIELDS as strings and place, drops): all at once where every line is plain, else line by line."""
    # polars reads half a surrogate pair as a zero character: lines with such escapes go one by one
    plain = [(n, line) for n, line in batch if b"\\ud" not in line and b"\\uD" not in line]
    rest = [(n, line) for n, line in batch if b"\\ud" in line or b"\\uD" in line]
    try:
        frame = pl.read_ndjson(io.BytesIO(b"\n".join(line for _, line in plain)), schema=_STRINGS) if plain else None
    except pl.exceptions.PolarsError:
        frame = None
    if frame is None or frame.height != len(plain):
        plain, rest, frame = [], batch, pl.DataFrame(schema=_STRINGS)
    places = pl.Series("place", [f"{path.name}:{n}" for n, _ in plain], dtype=pl.String)
    rows, drops = sources.each("mine", SOURCE, ((f"{path.name}:{n}", line) for n, line in rest), _one)
    slow = pl.DataFrame(rows, schema={**_STRINGS, "place": pl.String})
    return pl.concat([frame.with_columns(places), slow]), drops


def _one(place: str, line: bytes) -> Rows:
    row = sources.json_object(line.removeprefix(b"\xef\xbb\xbf").strip())
    if isinstance(row, Left):
        raise row
    found = {name: _text(name, row.get(name)) for name in FIELDS}
    return [found | {"place": place}]


def _text(name: str, value: Any) -> str | None:
    if isinstance(value, dict | list):
        raise Left("wrong type", f"{name}: found {type(value).__name__}, wanted a text or a number")
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _drop(path: Path, line: int, reason: str, detail: str) -> dict[str, Any]:
    return sources.drop("mine", SOURCE, f"{path.name}:{line}", reason, detail)
