"""What people do to a CSV in a spreadsheet: read its rows, change them, save them."""

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def save(
    path: Path, rows: list[Any], columns: Iterable[str] | None = None, encoding: str = "utf-8", **how: Any
) -> Path:
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(columns or rows[0]), extrasaction="ignore", **how)
        writer.writeheader()
        writer.writerows(rows)
    return path


def edit(path: Path, answer: Callable[[Row], Mapping[str, str] | None]) -> int:
    """Writes answer(row) into every row; returns their number."""
    rows = [row | (answer(row) or {}) for row in rows_of(path)]
    if rows:  # a reviewer without tasks has a file with its header alone
        save(path, rows)
    return len(rows)


def as_proposed(row: Row) -> Row:
    """Accepts what was proposed; the rest is absent."""
    return {"verdict": "none" if row["trait"] == "*" else (row["proposed"] or "absent")}
