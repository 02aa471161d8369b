"""Reads files from outside: each file gives a table, and every row that is left out becomes a row of DROPS.

A reader is a function of one row that returns table rows or raises `Left`; `jsonl` and `csv_rows` open the file, count
its lines and collect the drops. No row of a file can stop a run; only a file of a wrong kind does.
"""

import _csv
import codecs
import csv
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from saferec_builder.core.errors import KeyTwice, SourceError, UsageError, is_utf8, near, strict_json
from saferec_builder.core.plain_files import packed_as
from saferec_builder.core.value_shapes import field_names, seen
from saferec_builder.storage import tables

DOMAINS = ("film", "series", "game", "book")
TWICE, NOT_UTF8 = "key twice", "not UTF-8"  # why a row is left out; a key in one JSON object
NOT_READ = "column not read"  # a remark on a header: no row is left out for it
PACKED = 100  # a packed file may unpack to so many times its size; text has about 5
LONGEST = 16 * 2**20  # bytes of a line; the longest dialogues have a few hundred thousand
_OF_ARRAYS = ": write each of its objects on a line (`jq -c '.[]' FILE`)"
_PLACE = 400  # characters of a place: a file's name with a line or a JSON key, which may be long
csv.field_size_limit(1_000_000)  # an unclosed quote must not swallow the rest of a large file
_COLUMNS = "title name year domain imdb imdbId tmdb tmdbId movieId url retrieved keywords tag".split()  # also `Title`

Row = dict[str, object]  # of a table, or of a file that names its fields
Rows = list[Row]
Outside = TypeVar("Outside")  # a row from outside, at a place of a file
Made = TypeVar("Made")  # what a reader makes of such a row


class Left(Exception):
    """This row is left out: a short reason that can be counted, and what was found and expected."""

    def __init__(self, reason: str, detail: str = "", place: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.place = reason, detail, place


@dataclass(frozen=True)
class Read:
    """The result of one file: rows of a table, rows of DROPS, and figures of its reader."""

    rows: pl.DataFrame
    drops: pl.DataFrame
    figures: dict[str, int] = field(default_factory=dict)


def together(reads: Iterable[Read], schema: pl.Schema) -> Read:
    """Joins the results of several files; `schema` is that of their rows, also for no files."""
    parts = [Read(pl.DataFrame(schema=schema), tables.DROPS.empty), *reads]
    figures: Counter[str] = Counter()
    for part in parts:
        figures.update(part.figures)
    return Read(pl.concat(part.rows for part in parts), pl.concat(part.drops for part in parts), dict(figures))


def reasons(drops: pl.DataFrame) -> dict[str, int]:
    """The number of dropped rows per reason, for the last lines of a command."""
    return dict(sorted(Counter(drops["reason"]).items()))


def examples(drops: pl.DataFrame) -> dict[str, str]:
    """The first dropped row of each reason: its place, and what was found and expected, to correct the file."""
    first = drops.unique("reason", keep="first", maintain_order=True).select("reason", "place", "detail")
    return {reason: f"{place}: {detail}" if detail else place for reason, place, detail in first.iter_rows()}


def jsonl(
    path: Path, stage: str, source: str, parse_row: Callable[[str, Row], Sequence[Made | Left]]
) -> tuple[list[Made], Rows]:
    """Returns (table rows, drops) of a file with one JSON object per line; skips blank lines."""
    return parse_rows(stage, source, _json_lines(path), parse_row)


def csv_rows(
    path: Path,
    stage: str,
    source: str,
    parse_row: Callable[[str, dict[str, str]], Sequence[Made | Left]],
    *,
    expected: Iterable[str],
    others: Iterable[str] | None = None,
    tabs: bool = False,
) -> tuple[list[Made], Rows]:
    """Returns (table rows, drops) of a file with the `expected` columns, by commas, or by tabs without quotes.

    others: all other columns that are read; a further one is a drop, so that a misspelt one is noticed. None: files
    may have further columns, which are not needed.
    """
    return parse_rows(stage, source, _csv_lines(path, list(expected), others, tabs), parse_row)


def parse_rows(
    stage: str,
    source: str,
    lines: Iterable[tuple[str, Outside | Left]],
    parse_row: Callable[[str, Outside], Sequence[Made | Left]],
) -> tuple[list[Made], Rows]:
    """Returns (results of `parse_row` on the outside rows, drops); it may also return `Left` for a part of its row."""
    rows: list[Made] = []
    drops: Rows = []
    for place, row in lines:
        try:
            for result in [row] if isinstance(row, Left) else parse_row(place, row):
                if isinstance(result, Left):
                    drops.append(drop(stage, source, result.place or place, result.reason, result.detail))
                else:
                    rows.append(result)
        except Left as left:
            drops.append(drop(stage, source, left.place or place, left.reason, left.detail))
        except ValidationError as fault:
            drops.append(drop(stage, source, place, "wrong type", _fault(fault)))
    return rows, drops


def drop(stage: str, source: str, place: str, reason: str, detail: str = "") -> Row:
    """One row of DROPS."""
    return {"stage": stage, "source": source, "place": place[:_PLACE], "reason": reason, "detail": readable(detail)}


def existing(path: Path) -> Path:
    """Returns the path if it is a readable file; raises UsageError if not."""
    if not path.is_file():
        raise UsageError(f"{path}: {'no file' if path.exists() else 'no such file'}: expected a file to read")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path}: you may not read this file")
    if not is_utf8(path.name):  # it is a part of the place of every row
        raise UsageError(f"{path}: the file's name is not UTF-8: give it another one")
    return path


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file that may be gzipped; raises SourceError where it is cut, unpacks to over PACKED times its size, or
    is packed otherwise, as spreadsheets are."""
    with existing(path).open("rb") as file:
        if (kind := packed_as(file.read(16))) not in (None, "gzip"):
            raise SourceError(f"{path}: a packed file ({kind}): save a spreadsheet as CSV in UTF-8, unpack others")
        file.seek(0)
        try:
            yield _Packed(file, PACKED * path.stat().st_size + LONGEST) if kind else file  # type: ignore[misc]
        except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
            raise SourceError(f"{path}: cut or no gzip file ({fault}): expected a whole one: fetch it again") from None


class _Packed(gzip.GzipFile):
    """A gzip file that raises an error where it unpacks to more than `most` bytes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        super().__init__(fileobj=file)
        self.left = most

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        self.left -= len(data)
        if self.left < 0:
            raise gzip.BadGzipFile(f"it unpacks to more than {PACKED} times its size")
        return data


def bounded_parquet(path: Path) -> Path:
    """Returns the path of a readable parquet file; raises SourceError if it unpacks to over PACKED times its size."""
    remaining = PACKED * existing(path).stat().st_size + LONGEST
    try:
        for batch in pq.ParquetFile(path).iter_batches(64):
            remaining -= batch.nbytes
            if remaining < 0:
                raise SourceError(
                    f"{path}: it unpacks to more than {PACKED} times its size: give the rows as JSON lines"
                )
    except (OSError, pa.ArrowException) as fault:
        raise SourceError(f"{path}: not a parquet file ({readable(str(fault))})") from None
    return path


def json_file(path: Path, expected: str) -> object:
    """Returns the value of a whole JSON file; `expected` says in an error what it should hold."""
    try:
        return strict_json(content(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as fault:
        raise SourceError(f"{path}: not a JSON file ({readable(str(fault))}): expected {expected}") from None


def content(path: Path) -> bytes:
    """All bytes of a file that may be gzipped."""
    with opened(path) as file:
        return b"".join(_blocks(file))


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes of an opened file, by the one call for which `_Packed` counts what it unpacks."""
    return iter(partial(file.read1, 2**20), b"")  # type: ignore[attr-defined]


def without_surrogates(value: Outside) -> Outside | Left:
    """Returns the value, or `Left` where a text in it has a lone surrogate, which no file could keep."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # typed columns may hold times and bytes
    except UnicodeEncodeError:
        return Left("lone surrogate", "half of a character: \\ud800-\\udfff without its partner")
    except RecursionError:  # nested nearly as deeply as can be read
        return Left("not JSON", "brackets without end")
    return value


def whole_number(text: str, name: str) -> int:
    """Returns the number that a field must hold; raises `Left` where it is none."""
    if not (number := digits(text)):
        raise Left("not a number", f"{name}: {seen(text)}, expected a whole number, 0 or more")
    return int(number)


def digits(cell: str) -> str:
    """The digits of a whole number, also as pandas writes it if another row has none (1979.0); else an empty text."""
    number = cell.strip().removesuffix(".0")
    return number if number.isascii() and number.isdigit() and len(number) < 10 else ""


def readable(text: str, most: int = 200) -> str:
    """Outside text as a table or a message may show it: valid Unicode, one line, cut to `most` characters."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:most]


def _json_lines(path: Path) -> Iterator[tuple[str, Row | Left]]:
    with opened(path) as file:
        for number, line in lines(file):
            if isinstance(line, Left):
                yield f"{path.name}:{number}", line
            elif line := line.removeprefix(b"\xef\xbb\xbf").strip():
                yield f"{path.name}:{number}", json_object(line)


def lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | Left]]:
    """Yields (number, line) of each line of a file that is not empty, without its end.

    Skips empty lines quickly, as a few packed bytes can hold millions of them; a line that is too long to be a row is
    never in memory.
    """
    number, rest, skipping = 0, b"", False
    too_long = Left("line too long", f"expected at most {LONGEST:,} bytes")
    for block in _blocks(file):
        if not rest and not skipping and block.count(b"\n") == len(block):
            number += len(block)
            continue
        complete = block.split(b"\n")
        complete[0] = rest + complete[0]
        rest = complete.pop()
        for line in complete:
            number += 1
            if skipping or len(line) > LONGEST:
                yield number, too_long
                skipping = False
            elif line:
                yield number, line
        if skipping or len(rest) > LONGEST:
            skipping, rest = True, b""
    if skipping or rest:
        yield number + 1, too_long if skipping else rest


def json_object(line: bytes, parse: Callable[[str], object] = strict_json) -> Row | Left:
    """Returns the object that a line of JSON is, or `Left` with what it is instead."""
    try:
        return an_object(parse(line.decode("utf-8")), escaped=rb"\u" in line)
    except UnicodeDecodeError:
        return Left(NOT_UTF8)
    except KeyTwice as fault:
        return Left(TWICE, str(fault))
    except (ValueError, RecursionError) as fault:
        problem = f"an array begins here{_OF_ARRAYS}" if line.startswith(b"[") else fault
        return Left("not JSON", f"expected an object on each line: {problem}")


def an_object(row: object, *, escaped: bool = True) -> Row | Left:
    """Returns a JSON value as a row, or `Left`; only where it was `escaped` can it have a lone surrogate."""
    if not isinstance(row, dict):
        return Left("not JSON", f"expected an object: found {type(row).__name__}{_OF_ARRAYS * isinstance(row, list)}")
    return without_surrogates(row) if escaped else row


def _csv_lines(
    path: Path, expected: list[str], others: Iterable[str] | None, tabs: bool
) -> Iterator[tuple[str, dict[str, str] | Left]]:
    coding, delimiter = ("utf-8-sig", "\t") if tabs else spelling(path, expected)
    errors = "replace" if coding == "utf-16" else "surrogateescape"
    with opened(path) as raw, TextIOWrapper(raw, coding, errors, newline="") as file:
        quoting: _csv._QuotingType = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
        reader = csv.reader(_bounded(file), delimiter=delimiter, quoting=quoting, strict=True)
        written = _header(record for _, record in _csv_records(reader))
        spellings = {name.lower(): name for name in (*_COLUMNS, *expected, *(others or ()))}
        header = [spellings.get(name.lower(), name) for name in written]
        missing = [name for name in expected if name not in header]
        if missing or not header:
            problem = f"column {missing[0]!r} is missing" if missing and header else "no header line"
            names = readable((";" if delimiter == ";" else ",").join(written)) or "nothing"
            marks = "tabs" if tabs else "commas, semicolons or tabs"
            expectation = f"a table with {marks} and the columns {','.join(expected)}"
            raise SourceError(f"{path}: {problem}: expected {expectation}, found {names}")
        # of two severities the last would count, even a milder one
        if twice := [name for name, n in Counter(header).items() if name and n > 1]:
            raise SourceError(f"{path}: two columns are called {readable(twice[0])!r}: expected each once: rename one")
        if others is not None and (unknown := [name for name in header if name and name not in {*expected, *others}]):
            yield f"{path.name}:1", Left(NOT_READ, f"{', '.join(unknown)}: {near(unknown[0], others)}")
        cells = partial(_csv_row, header, delimiter)
        yield from ((f"{path.name}:{n}", cells(record)) for n, record in _csv_records(reader) if record)


def header(path: Path) -> list[str]:
    """The columns of a table as they are written; empty where no csv reader can read them."""
    coding, mark = spelling(path)
    with opened(path) as raw, TextIOWrapper(raw, coding, "replace", newline="") as file:
        return _header(record for _, record in _csv_records(csv.reader(_bounded(file), delimiter=mark, strict=True)))


def _header(records: Iterator[list[str] | Left]) -> list[str]:
    first = next(records, [])
    if not isinstance(first, Left) and first and first[0].startswith("sep="):
        first = next(records, [])
    return [] if isinstance(first, Left) else [name.strip() for name in first]


def _bounded(file: TextIOWrapper) -> Iterator[str]:
    """Yields the lines of a file; for one too long to be a row, which is never in memory, a line that csv refuses."""
    while line := file.readline(LONGEST):
        if len(line) < LONGEST or line.endswith("\n"):
            yield line
            continue
        while line and not line.endswith("\n"):
            line = file.readline(LONGEST)
        yield "x" * (csv.field_size_limit() + 1) + "\n"


def spelling(path: Path, expected: Iterable[str] = ()) -> tuple[str, str]:
    """Returns (encoding, delimiter), as spreadsheets write: UTF-8 or UTF-16 with a mark; comma, semicolon or tab."""
    with opened(path) as file:
        head = file.read(2**16)
    coding = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    first = [*head.decode(coding, "replace").lstrip().splitlines(), ""][0].strip(" ")
    if first.startswith("sep=") and len(first) == 5:
        return coding, first[4]
    return coding, max(",;\t", key=lambda m: ({*next(csv.reader([first], delimiter=m))} >= {*expected}, first.count(m)))


def _csv_records(reader: _csv.Reader) -> Iterator[tuple[int, list[str] | Left]]:
    """Yields (line, record), and `Left` for each line that the csv module cannot read: an open quote takes many."""
    while True:
        start = reader.line_num
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            yield from ((n, Left("not CSV", str(fault))) for n in range(start + 1, reader.line_num + 1))
        else:
            yield reader.line_num, record


def _csv_row(header: list[str], delimiter: str, record: list[str] | Left) -> dict[str, str] | Left:
    """The cells by column; those of a column without a name, such as row numbers of pandas, are not read."""
    if isinstance(record, Left):
        return record
    if not any(map(str.strip, record)):  # spreadsheets write ;;;; for an empty row
        return Left("empty row", "no cell holds anything")
    if len(record) > len(header):
        hint = "is a tab in a cell?" if delimiter == "\t" else f"is a {delimiter!r} not quoted?"
        return Left("too many fields", f"found {len(record)}, expected {len(header)}: {hint}")
    if not is_utf8("".join(record)):
        return Left(NOT_UTF8, "save the file as CSV in UTF-8, and read it again")
    cells = [cell.strip() for cell in record] + [""] * (len(header) - len(record))
    if any(not name and len(cell.splitlines()) > 1 for name, cell in zip(header, cells, strict=True)):
        return Left("a cell of two lines", "in a column without a name: is a quote not closed?")
    return {name: cell for name, cell in zip(header, cells, strict=True) if name}


def _fault(fault: ValidationError) -> str:
    """Says where a value is wrong and what is expected; never the value, which may be somebody's words."""
    first = fault.errors()[0]
    where, value = ".".join(map(str, first["loc"])), first["input"]
    if first["type"] == "missing":  # the other fields show what the file calls it
        return f"{where} is missing, found {field_names(value) if isinstance(value, dict) else type(value).__name__}"
    return f"{where}: found {type(value).__name__}: {first['msg']}"
