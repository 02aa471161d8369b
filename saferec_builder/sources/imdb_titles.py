"""Reads IMDb's title.basics.tsv, plain or gzipped: films and series with their id, both titles, year and genres.

Tab-separated without quotes, \\N for nothing. Episodes, shorts, games and the other types are left out: one drop per
type says how many. A row whose original title differs keeps it as an alias.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from saferec_builder import sources
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import Left, Read, Rows, item_rows as items, refs

SOURCE = "imdb"
TYPES = {"movie": "film", "tvMovie": "film", "tvSeries": "series", "tvMiniSeries": "series"}
WANTED = ("tconst", "titleType", "primaryTitle", "originalTitle", "startYear", "genres")


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS."""
    others: Counter[str] = Counter()
    with sources.opened(path) as file:
        rows, drops = sources.parse_rows(items.STAGE, SOURCE, _rows(path, file, others), _parse_row)
    for kind, n in sorted(others.items()):
        drops.append(sources.drop(items.STAGE, SOURCE, f"{path.name} {kind}", "no film or series", f"{n:,} of {kind}"))
    return items.items_read(rows, drops)


def _rows(path: Path, file: IO[bytes], others: Counter[str]) -> Iterator[tuple[str, dict[str, str] | Left]]:
    lines = sources.lines(file)
    first = next(lines, (0, b""))[1]
    header = [] if isinstance(first, Left) else first.decode("utf-8-sig", "replace").rstrip("\r\n").split("\t")
    missing = [name for name in WANTED if name not in header]
    if missing:
        columns = sources.readable("\t".join(header))
        raise SourceError(
            f"{path}: column {missing[0]!r} is missing: expected IMDb's title.basics.tsv, found {columns!r}"
        )
    for number, line in lines:
        place = f"{path.name}:{number}"
        if isinstance(line, Left):
            yield place, line
        elif line.strip():
            row = _row(header, line)
            if isinstance(row, dict) and row["titleType"] not in TYPES:
                others[sources.readable(row["titleType"], 30)] += 1
            else:
                yield place, row


def _row(header: list[str], line: bytes) -> dict[str, str] | Left:
    try:
        cells = line.decode("utf-8").rstrip("\r\n").split("\t")
    except UnicodeDecodeError:
        return Left("not UTF-8")
    if len(cells) != len(header):
        return Left("wrong number of fields", f"found {len(cells)}, expected {len(header)} between tabs")
    return {name: "" if cell == "\\N" else cell for name, cell in zip(header, cells, strict=True)}


def _parse_row(place: str, row: dict[str, str]) -> Rows:
    ref = refs.imdb(row["tconst"])
    original = row["originalTitle"]
    item = items.item(
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
    return [item]
