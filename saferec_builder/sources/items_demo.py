"""Reads the invented items of the demo: JSON lines with title, year, domain, genres, plot and, if it has one, an id."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.sources import Read, Row, Rows, item_rows as items

SOURCE = "demo"


class _Item(BaseModel):
    model_config = ConfigDict(strict=True)

    title: str
    year: int = Field(ge=1800, lt=2100)
    domain: str
    genres: list[str] = Field(default_factory=list)
    plot: str | None = None
    id: str | int | None = None


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS; an item without an id is identified by domain, title and year."""
    return items.items_read(*sources.jsonl(path, items.STAGE, SOURCE, _parse_row))


def _parse_row(place: str, raw: Row) -> Rows:
    row = _Item.model_validate(raw)
    id_ = str(row.id) if row.id is not None else f"{row.domain}-{titles.normal(row.title)}-{row.year}".replace(" ", "-")
    return [items.item(SOURCE, id_, place, **row.model_dump(exclude={"id"}))]
