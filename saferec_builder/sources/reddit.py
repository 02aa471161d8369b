"""Reads Reddit dumps: submissions and comments as JSON lines, plain, .gz or .zst, in the schema of the monthly files.

Only lines of the wanted subreddits are parsed, into posts (id, link, parent, author, time, score, texts) with the
place of their line. A line that is no JSON object, or that has missing or wrong fields, is a row of drops.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import ahocorasick_rs
import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder import sources
from saferec_builder.core.value_shapes import field_names
from saferec_builder.sources import Left, Row, Rows, dumps

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
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}  # the only characters that Reddit's API escapes
_DELETED = ["[deleted]", "[removed]", "[deleted by user]", "[ removed by reddit ]"]
_TIMES = (1_100_000_000, 4_000_000_000)  # Unix seconds in 2004 and 2096
NO_TIME = "no created_utc"  # a dump of another tool may call it otherwise
_EXPECTED = {  # reason of a drop -> what a post needs
    "missing field": "expected id and title of a submission, id and body of a comment",
    NO_TIME: "expected the field created_utc: seconds since 1970, of 2004 or later",
    "wrong time": "created_utc: expected seconds since 1970, of 2004 or later",
}
NO_DUMP = "no dump of Reddit"
_SUBREDDIT = re.compile(rb'"subreddit"\s*:\s*"([\w-]+)"')  # in every post of a dump
MOST_ODD = 100_000  # the most lines per file that are no JSON objects; reading stops at one more
_BOTS = r"(?i)^automoderator$|[_-]bot$|^[a-z]+bot$"


@dataclass
class Tally:
    """Counts of a file's lines: lines = passed + other subreddits + blank + rejected."""

    lines: int = 0
    passed: int = 0
    first: Counter[str] = field(default_factory=Counter)  # subreddits of its first posts, wanted or not


def read(path: Path, subreddits: Iterable[str], tally: Tally, file: str) -> Iterator[tuple[pl.DataFrame, Rows]]:
    """Yields (rows of POSTS, drops), one pair per batch of lines; `file` names the file in their places."""
    names = {name.lower(): name for name in subreddits}
    # one automaton per name: a single needle is searched several times faster than a set with a common beginning
    needles = [ahocorasick_rs.BytesAhoCorasick([_folded(f'"{name}"'.encode()).tobytes()]) for name in sorted(names)]
    batch, drops, size, n_odd = _Batch(file), [], 0, 0
    first = list[tuple[int, bytes]]()  # the first object, while no line names a subreddit
    with ThreadPoolExecutor(1) as parsing:  # while it parses, the next blocks are searched
        pending: Future[tuple[pl.DataFrame, Rows]] | None = None
        for block in dumps.blocks(path):
            tally.lines += block.ends.size
            odd = dumps.odd_lines(block)
            listed = odd[: MOST_ODD - n_odd]
            drops += [_drop(file, block.first + n, "not JSON", "a cut line, or no object") for n in listed]
            drops += [_drop(file, *fault) for fault in block.faults]
            n_odd += len(odd)
            if not tally.first:
                tally.first.update(name.decode() for name in _SUBREDDIT.findall(block.data))
                first = first or _first_object(block, odd)
            if n_odd > MOST_ODD:
                detail = f"more than {MOST_ODD:,} lines are no JSON object: is this a dump of Reddit?"
                drops.append(_drop(file, block.first + int(block.ends.size), dumps.UNREADABLE, detail))
                break
            size += batch.add(block, _matching(block, needles, odd))
            if size > _BATCH_BYTES or len(drops) > 10_000:
                if pending:
                    yield pending.result()
                pending = parsing.submit(_posts, batch, drops, names, tally)
                batch, drops, size = _Batch(file), [], 0
        if pending:
            yield pending.result()
        drops += [] if tally.first else [_drop(file, number, NO_DUMP, _no_subreddit(line)) for number, line in first]
        yield _posts(batch, drops, names, tally)


_BATCH_BYTES = 4 << 20  # bytes of matching lines that are parsed at once


@dataclass
class _Batch:
    """Matching lines, and their numbers in the file."""

    file: str
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)

    def add(self, block: dumps.Block, indexes: NDArray[np.int64]) -> int:
        """Copies these lines of the block; returns their size in bytes."""
        lines = block.lines(indexes)
        self.numbers += (block.first + indexes).tolist()
        self.lines += lines
        return sum(map(len, lines))


def _matching(block: dumps.Block, needles: list[ahocorasick_rs.BytesAhoCorasick], odd: list[int]) -> NDArray[np.int64]:
    """Indexes of the lines with a wanted name between quotes, in any field; `_posts` checks the field after parsing."""
    folded = _folded(block.data).data
    offsets = [start for needle in needles for _, start, _ in needle.find_matches_as_indexes(folded)]
    indexes = np.unique(np.searchsorted(block.ends, offsets))
    indexes = indexes[indexes < block.ends.size]  # there is no line after the last end
    return np.setdiff1d(indexes, odd) if odd else indexes


def _folded(text: bytes | memoryview) -> NDArray[np.uint8]:
    """The bytes with capitals as small letters; it also mixes some marks up, but is as fast as a copy."""
    return np.frombuffer(text, np.uint8) | np.uint8(0x20)


def _first_object(block: dumps.Block, odd: list[int]) -> list[tuple[int, bytes]]:
    """The first line that is neither empty nor odd, with its number in the file; empty if there is none."""
    first = np.setdiff1d(np.flatnonzero(np.diff(block.ends, prepend=-1) > 1), odd)[:1]
    return [(block.first + n, line) for n, line in zip(first.tolist(), block.lines(first), strict=True)]


def _no_subreddit(line: bytes) -> str:
    row = sources.json_object(line.removeprefix(b"\xef\xbb\xbf").strip())
    problem = row.detail if isinstance(row, Left) else f"found the fields {field_names(row) or '(none)'}"
    return f"no line of this file has a subreddit: {problem}"


def _posts(batch: _Batch, drops: Rows, names: dict[str, str], tally: Tally) -> tuple[pl.DataFrame, Rows]:
    """Returns (rows of POSTS, `drops` and those of the batch), and counts the posts in `tally`. `names`: of subreddits
    in lower case -> as they are configured, which the posts get: Reddit takes no notice of capitals."""
    frame, rejects = _parsed(batch)
    drops = drops + rejects
    # a line may have the name in a nested object only, as in a cross-post
    name = pl.col("subreddit").str.to_lowercase()
    frame = frame.with_columns(name.replace_strict([*names], [*names.values()], default=None, return_dtype=pl.String))
    frame = frame.drop_nulls("subreddit")
    # also from numbers written as text; anything else is null
    columns = (frame[name].cast(pl.Float64, strict=False) for name in ("created_utc", "score"))
    time, score = (column.cast(pl.Int64, strict=False) for column in columns)
    comment = pl.col("link_id").is_not_null()
    rows = frame.with_columns(time=time, score=score).select(
        post=pl.when(comment).then(pl.lit("t1_")).otherwise(pl.lit("t3_")) + pl.col("id"),
        link=pl.when(comment).then("link_id").otherwise(pl.lit("t3_") + pl.col("id")),
        parent=pl.when(comment).then(pl.coalesce("parent_id", "link_id")),
        subreddit="subreddit",
        author=pl.col("author").str.to_lowercase(),
        time="time",
        dated=pl.col("created_utc").is_not_null(),
        score=pl.col("score").fill_null(0),
        title="title",
        text=pl.when(comment).then("body").otherwise(pl.col("selftext").fill_null("")),
        flair="link_flair_text",
        place="place",
    )
    posts, faults = _checked(rows.with_columns(pl.col("title", "text", "flair").str.replace_many(_ESCAPED)))
    tally.passed += posts.height
    return posts, drops + faults


def _checked(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """Returns (posts with an author, a text and a time, drops of the others with the first reason that applies)."""
    text, title = pl.col("text"), pl.col("title")
    no_text = text.str.strip_chars().str.to_lowercase().is_in(_DELETED)
    no_title = title.str.to_lowercase().is_in(_DELETED).fill_null(False)
    reason = (
        pl.when(pl.col("post").is_null() | text.is_null() | (pl.col("parent").is_null() & title.is_null()))
        .then(pl.lit("missing field"))
        .when(~pl.col("dated"))
        .then(pl.lit(NO_TIME))
        .when(~pl.col("time").is_between(*_TIMES).fill_null(False))
        .then(pl.lit("wrong time"))
        .when(no_text | no_title)
        .then(pl.lit("deleted text"))
        .when(pl.col("author").is_null() | pl.col("author").is_in(_DELETED))
        .then(pl.lit("deleted author"))
        .when(pl.col("author").str.contains(_BOTS))
        .then(pl.lit("bot"))
    )
    checked = rows.with_columns(reason=reason)
    bad = checked.filter(pl.col("reason").is_not_null())
    pairs = bad.select("place", "reason").iter_rows()
    drops = [sources.drop("mine", SOURCE, place, reason, _EXPECTED.get(reason, "")) for place, reason in pairs]
    return checked.filter(pl.col("reason").is_null()).select(list(POSTS)), drops


def _parsed(batch: _Batch) -> tuple[pl.DataFrame, Rows]:
    """Returns (FIELDS as strings and `place`, drops). All lines are parsed at once; if that fails, each alone, as are
    those with a zero character: polars reads a lone first half of a surrogate pair as one."""
    places = pl.Series("place", [f"{batch.file}:{number}" for number in batch.numbers], dtype=pl.String)
    frame = pl.DataFrame(schema=_STRINGS)
    with suppress(pl.exceptions.PolarsError):
        frame = pl.read_ndjson(b"\n".join(batch.lines), schema=_STRINGS) if batch.lines else frame
    if frame.height == len(batch.lines):
        is_odd = frame.select(pl.any_horizontal(pl.all().str.contains("\0", literal=True).fill_null(False))).to_series()
        posts, odd = frame.with_columns(places).filter(~is_odd), is_odd.arg_true().to_list()
    else:
        posts, odd = frame.clear().with_columns(places.clear()), [*range(len(batch.lines))]
    rows, drops = sources.parse_rows("mine", SOURCE, [(places[n], batch.lines[n]) for n in odd], _parse_line)
    return pl.concat([posts, pl.DataFrame(rows, schema=posts.schema)]), drops


def _parse_line(place: str, line: bytes) -> Rows:
    row = sources.json_object(line.removeprefix(b"\xef\xbb\xbf").strip(), _fields)
    if isinstance(row, Left):
        raise row
    fields: Row = {name: _string(name, value) for name, value in row.items()}
    return [fields | {"place": place}]


def _fields(text: str) -> object:
    """FIELDS of a line; as if lines are parsed at once, nothing is asked of others, nor of a key that comes twice."""
    row = json.loads(text)
    return {name: row.get(name) for name in FIELDS} if isinstance(row, dict) else row


def _string(name: str, value: object) -> str | None:
    if isinstance(value, dict | list):
        raise Left("wrong type", f"{name}: found {type(value).__name__}, expected a text or a number")
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _drop(file: str, line: int, reason: str, detail: str) -> Row:
    return sources.drop("mine", SOURCE, f"{file}:{line}", reason, detail)
