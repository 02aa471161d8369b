"""Reads IMDb's title.basics.tsv, plain or gzipped: films and series with their id, both titles, year and genres.

Tab-separated without quotes, \\N for nothing. Episodes, shorts, games and the other types are left out: one drop per
type says how many. A row whose original title differs keeps it as an alias.
"""

from collections import Counter
from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Rows, item_rows as items, refs

SOURCE = "imdb"
TYPES = {"movie": "film", "tvMovie": "film", "tvSeries": "series", "tvMiniSeries": "series"}
WANTED = ("tconst", "titleType", "primaryTitle", "originalTitle", "startYear", "genres")


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS."""
    others: Counter[str] = Counter()

    def parse_row(place: str, row: dict[str, str]) -> Rows:
        if not row["genres"]:
            raise Left("too few fields", "no cell of this table is blank: is the line cut?")
        if row["titleType"] in TYPES:
            return [_item(place, {name: "" if cell == "\\N" else cell for name, cell in row.items()})]
        others[sources.readable(row["titleType"], 30)] += 1
        return []

    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, parse_row, expected=WANTED, tabs=True)
    for kind, n in sorted(others.items()):
        drops.append(sources.drop(items.STAGE, SOURCE, f"{path.name} {kind}", "no film or series", f"{n:,} of {kind}"))
    return items.items_read(rows, drops)


def _item(place: str, row: dict[str, str]) -> sources.Row:
    ref = refs.imdb(row["tconst"])
    original = row["originalTitle"]
    return items.item(
        SOURCE,
        ref.removeprefix("imdb:"),
        place,
        refs=[ref],
        domain=TYPES[row["titleType"]],
        title=row["primaryTitle"],
        year=refs.year(row["startYear"]),
        aliases=[original] if original != row["primaryTitle"] else [],
        genres=row["genres"].split(","),
    )
