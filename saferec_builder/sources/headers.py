"""Recognises the source of a table by its header, for users who name another source at `catalog add`."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from saferec_builder import sources
from saferec_builder.core.taxonomy import GUIDE
from saferec_builder.sources import doesthedogdie, esrb, items_csv, movielens, rating_reasons, warnings_csv
from saferec_builder.sources.item_rows import Source

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")  # of tables; the first line of JSON may be the whole file


@dataclass(frozen=True)
class Mark:
    """Columns by which a table is recognised as one for `source`.

    many: it may have many rows per item; read as items, all but the first of them are dropped as `same id`.
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
    """The marks of other sources that the file's header has; none for a folder or a file not named like a table.

    A table for `source` is not taken for one of source `csv`: any table may name items by domain, title and year.
    """
    is_table = path.is_file() and path.name.lower().removesuffix(".gz").endswith(SUFFIXES)
    columns = sources.header(path) if is_table else []
    header = {name.casefold() for name in columns}
    marks = [mark for mark in MARKS if {name.casefold() for name in mark.columns} <= header]
    marks += [Mark(Source.ddd, (name,)) for name in columns if name.startswith(tuple(doesthedogdie.CLEAR))][:1]
    excluded = {source, *([Source.csv] if any(mark.source == source for mark in marks) else [])}
    return [mark for mark in marks if mark.source not in excluded]


def advice(marks: Iterable[Mark], path: Path) -> str:
    """The end of a message about the first mark: its columns, and the command that reads them, to paste."""
    first = next(iter(marks), None)
    if first is None:
        return ""
    command = f"`saferec-build catalog add {first.source} {shlex.quote(str(path))}`"
    return f"this file has {', '.join(first.columns)}: {command}"
