"""Titles without a year that four models gave on INSPIRED, and which work is meant, as a language model read it.

tests/data/undated_titles.csv has model, index and rank in llm_recs_inspired, and the year of the work that is meant;
`other`: a work of which the reader knows no year, or none of film; `none`: no title; `unsure`. Halves are of dialogues.
"""

import csv
import gzip
import json
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
from tests.bench.figures import STATEMENTS, unpacked

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
    bare: titles.Index  # without: what means one work by its title alone
    known: dict[str, Known]
    items: dict[str, tuple[str, int | None]]


def lists(folder: Path) -> list[dict[str, object]]:
    with gzip.open(folder / "llm_recs_inspired" / "recs.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def shown(folder: Path, half: str) -> list[Shown]:
    """The titles of a half that were read."""
    found = {(str(row["model"]), str(row["index"])): list(map(str, row["titles"])) for row in lists(folder)}
    with open(DATA / "undated_titles.csv", encoding="utf-8") as file:
        read = [row for row in csv.DictReader(file) if row["half"] == half]
    listed = [found[row["model"], row["index"]] for row in read]
    return [Shown(all_[int(row["rank"])], tuple(all_), row["year"]) for row, all_ in zip(read, listed, strict=True)]


def right(catalog: Catalog, item: str, shown: Shown) -> bool:
    """Whether the item is the work that was meant: sources date a film a year apart, and ReDial some not at all."""
    year = catalog.items[item][1]
    return shown.year.isdigit() and (year is None or abs(year - int(shown.year)) <= 1)


def everything(folder: Path) -> Catalog:
    """Every film there is."""
    small = movielens.read(folder / "movielens_small").rows
    return made(pl.concat([*_parts(folder).values(), small]), _statements(folder), folder)


def catalogs(folder: Path) -> list[Catalog]:
    """Of other coverage: every film there is, MovieLens to 2015, ReDial's own, MovieTweetings'."""
    said = _statements(folder)
    return [everything(folder), *(made(part, said, folder) for part in _parts(folder).values())]


def _parts(folder: Path) -> dict[str, pl.DataFrame]:
    return {
        "lens": movielens.read(folder / "movielens27k").rows,
        "tweeted": linking_gold.tweeted(folder),
        "redial": redial_items.read(folder / "redial" / "ievalm_id2info.json").rows,
    }


def kinds(catalog: Catalog, row: dict[str, object]) -> list[titles.Match | None]:
    """What each title of a list means; None: it is no title."""
    listed = [str(title) for title in cast("list[str]", row["titles"])]
    found = known_works.match_list(catalog.index, listed, "film")
    return [
        None if found[title].match == "not_found" and not undated.is_title(title) else found[title] for title in listed
    ]


def made(rows: pl.DataFrame, said: pl.DataFrame, folder: Path) -> Catalog:
    items, links = catalog.merge(rows)
    told = conversations(folder) if rows["source"].is_in(["redial"]).any() else conversations(folder).clear()
    known = known_works.familiarity(items, links, verdicts.statements(items, links, said), told)
    works = known_works.works(items, known)
    names = {item: (title, year) for item, title, year in items.select("item", "title", "year").iter_rows()}
    return Catalog(catalog.index(items, works), catalog.index(items), known, names)


def others(catalog: Catalog, shown: Shown) -> list[Work]:
    """The works of the list's other titles that one work alone has."""
    found = [titles.find(catalog.bare, *titles.split_year(t), "film") for t in shown.listed if t != shown.title]
    return [catalog.index.works[match.item] for match in found if match.item]


def conversations(folder: Path) -> pl.DataFrame:
    """What each of ReDial's dialogues names by an id, in the columns of CONVERSATIONS that say so."""
    named: dict[str, list[str]] = {}
    for path in sorted((folder / "redial").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            named[str(row["conversationId"])] = [f"redial:{item}" for item in dict(row["movieMentions"] or {})]
    nothing: dict[str, list[list[str]]] = {name: [[]] * len(named) for name in ("turns", "accepted", "seen")}
    kinds = {name: tables.CONVERSATIONS.schema[name] for name in ("conversation", "recommended", *nothing)}
    return pl.DataFrame({"conversation": list(named), "recommended": list(named.values()), **nothing}, schema=kinds)


def _statements(folder: Path) -> pl.DataFrame:
    frames = []
    with tempfile.TemporaryDirectory() as place:
        for source, name in STATEMENTS.items():
            frames.append(READERS[source](unpacked(folder / name, Path(place))).rows)
    return pl.concat(frames)
