"""Reads a user's own items: header domain,title,year,ids,aliases,plot and perhaps id, imdb, tmdb, genres.

`imdb` is an IMDb id and `tmdb` a number of TMDB, as in other tables. `ids` (imdb:tt0078748 tmdb:348) are separated by
white space, commas, semicolons or |, `genres` by commas, semicolons or |, `aliases` by semicolons or |. `description`
may replace `plot`, and a title may end with its year. An `id` may be any text; one of IMDb or TMDB also counts as one
of the `ids`. An item without an `id` is identified by the first of its `ids`, else by domain, title and year. An item
whose id belongs to an earlier row with another title or year, of this or an earlier file, is identified by domain,
title and year. Other columns are not read.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import cast

import polars as pl

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.sources import Read, Row, Rows, digits, item_rows as items, refs
from saferec_builder.storage import tables

SOURCE = "csv"
NEEDED = ("domain", "title", "year")
SHARED = "id of another row"  # a remark: both rows are read
OTHERS = ("id", "imdb", "tmdb", "ids", "aliases", "genres", "plot", "description")


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _parse_row, expected=NEEDED, others=OTHERS)
    return items.items_read(rows, drops + _separated(rows))


def _parse_row(place: str, row: dict[str, str]) -> Rows:
    year = refs.year(row["year"])
    title, written_year = titles.split_year(row["title"])
    if year and written_year != year:
        title, written_year = row["title"], year
    domain = row["domain"].lower()
    ids = [refs.imdb(row["imdb"])] if row.get("imdb") else []
    ids += [f"tmdb:{int(number)}"] if (number := digits(row.get("tmdb", ""))) and int(number) else []
    ids += [refs.external(i) for i in re.split(r"[\s,;|]+", row.get("ids", "")) if i]
    id_ref = refs.read(row.get("id", "")) or ""
    ids += [id_ref] if id_ref.startswith(("imdb:", "tmdb:")) else []
    source_id = row.get("id") or next(iter(ids), "") or _id_of(domain, title, written_year)
    return [
        items.item(
            SOURCE,
            source_id,
            place,
            domain=domain,
            title=title,
            year=written_year,
            refs=ids,
            aliases=_parts(row.get("aliases", "")),
            genres=_parts(row.get("genres", "").replace(",", ";")),
            plot=row.get("plot") or row.get("description"),
        )
    ]


def _id_of(domain: object, title: object, year: object) -> str:
    return f"{domain}:{titles.normal(str(title)) or title}:{year or ''}"


def _separated(rows: Rows) -> Rows:
    """Gives an id by title to rows whose id an earlier row with another title or year has, so that a wrong id loses no
    work (`catalog.merge` decides whether they are one). Returns remarks on them, and on unlike titles with one ref."""
    first: dict[object, Row] = {}
    by_ref: dict[str, Row] = {}
    remarks = []
    for row in rows:
        earlier = first.setdefault(row["source_id"], row)
        if _differ(earlier, row):
            shared_id, row["source_id"] = str(row["source_id"]), _id_of(*(row[name] for name in NEEDED))
            remarks.append(_remark(row, shared_id, earlier))
            continue
        for ref in cast("list[str]", row["refs"]):
            earlier = by_ref.setdefault(ref, row)
            if earlier is not row and not titles.alike(_title(earlier), _title(row)):
                remarks.append(_remark(row, ref, earlier))
                break
    return remarks


def _remark(row: Row, shared_id: str, earlier: Row) -> Row:
    line, title = str(earlier["place"]).rpartition(":")[2], str(earlier["title"])[:40]
    ref = shlex.quote(f"{SOURCE}:{row['source_id']}")
    remedy = (
        f"if they are two works, `saferec-build catalog apart {ref}` (or the row of line {line}, if its id is wrong)"
    )
    detail = f"{shared_id} is that of {title!r} in line {line}, too: {remedy}"
    return sources.drop(items.STAGE, SOURCE, str(row["place"]), SHARED, detail)


def apart_from(read: Read, catalog_rows: pl.DataFrame, file: str) -> Read:
    """Returns `read` with ids by title, and remarks, for rows whose id one of `catalog_rows` (of this source) with
    another title or year has: two tables may both be numbered from 1."""
    first = catalog_rows.unique("source_id", keep="first").select("source_id", had="title", was="year")
    both = read.rows.join(first, "source_id", "left", maintain_order="left")
    ids, remarks = [], []
    for row in both.select("source_id", "domain", "title", "year", "had", "was").iter_rows(named=True):
        id_ = row["source_id"]
        if row["had"] is not None and _differ({"title": row["had"], "year": row["was"]}, row):
            new_id = _id_of(*(row[column] for column in NEEDED))
            if new_id != id_:
                detail = f"{id_} is that of {row['had'][:40]!r} in the catalog: {row['title'][:40]!r} is named {new_id}"
                remarks.append(sources.drop(items.STAGE, SOURCE, file, SHARED, detail))
            id_ = new_id
        ids.append(id_)
    drops = pl.concat([read.drops, tables.DROPS.frame(remarks)])
    return replace(read, rows=read.rows.with_columns(pl.Series("source_id", ids, pl.String)), drops=drops)


def _differ(row: Row, other: Row) -> bool:
    """Whether two rows with one id are different works: their titles differ, or their years."""
    return _title(row) != _title(other) or bool(row["year"] and other["year"] and row["year"] != other["year"])


def _title(row: Row) -> str:
    return titles.normal(str(row["title"])) or str(row["title"])


def _parts(cell: str) -> list[str]:
    return [part for part in re.split(r"[|;]", cell) if part.strip()]
