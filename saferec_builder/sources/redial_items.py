"""Reads ReDial's films: from the published dialogues (JSON lines; movieMentions has each id's title), or from one JSON
object {id: {name, genre, plot, imdb_id, ...}} (id2info.json of iEvaLM, which few people have).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import Left, Read, Row, Rows, item_rows as items, redial, refs

FIRST = 100  # lines by which a file is recognised: some may be damaged


class _Info(BaseModel):
    name: str
    genre: list[str] = Field(default_factory=list)
    plot: str | None = None
    imdb_id: str | None = None


class _Dialogue(BaseModel):
    movieMentions: redial.Mentions


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS; the place of a row is its id, or the dialogue that names it first."""
    if _has_dialogues(path):
        return _of_dialogues(path)
    expected = "dialogues of ReDial (JSON lines with movieMentions), or id2info.json, an object of films by id"
    data = sources.json_file(path, expected)
    if not isinstance(data, dict):
        raise SourceError(f"{path}: found {type(data).__name__}, expected {expected}")
    films = ((f"{path.name}:{i}", sources.without_surrogates(row)) for i, row in data.items())
    return items.items_read(*sources.parse_rows(items.STAGE, redial.SOURCE, films, _parse_row))


def _parse_row(place: str, raw: object) -> Rows:
    info = _Info.model_validate(raw)
    ids = [refs.imdb(info.imdb_id)] if info.imdb_id else []
    return [_film(place, place.rsplit(":", 1)[1], info.name, ids, info.genre, info.plot)]


def _film(
    place: str, id_: str, name: str, ids: Sequence[str] = (), genres: Sequence[str] = (), plot: str | None = None
) -> Row:
    title, year = titles.split_year(redial.clean(name))
    if re.fullmatch(r"\(\d{4}\)", title):  # two films lost their names
        raise Left("no title", f"found {title}, expected a name before the year")
    return items.item(
        redial.SOURCE, id_, place, domain="film", title=title, year=year, refs=ids, genres=genres, plot=plot
    )


# ---- of dialogues


def _has_dialogues(path: Path) -> bool:
    with sources.opened(path) as file:
        head = (line for _, (_, line) in zip(range(FIRST), sources.lines(file), strict=False))
        rows = (sources.json_object(line) for line in head if isinstance(line, bytes))
        return any(isinstance(row, dict) and "movieMentions" in row for row in rows)


def _of_dialogues(path: Path) -> Read:
    """Returns one film per id, under the first title with a year that a dialogue has for it; others are aliases.

    An id is left out, with one drop, only where no dialogue has its title. Dialogues have no ids of other collections.
    """
    films: dict[str, dict[tuple[object, object], tuple[Row, str]]] = {}  # id -> (title, year) -> film, title as written
    nameless: dict[str, Row] = {}

    def parse_row(place: str, raw: Row) -> list[Left]:
        for id_, name in _Dialogue.model_validate(raw).movieMentions.items():
            try:
                film = _film(place, id_, name or "")
            except Left as left:
                drop = sources.drop(items.STAGE, redial.SOURCE, place, left.reason, f"{id_}: {left.detail}")
                nameless.setdefault(id_, drop)
            else:
                films.setdefault(id_, {}).setdefault((film["title"], film["year"]), (film, redial.clean(name or "")))
        return []

    _, drops = sources.jsonl(path, items.STAGE, redial.SOURCE, parse_row)
    drops += [drop for id_, drop in nameless.items() if id_ not in films]
    read = items.items_read([_best(list(variants.values())) for variants in films.values()], drops)
    return replace(read, figures={name: n for name, n in read.figures.items() if name != "with_external_id"})


def _best(variants: list[tuple[Row, str]]) -> Row:
    """The film under the first of its titles that has a year; the same title without a year is no alias."""
    best = next((film for film, _ in variants if film["year"]), variants[0][0])
    others = [(film, text) for film, text in variants if film is not best]
    aliases = [text for film, text in others if film["year"] or film["title"] != best["title"]]
    return best | {"aliases": list(dict.fromkeys(aliases))}
