"""Which source a table is for, as its header tells: for whoever names another one at `catalog add`."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from saferec_builder import sources
from saferec_builder.core.taxonomy import GUIDE
from saferec_builder.sources import doesthedogdie, esrb, items_csv, movielens, rating_reasons, warnings_csv
from saferec_builder.sources.item_rows import Source

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")  # of tables; a line of JSON may be the whole file


@dataclass(frozen=True)
class Mark:
    """Columns by which a table is known as one for `source`.

    many: of one item it may have many rows; read as items, all but the first are dropped as `same id`.
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
    """The marks of other sources that the file's header has; none of a folder, or of what its name calls no table.

    A table that is one for `source` is none of items of one's own: any source may name an item by domain, title, year.
    """
    written = sources.header(path) if _may_be_table(path) else []
    header = {name.casefold() for name in written}
    found = [mark for mark in MARKS if {name.casefold() for name in mark.columns} <= header]
    found += [Mark(Source.ddd, (name,)) for name in written if name.startswith(tuple(doesthedogdie.CLEAR))][:1]
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


def _may_be_table(path: Path) -> bool:
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(SUFFIXES)
