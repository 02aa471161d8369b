"""Reddit dumps: submissions and comments as JSON lines, plain, .gz or .zst, in the schema of the monthly files.

Only lines of the wanted subreddits are parsed. What passes: posts (id, link, parent, author, time, score, texts) with
the place of their line. A line that is no JSON object, or whose fields are not what they should be, is a row of drops.
"""

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import ahocorasick_rs
import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder import sources
from saferec_builder.core.shapes import field_names
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
_GONE = ["[deleted]", "[removed]", "[deleted by user]", "[ removed by reddit ]"]
_EVER = (1_100_000_000, 4_000_000_000)  # seconds of 2004 and 2096
NO_DUMP = "no dump of Reddit"
_NAMED = re.compile(rb'"subreddit"')  # so every post of a dump says where it stood
MOST_ODD = 100_000  # lines of a file that are no JSON: nobody needs a note on each of more
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
    batch, drops, size, strange = _Batch(path), [], 0, 0
    named, first = False, list[tuple[int, bytes]]()  # the first object of a file in which no line names a subreddit
    with ThreadPoolExecutor(1) as parsing:  # while it parses, the next blocks are searched
        due: Future[tuple[pl.DataFrame, Rows]] | None = None
        for block in dumps.blocks(path):
            tally.lines += block.ends.size
            odd = dumps.odd_lines(block)
            told = odd[: MOST_ODD - strange]
            drops += [_drop(path, block.first + n, "not JSON", "a cut line, or no object") for n in told]
            drops += [_drop(path, *fault) for fault in block.faults]
            strange += len(odd)
            named = named or bool(_NAMED.search(block.data))
            first = first if named or first else _first_object(block, odd)
            if strange > MOST_ODD:
                why = f"more than {MOST_ODD:,} lines are no JSON object: is this a dump of Reddit?"
                drops.append(_drop(path, block.first + int(block.ends.size), dumps.UNREADABLE, why))
                break
            size += batch.add(block, _matching(block, needles, odd))
            if size > _ENOUGH or len(drops) > 10_000:
                if due:
                    yield due.result()
                due = parsing.submit(_posts, batch, drops, wanted, tally)
                batch, drops, size = _Batch(path), [], 0
        if due:
            yield due.result()
        drops += [] if named else [_drop(path, number, NO_DUMP, _fields(line)) for number, line in first]
        yield _posts(batch, drops, wanted, tally)


_ENOUGH = 4 << 20  # bytes of passing lines that are parsed at once


@dataclass
class _Batch:
    """Lines that pass, and their numbers in the file."""

    path: Path
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)

    def add(self, block: dumps.Block, which: NDArray[np.int64]) -> int:
        """Copies these lines of the block; says how many bytes that were."""
        found = block.lines(which)
        self.numbers += (block.first + which).tolist()
        self.lines += found
        return sum(map(len, found))


def _matching(block: dumps.Block, needles: list[ahocorasick_rs.BytesAhoCorasick], odd: list[int]) -> NDArray[np.int64]:
    """Numbers of the lines in which a wanted name stands between quotes; what it names there is seen after parsing."""
    found = [at for needle in needles for _, at, _ in needle.find_matches_as_indexes(block.data)]
    lines = np.unique(np.searchsorted(block.ends, found))
    lines = lines[lines < block.ends.size]  # what comes after the last end is no line
    return np.setdiff1d(lines, odd) if odd else lines


def _first_object(block: dumps.Block, odd: list[int]) -> list[tuple[int, bytes]]:
    """The first line that may be an object, with its number in the file; nothing where there is none."""
    others = np.setdiff1d(np.arange(block.ends.size), odd)
    lines = zip((block.first + others).tolist(), block.lines(others), strict=True)
    return next(([(number, line)] for number, line in lines if line.strip()), [])


def _fields(line: bytes) -> str:
    row = sources.json_object(line.removeprefix(b"\xef\xbb\xbf").strip())
    found = row.detail if isinstance(row, Left) else f"found the fields {field_names(row) or '(none)'}"
    return f"no line of this file has a subreddit: {found}"


def _posts(batch: _Batch, drops: Rows, wanted: list[str], tally: Tally) -> tuple[pl.DataFrame, Rows]:
    frame, rejects = _parsed(batch)
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


def _parsed(batch: _Batch) -> tuple[pl.DataFrame, Rows]:
    """(FIELDS as strings and place, drops): all at once where every line is plain, else line by line."""
    text = b"\n".join(batch.lines)
    odd = _half_pairs(text, batch.lines)
    lines = [line for n, line in enumerate(batch.lines) if n not in odd] if odd else batch.lines
    try:
        frame = pl.read_ndjson(b"\n".join(lines) if odd else text, schema=_STRINGS) if lines else None
    except pl.exceptions.PolarsError:
        frame = None
    if frame is None or frame.height != len(lines):
        frame, odd = pl.DataFrame(schema=_STRINGS), set(range(len(batch.lines)))
    name = batch.path.name
    numbers = pl.Series("place", [number for n, number in enumerate(batch.numbers) if n not in odd], dtype=pl.Int64)
    fast = frame.with_columns(place=pl.lit(f"{name}:") + numbers.cast(pl.String))
    rest = ((f"{name}:{batch.numbers[n]}", batch.lines[n]) for n in sorted(odd))
    rows, drops = sources.each("mine", SOURCE, rest, _one)
    return pl.concat([fast, pl.DataFrame(rows, schema=fast.schema)]), drops


# polars reads the first half of a surrogate pair alone as a zero character: what is not a whole pair goes line by line
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = ahocorasick_rs.BytesAhoCorasick([b"\\ud", b"\\uD"])


def _half_pairs(text: bytes, lines: list[bytes]) -> set[int]:
    """Numbers of the lines, joined in `text`, that may hold half of a surrogate pair."""
    found = [at for _, at, _ in _ESCAPES.find_matches_as_indexes(text)]
    if not found:
        return set()
    ends = np.cumsum([len(line) + 1 for line in lines])
    escaped = np.unique(np.searchsorted(ends, found)).tolist()
    return {n for n in escaped if _HALF.search(_PAIR.sub(b"", lines[n]))}


def _one(place: str, line: bytes) -> Rows:
    # a key that comes twice passes here as it does where lines are read at once: to look for one would take too long
    row = sources.json_object(line.removeprefix(b"\xef\xbb\xbf").strip(), json.loads)
    if isinstance(row, Left):
        raise row
    found: Row = {name: _text(name, row.get(name)) for name in FIELDS}
    return [found | {"place": place}]


def _text(name: str, value: object) -> str | None:
    if isinstance(value, dict | list):
        raise Left("wrong type", f"{name}: found {type(value).__name__}, expected a text or a number")
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _drop(path: Path, line: int, reason: str, detail: str) -> Row:
    return sources.drop("mine", SOURCE, f"{path.name}:{line}", reason, detail)
