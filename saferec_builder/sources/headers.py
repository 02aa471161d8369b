"""Which source a table is for, as its header tells: for whoever names another one at `catalog add`."""

import csv
import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from saferec_builder import sources
from saferec_builder.core.taxonomy import GUIDE
from saferec_builder.sources import esrb, items_csv, movielens, rating_reasons, warnings_csv
from saferec_builder.sources.item_rows import Source


@dataclass(frozen=True)
class Mark:
    """Columns by which a table is known as one for `source`.

    many: of one item it has many rows; read as items, all but the first would be dropped as `same id`.
    """

    source: Source
    columns: tuple[str, ...]
    many: bool = False


MARKS = (
    Mark(Source.warnings, warnings_csv.NEEDED, many=True),
    Mark(Source.keywords, ("movieId", "tag"), many=True),
    Mark(Source.keywords, ("keywords",)),
    Mark(Source.rating_reasons, rating_reasons.NEEDED),
    Mark(Source.parent_guide, GUIDE),
    Mark(Source.esrb, ("certificate", "game")),
    Mark(Source.esrb, ("console", esrb.NOTHING)),
    Mark(Source.movielens, movielens.NEEDED),
    Mark(Source.imdb, ("tconst", "titleType")),
    Mark(Source.csv, items_csv.NEEDED),
)


def others(source: Source, path: Path) -> list[Mark]:
    """The marks of other sources that the file's header has; none of a folder, or of what is no table.

    A table that is one for `source` is none of items of one's own: any source may name an item by domain, title, year.
    """
    header = {name.casefold() for name in _header(path)} if path.is_file() else set()
    found = [mark for mark in MARKS if {name.casefold() for name in mark.columns} <= header]
    own = {source, *([Source.csv] if any(mark.source == source for mark in found) else [])}
    return [mark for mark in found if mark.source not in own]


def advice(marks: Iterable[Mark], path: Path) -> str:
    """What a message ends with, of the first mark: the columns, and the command that reads them, to paste."""
    first = next(iter(marks), None)
    if first is None:
        return ""
    return (
        f"this file has {', '.join(first.columns)}: `saferec-build catalog add {first.source} {shlex.quote(str(path))}`"
    )


def _header(path: Path) -> list[str]:
    coding, delimiter = sources.spelling(path)
    with sources.opened(path) as raw, suppress(csv.Error, UnicodeError):  # a cell without end: no table of ours
        lines = csv.reader(TextIOWrapper(raw, coding, "replace", newline=""), delimiter=delimiter)
        first = next(lines, [])
        return [name.strip() for name in (next(lines, []) if first and first[0].startswith("sep=") else first)]
    return []
