"""The row format of all sources of items and warnings; readers fill it, and `catalog` merges the rows."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.core.value_shapes import seen
from saferec_builder.sources import Left, Read, Row, Rows
from saferec_builder.storage import tables

STAGE = "catalog"
AGAIN = "same statement"
DATE = r"^\d{4}(-\d\d){0,2}([T ]|$)"  # dates that sort by time as text
NO_DATE = "date not read"  # a remark: a spreadsheet wrote 31.05.2026, and the row counts as one without a date
_LINE = re.compile(r".*:\d+")  # of a place, which may continue with a part of the row


class Source(StrEnum):
    """Every source of items or warnings, as `saferec-build catalog add` names them."""

    movielens = "movielens"
    redial = "redial"
    imdb = "imdb"
    esrb = "esrb"
    ddd = "ddd"
    csv = "csv"
    demo = "demo"
    warnings = "warnings"
    parent_guide = "parent-guide"
    rating_reasons = "rating-reasons"
    keywords = "keywords"


@dataclass(frozen=True)
class Both:
    """The result of a file with items and statements about them; `items` has the drops of the file."""

    items: Read
    warnings: Read


def item(
    source: str,
    source_id: str,
    place: str,
    *,
    domain: str,
    title: str,
    year: int | None,
    refs: Iterable[str] = (),
    aliases: Iterable[str] = (),
    genres: Iterable[str] = (),
    plot: str | None = None,
) -> Row:
    """A row of CATALOG_ROWS with its `place`; raises `Left` without a title or a known domain."""
    if not title.strip():
        raise Left("no title", "an item needs a title")
    if domain not in sources.DOMAINS:
        raise Left("unknown domain", f"found {domain!r}, expected one of {', '.join(sources.DOMAINS)}")
    return {
        "source": source,
        "source_id": source_id,
        "domain": domain,
        "title": " ".join(titles.unescaped(title).split()),
        "year": year,
        "refs": list(dict.fromkeys(refs)),
        "aliases": [a for a in dict.fromkeys(" ".join(a.split()) for a in aliases) if a],
        "genres": [g for g in dict.fromkeys(g.strip() for g in genres) if g],
        "plot": (plot or "").strip() or None,
        "place": place,
    }


def items_read(rows: Rows, drops: Rows) -> Read:
    """The Read of rows of CATALOG_ROWS; of two with one id the first is kept."""
    first, repeated = _first_per_key(rows, ("source", "source_id"))
    frame = tables.CATALOG_ROWS.frame(first)
    with_id = int((frame["refs"].list.len() > 0).sum())
    figures = {"with_external_id": with_id, "without_year": frame["year"].null_count()}
    return Read(frame, tables.DROPS.frame(drops + repeated), figures if first else {})  # a table of statements has none


def warning(
    source: str,
    place: str,
    ref: str,
    *,
    kind: str,
    topic: str,
    domain: str | None = None,
    yes: int | None = None,
    no: int | None = None,
    answer: str | None = None,
    severity: int | None = None,
    words: str | None = None,
    cells: Mapping[str, str] = MappingProxyType({}),
) -> Row:
    """A row of WARNINGS; the same statement always has the same id, whatever its `words` and its place.

    The `cells` of its row may hold domain, url and retrieved.
    """
    domain = (cells.get("domain") or domain or "").lower() or None
    if domain and domain not in sources.DOMAINS:
        raise Left("unknown domain", f"found {domain!r}, expected one of {', '.join(sources.DOMAINS)}, or nothing")
    statement = {
        "ref": ref,
        "domain": domain,
        "kind": kind,
        "topic": topic,
        "yes": yes,
        "no": no,
        "answer": answer,
        "severity": severity,
        "source": source,
        "url": cells.get("url") or None,
        "retrieved": cells.get("retrieved") or None,
    }
    return {"warning": tables.digest(*statement.values()), **statement, "words": words, "place": place}


def warnings_read(rows: Rows, drops: Rows) -> Read:
    """The Read of rows of WARNINGS; a repeated statement counts once.

    Its figure rows_read is the number of the file's rows: a row may make several statements, or none.
    """
    first, remarks = _first_per_key(rows, ("warning",), AGAIN)
    for row in first:
        if (date := str(row["retrieved"] or "")) and not re.match(DATE, date):
            detail = f"retrieved: {seen(date)}, expected such as 2026-05-31: it counts as a row without a date"
            remarks.append(sources.drop(STAGE, str(row["source"]), str(row["place"]), NO_DATE, detail))
    return Read(tables.WARNINGS.frame(first), tables.DROPS.frame(drops + remarks), _rows_read(rows, drops))


def both_read(rows: Rows, drops: Rows) -> Both:
    """The Both of rows of both tables from one reader; rows_read (see `warnings_read`) counts all of them."""
    warnings = warnings_read([row for row in rows if "warning" in row], [])
    of_items = items_read([row for row in rows if "warning" not in row], drops)
    return Both(of_items, replace(warnings, figures=_rows_read(rows, drops)))


def _first_per_key(rows: Rows, key: tuple[str, ...], again: str = "same id") -> tuple[Rows, Rows]:
    """Returns (the first row per key, drops of the others with the reason `again`); each row has its `place`."""
    first: dict[tuple[object, ...], Row] = {}
    drops: Rows = []
    for row in rows:
        if first.setdefault(tuple(row[k] for k in key), row) is not row:
            # a row of a file may make several statements, and each has a place of its own
            place = " ".join(str(row[name]) for name in ("place", "topic") if name in row)
            drops.append(sources.drop(STAGE, str(row["source"]), place, again, str(row.get("source_id", ""))))
    return list(first.values()), drops


def _rows_read(rows: Rows, drops: Rows) -> dict[str, int]:
    """The number of rows of a file, by their places; a remark on its header is not a row."""
    places = [str(row["place"]) for row in (*rows, *drops) if row.get("reason") != sources.NOT_READ]
    return {"rows_read": len({match[0] if (match := _LINE.match(place)) else place for place in places})}
