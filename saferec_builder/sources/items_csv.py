"""A user's own items: comma-separated, header domain,title,year,ids,aliases,plot and, if they like, id, imdb, genres.

`imdb` is an IMDb id, as in a table of warnings. `ids` (imdb:tt0078748 tmdb:348) are parted by white space, commas,
semicolons or |, `genres` by commas, semicolons or |, `aliases` by semicolons or |. `description` may stand for `plot`,
and a title may end with its year. Without an id of its own an item is named by the first of its ids, else by domain,
title and year. Other columns are not read.
"""

import re
from pathlib import Path

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.sources import Read, Rows, item_rows as items, refs

SOURCE = "csv"
NEEDED = ("domain", "title", "year")
OTHERS = ("id", "imdb", "ids", "aliases", "genres", "plot", "description")


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _one, expected=NEEDED, others=OTHERS)
    return items.items_read(rows, drops)


def _one(place: str, row: dict[str, str]) -> Rows:
    year = refs.year(row["year"])
    title, written = titles.split_year(row["title"])
    if year and written != year:
        title, written = row["title"], year
    ids = [refs.imdb(row["imdb"])] if row.get("imdb") else []
    ids += [refs.external(i) for i in re.split(r"[\s,;|]+", row.get("ids", "")) if i]
    own = row.get("id") or next(iter(ids), "") or f"{row['domain']}:{titles.normal(title) or title}:{written or ''}"
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


def _parts(cell: str) -> list[str]:
    return [part for part in re.split(r"[|;]", cell) if part.strip()]
