"""Real turns with the titles in them, for the benchmarks and the test of the mention finder.

ReDial: each @id is replaced by its title without the year, 30 % of them lower-cased (by a hash, so always the same).
INSPIRED: the titles that its annotators assigned to an utterance; markers of quotes are undone.
Both are split in halves by a hash of the conversation: one for tuning, one to report.
"""

import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from saferec_builder import catalog
from saferec_builder.core import titles
from saferec_builder.sources import item_rows as made, movielens, redial, redial_items
from tests import DATA
from tests.bench import figures

_ID = re.compile(r"@(\d+)")
TUNED, REPORTED = "tuned on", "reported"
LOWER = 0.3


@dataclass(frozen=True)
class Turn:
    half: str
    text: str
    spans: tuple[tuple[int, int, str], ...]  # start, end, title with its year if the gold has one


def share(*parts: object) -> float:
    return int(hashlib.blake2b(repr(parts).encode(), digest_size=4).hexdigest(), 16) / 2**32


def _half(conversation: str) -> str:
    return TUNED if share("half", conversation) < 0.5 else REPORTED


def redial_turns(folder: Path, bare: float = 0.0) -> list[Turn]:
    """Every message; a share LOWER of the titles is lower-cased, a share `bare` of those with an article loses it."""
    turns, seen = [], set()
    for row in figures.redial(folder):
        if row["conversationId"] in seen:
            continue
        seen.add(row["conversationId"])
        names = {i: redial.clean(t) for i, t in dict(row["movieMentions"] or {}).items() if t and t.strip()}
        for n, message in enumerate(row["messages"]):
            turns.append(_told(str(row["conversationId"]), n, message["text"], names, bare))
    return [turn for turn in turns if turn.text.strip()]


def _told(conversation: str, n: int, text: str, named: dict[str, str], bare: float) -> Turn:
    text_out, spans, place = "", [], 0
    for match in _ID.finditer(text):
        if match[1] not in named:
            continue
        text_out += text[place : match.start()]
        title = titles.split_year(named[match[1]])[0]
        spelling = title.lower() if share("lower", conversation, n, match.start()) < LOWER else title
        if share("bare", conversation, n, match.start()) < bare:
            spelling = re.sub(r"^(?:the|an?) (?=\w)", "", spelling, flags=re.I)
        spans.append((len(text_out), len(text_out) + len(spelling), named[match[1]]))
        text_out, place = text_out + spelling, match.end()
    return Turn(_half(conversation), text_out + text[place:], tuple(spans))


def inspired_turns(folder: Path, *, corrected: bool = False) -> Iterator[Turn]:
    """Yields one turn per utterance; a span of the gold is (-1, -1, title): the annotators say what, not where.

    `corrected`: without the errors in the reported half that tests/data/inspired_faults.csv lists.
    """
    missing, wrong = inspired_faults() if corrected else ({}, {})
    with open(folder / "inspired" / "dev.tsv", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            place = (row["dialog_id"][:15], row["utt_id"])
            listed = [t.strip() for t in row["movies"].split(";") if t.strip()]
            in_text = [t for t in listed if t not in wrong.get(place, ())] + missing.get(place, [])
            text = row["text"].replace("QUOTATION_MARK", '"')
            yield Turn(_half(row["dialog_id"]), text, tuple((-1, -1, t) for t in in_text))


def inspired_faults() -> tuple[dict[tuple[str, str], list[str]], dict[tuple[str, str], list[str]]]:
    """Returns ({(dialogue, utterance): titles that the gold lacks}, {...: titles of the gold that are not named})."""
    faults: dict[str, dict[tuple[str, str], list[str]]] = {"missing": {}, "wrong": {}}
    with open(DATA / "inspired_faults.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            faults[row["fault"]].setdefault((row["dialog"], row["utterance"]), []).append(row["title"])
    return faults["missing"], faults["wrong"]


def items_7k(folder: Path) -> pl.DataFrame:
    """ReDial's own films."""
    return catalog.merge(redial_items.read(folder / "redial" / "ievalm_id2info.json").rows)[0]


def items_39k(folder: Path) -> pl.DataFrame:
    """ReDial's films and those of MovieTweetings, merged by their IMDb ids."""
    films = redial_items.read(folder / "redial" / "ievalm_id2info.json").rows
    return catalog.merge(pl.concat([films, tweeted(folder)]))[0]


def tweeted(folder: Path) -> pl.DataFrame:
    """MovieTweetings' films as rows of a user's own table."""
    rows = []
    with open(folder / "movietweetings" / "movies.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, year = titles.split_year(row["raw_title"])
            fields = {"domain": "film", "title": name, "year": year, "refs": [f"imdb:tt{int(row['movie_id']):07d}"]}
            rows.append(made.item("csv", row["movie_id"], "f:1", **fields))
    return made.items_read(rows, []).rows


def films(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (items, links) of MovieLens and ReDial: the catalog of somebody who has both."""
    lens = movielens.read(folder / "movielens_small").rows
    return catalog.merge(pl.concat([lens, redial_items.read(folder / "redial" / "ievalm_id2info.json").rows]))


def redial_titles(folder: Path) -> dict[str, str]:
    """The titles that ReDial's dialogues give to their ids."""
    mentions = (dict(row["movieMentions"] or {}).items() for row in figures.redial(folder))
    return {i: redial.clean(title) for pairs in mentions for i, title in pairs if title}
