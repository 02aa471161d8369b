"""ReDial's films: one JSON object {id: {name, genre, plot, imdb_id, ...}} (id2info.json of iEvaLM)."""

import re
from pathlib import Path

from pydantic import BaseModel, Field

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import Left, Read, Rows, item_rows as items, redial, refs


class _Info(BaseModel):
    name: str
    genre: list[str] = Field(default_factory=list)
    plot: str | None = None
    imdb_id: str | None = None


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS; the place of a row is its id."""
    expected = "id2info.json, an object of films by id"
    data = sources.json_file(path, expected)
    if not isinstance(data, dict):
        raise SourceError(f"{path}: found {type(data).__name__}, expected {expected}")
    rows, drops = sources.each(
        items.STAGE, redial.SOURCE, ((f"{path.name}:{i}", sources.sound(row)) for i, row in data.items()), _one
    )
    return items.items_read(rows, drops)


def _one(place: str, raw: object) -> Rows:
    info = _Info.model_validate(raw)
    title, year = titles.split_year(redial.clean(info.name))
    if re.fullmatch(r"\(\d{4}\)", title):  # two films lost their names
        raise Left("no title", f"found {title}, expected a name before the year")
    ids = [refs.imdb(info.imdb_id)] if info.imdb_id else []
    own, names = place.rsplit(":", 1)[1], info.genre
    item = items.item(
        redial.SOURCE, own, place, domain="film", title=title, year=year, refs=ids, genres=names, plot=info.plot
    )
    return [item]
