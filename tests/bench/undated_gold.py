"""Titles without a year that four models gave on INSPIRED, and the works meant, as a language model read them.

tests/data/undated_titles.csv has model, index and rank in llm_recs_inspired, and the year of the work that is meant;
`other`: a work whose year the reader does not know, or no film; `none`: no title; `unsure`. Halves are of dialogues.
"""

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl

from saferec_builder import catalog
from saferec_builder.catalog import known_works, verdicts
from saferec_builder.core import titles, undated
from saferec_builder.core.undated import Known, Work
from saferec_builder.sources import keywords, movielens, rating_reasons, redial_items
from saferec_builder.storage import tables
from tests import DATA
from tests.bench import linking_gold
from tests.bench.figures import STATEMENTS, json_lines, redial, unpacked

TUNED, REPORTED = linking_gold.TUNED, linking_gold.REPORTED
READERS = {"keywords": keywords.read, "rating-reasons": rating_reasons.read}


@dataclass(frozen=True)
class Shown:
    """A title as a model wrote it, all titles of its list, and the year of the work that was meant."""

    title: str
    listed: tuple[str, ...]
    year: str


@dataclass(frozen=True)
class Catalog:
    index: titles.Index  # with its works
    bare: titles.Index  # without them: finds a work by its title alone
    known: dict[str, Known]
    items: dict[str, tuple[str, int | None]]


def lists(folder: Path) -> list[dict[str, object]]:
    return list(json_lines(folder / "llm_recs_inspired" / "recs.jsonl.gz"))


def shown(folder: Path, half: str) -> list[Shown]:
    """The titles of a half that were read."""
    by_key = {(str(row["model"]), str(row["index"])): list(map(str, row["titles"])) for row in lists(folder)}
    with open(DATA / "undated_titles.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["half"] == half]
    listed = [by_key[row["model"], row["index"]] for row in rows]
    return [Shown(names[int(row["rank"])], tuple(names), row["year"]) for row, names in zip(rows, listed, strict=True)]


def right(catalog: Catalog, item: str, shown: Shown) -> bool:
    """Whether the item is the work that was meant: sources date a film a year apart, and ReDial does not date some."""
    year = catalog.items[item][1]
    return shown.year.isdigit() and (year is None or abs(year - int(shown.year)) <= 1)


def everything(folder: Path) -> Catalog:
    """The catalog of all films."""
    small = movielens.read(folder / "movielens_small").rows
    return made(pl.concat([*_parts(folder).values(), small]), _statements(folder), folder)


def catalogs(folder: Path) -> list[Catalog]:
    """Catalogs of different coverage: all films, MovieLens to 2015, ReDial's own, MovieTweetings'."""
    statements = _statements(folder)
    return [everything(folder), *(made(part, statements, folder) for part in _parts(folder).values())]


def _parts(folder: Path) -> dict[str, pl.DataFrame]:
    return {
        "lens": movielens.read(folder / "movielens27k").rows,
        "tweeted": linking_gold.tweeted(folder),
        "redial": redial_items.read(folder / "redial" / "ievalm_id2info.json").rows,
    }


def kinds(catalog: Catalog, row: dict[str, object]) -> list[titles.Match | None]:
    """The match of each title of a list; None if it is not a title."""
    listed = [str(title) for title in cast("list[str]", row["titles"])]
    hits = known_works.match_list(catalog.index, listed, "film")
    return [
        None if hits[title].match == "not_found" and not undated.is_title(title) else hits[title] for title in listed
    ]


def made(rows: pl.DataFrame, said: pl.DataFrame, folder: Path) -> Catalog:
    items, links = catalog.merge(rows)
    talks = conversations(folder) if rows["source"].is_in(["redial"]).any() else conversations(folder).clear()
    known = known_works.familiarity(items, links, verdicts.statements(items, links, said), talks)
    works = known_works.works(items, known)
    names = {item: (title, year) for item, title, year in items.select("item", "title", "year").iter_rows()}
    return Catalog(catalog.index(items, works), catalog.index(items), known, names)


def others(catalog: Catalog, shown: Shown) -> list[Work]:
    """The works of the list's other titles, if only one work has the title."""
    matches = [titles.find(catalog.bare, *titles.split_year(t), "film") for t in shown.listed if t != shown.title]
    return [catalog.index.works[match.item] for match in matches if match.item]


def conversations(folder: Path) -> pl.DataFrame:
    """The ids that each of ReDial's dialogues names, in the columns of CONVERSATIONS that record it."""
    refs = {
        str(row["conversationId"]): [f"redial:{item}" for item in dict(row["movieMentions"] or {})]
        for row in redial(folder)
    }
    empty: dict[str, list[list[str]]] = {name: [[]] * len(refs) for name in ("turns", "accepted", "seen")}
    kinds = {name: tables.CONVERSATIONS.schema[name] for name in ("conversation", "recommended", *empty)}
    return pl.DataFrame({"conversation": list(refs), "recommended": list(refs.values()), **empty}, schema=kinds)


def _statements(folder: Path) -> pl.DataFrame:
    frames = []
    with tempfile.TemporaryDirectory() as place:
        for source, name in STATEMENTS.items():
            frames.append(READERS[source](unpacked(folder / name, Path(place))).rows)
    return pl.concat(frames)
