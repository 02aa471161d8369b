"""Reads a parents' guide: severities in five categories per item; CSV or JSON list, header imdb or title,year.

A category is spelt sex, violence, profanity, drugs, frightening, or as the guide itself does ("Sex & Nudity");
a severity is None, Mild, Moderate or Severe; blank means that nobody rated it.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.core.errors import SourceError
from saferec_builder.core.taxonomy import GUIDE
from saferec_builder.sources import Left, Read, Row, item_rows as items, refs

SOURCE = "parent_guide"
SEVERITY = {"none": 0, "mild": 1, "moderate": 2, "severe": 3}
OFFICIAL = {
    "sex & nudity": "sex",
    "violence & gore": "violence",
    "profanity": "profanity",
    "alcohol, drugs & smoking": "drugs",
    "frightening & intense scenes": "frightening",
}


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `guide`: one per category that was rated."""
    if path.suffix.lower() == ".json":
        return items.warnings_read(*sources.parse_rows(items.STAGE, SOURCE, _json_rows(path), _parse_row))
    if not any(_category(name) in GUIDE for name in sources.header(path)):
        raise SourceError(f"{path}: no column with a category: expected {', '.join(GUIDE)}, separated by commas")
    return items.warnings_read(*sources.csv_rows(path, items.STAGE, SOURCE, _parse_row, expected=()))


def _json_rows(path: Path) -> list[tuple[str, dict[str, str] | Left]]:
    data = sources.json_file(path, "a list of objects")
    if not isinstance(data, list):
        raise SourceError(f"{path}: found {type(data).__name__}, expected a list of objects")
    return [(f"{path.name}:{n}", _as_cells(sources.without_surrogates(row))) for n, row in enumerate(data, 1)]


def _as_cells(row: object) -> dict[str, str] | Left:
    if isinstance(row, Left):
        return row
    if not isinstance(row, dict):
        return Left("wrong type", f"found {type(row).__name__}, expected an object")
    return {str(k): "" if v is None else str(v).strip() for k, v in row.items()}


def _category(column: str) -> str:
    name = column.casefold().strip()
    return OFFICIAL.get(name, name)


def _parse_row(place: str, row: dict[str, str]) -> list[Row | Left]:
    cells = [(category, cell) for name, cell in row.items() if (category := _category(name)) in GUIDE]
    if not cells:
        raise Left("no category", f"expected one of {', '.join(GUIDE)}")
    rated = {category: cell for category, cell in cells if cell}
    if not rated:
        raise Left("nothing rated", "no category has a severity")
    if len(rated) < sum(bool(cell) for _, cell in cells):
        raise Left("category twice", "two columns are one category, as 'violence' and 'Violence & Gore'")
    ref = refs.of_row(row)
    rows: list[Row | Left] = []
    for category, cell in rated.items():
        severity = SEVERITY.get(cell.casefold())
        if severity is None:  # the other categories of the row still count
            detail = f"found {cell!r}, expected {', '.join(SEVERITY)}"
            rows.append(Left("unknown severity", detail, f"{place} {category}"))
        else:
            rows.append(items.warning(SOURCE, place, ref, kind="guide", topic=category, severity=severity, cells=row))
    return rows
