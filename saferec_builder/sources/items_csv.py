"""A user's own items: comma-separated, header domain,title,year,ids,aliases,plot and, if they like, id, imdb, genres.

`imdb` is an IMDb id, as in a table of warnings. `ids` (imdb:tt0078748 tmdb:348) are parted by white space, commas,
semicolons or |, `genres` by commas, semicolons or |, `aliases` by semicolons or |. `description` may stand for `plot`,
and a title may end with its year. An `id` may be any; one of IMDb or TMDB counts among the ids, too. Without an id of
its own an item is named by the first of its ids, else by domain, title and year; so is one whose id an earlier row with
another title or year has, of this file or of one before. Other columns are not read.
"""

import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import polars as pl

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.sources import Read, Row, Rows, item_rows as items, refs
from saferec_builder.storage import tables

SOURCE = "csv"
NEEDED = ("domain", "title", "year")
_REMEDY = "it names neither until `catalog apart` takes it from one (`catalog merges --conflicts`)"
SHARED = "id of another row"  # a remark: both rows are read
LIKE = 0.8  # share of characters in common from which a title is like another
OTHERS = ("id", "imdb", "ids", "aliases", "genres", "plot", "description")


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _one, expected=NEEDED, others=OTHERS)
    return items.items_read(rows, drops + _told_apart(rows))


def _one(place: str, row: dict[str, str]) -> Rows:
    year = refs.year(row["year"])
    title, written = titles.split_year(row["title"])
    if year and written != year:
        title, written = row["title"], year
    ids = [refs.imdb(row["imdb"])] if row.get("imdb") else []
    ids += [refs.external(i) for i in re.split(r"[\s,;|]+", row.get("ids", "")) if i]
    itself = refs.read(row.get("id", "")) or ""
    ids += [itself] if itself.startswith(("imdb:", "tmdb:")) else []
    own = row.get("id") or next(iter(ids), "") or _named(row["domain"], title, written)
    return [
        items.item(
            SOURCE,
            own,
            place,
            domain=row["domain"],
            title=title,
            year=written,
            refs=ids,
            aliases=_parts(row.get("aliases", "")),
            genres=_parts(row.get("genres", "").replace(",", ";")),
            plot=row.get("plot") or row.get("description"),
        )
    ]


def _named(domain: object, title: object, year: object) -> str:
    return f"{domain}:{titles.normal(str(title)) or title}:{year or ''}"


def _told_apart(rows: Rows) -> Rows:
    """Names rows whose id an earlier row of another title or year has by their titles (a slip in an id loses no work:
    `catalog.merge` decides whether they are one). The remarks on them, and on rows of unlike titles of one id."""
    first: dict[object, Row] = {}
    claimed: dict[str, Row] = {}
    told = []
    for row in rows:
        one = first.setdefault(row["source_id"], row)
        if _differ(one, row):
            told.append(_shared(row, str(row["source_id"]), one, _REMEDY))
            row["source_id"] = _named(*(row[name] for name in NEEDED))
            continue
        for ref in cast("list[str]", row["refs"]):
            one = claimed.setdefault(ref, row)
            if one is not row and not _alike(one, row):
                told.append(_shared(row, ref, one, "`catalog apart` takes it from one (`catalog merges`)"))
                break
    return told


def _shared(row: Row, own: str, one: Row, remedy: str) -> Row:
    line, title = str(one["place"]).rpartition(":")[2], str(one["title"])[:40]
    said = f"{own} is that of {title!r} in line {line}, too: if they are two works, {remedy}"
    return sources.drop(items.STAGE, SOURCE, str(row["place"]), SHARED, said)


def apart_from(read: Read, held: pl.DataFrame, file: str) -> Read:
    """`read`, where a row whose id one of `held` (CATALOG_ROWS of this source) with another title or year has is named
    by its title, with a remark: two tables may both be numbered from 1."""
    first = held.unique("source_id", keep="first").select("source_id", had="title", was="year")
    both = read.rows.join(first, "source_id", "left", maintain_order="left")
    names, told = [], []
    for row in both.select("source_id", "domain", "title", "year", "had", "was").iter_rows(named=True):
        own = row["source_id"]
        if row["had"] is not None and _differ({"title": row["had"], "year": row["was"]}, row):
            name = _named(*(row[column] for column in NEEDED))
            if name != own:
                said = f"{own} is that of {row['had'][:40]!r} in the catalog: {row['title'][:40]!r} is named {name}"
                told.append(sources.drop(items.STAGE, SOURCE, file, SHARED, said))
            own = name
        names.append(own)
    drops = pl.concat([read.drops, tables.DROPS.frame(told)])
    return replace(read, rows=read.rows.with_columns(pl.Series("source_id", names, pl.String)), drops=drops)


def _differ(one: Row, other: Row) -> bool:
    """Whether two rows of one id say different works: the titles are others, or the years."""
    return _title(one) != _title(other) or bool(one["year"] and other["year"] and one["year"] != other["year"])


def _alike(one: Row, other: Row) -> bool:
    return difflib.SequenceMatcher(None, _title(one), _title(other), autojunk=False).ratio() >= LIKE


def _title(row: Row) -> str:
    return titles.normal(str(row["title"])) or str(row["title"])


def _parts(cell: str) -> list[str]:
    return [part for part in re.split(r"[|;]", cell) if part.strip()]
