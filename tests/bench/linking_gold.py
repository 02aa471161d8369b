"""Real turns with the titles that stand in them, for the benches and the test of the mention finder.

ReDial: each @id is replaced by its title without the year, 30 % of them lower-cased (by a hash, so always the same).
INSPIRED: the titles that its annotators gave an utterance; a mark that stands for a quote is undone.
Both are parted in halves by a hash of the conversation: one to tune on, one to report.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from saferec_builder import catalog
from saferec_builder.core import titles
from saferec_builder.sources import item_rows as made, movielens, redial, redial_items
from tests import DATA

_ID = re.compile(r"@(\d+)")
TUNED, REPORTED = "tuned on", "reported"


@dataclass(frozen=True)
class Turn:
    half: str
    text: str
    spans: tuple[tuple[int, int, str], ...]  # start, end, title with its year where the gold has one


def share(*parts: object) -> float:
    return int(hashlib.blake2b(repr(parts).encode(), digest_size=4).hexdigest(), 16) / 2**32


def _half(conversation: str) -> str:
    return TUNED if share("half", conversation) < 0.5 else REPORTED


def redial_turns(folder: Path, lower: float = 0.3, bare: float = 0.0) -> list[Turn]:
    """Every message; a share of the titles is lower-cased, a share of those with an article has lost it."""
    turns, seen = [], set()
    for path in sorted((folder / "redial").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["conversationId"] in seen:
                continue
            seen.add(row["conversationId"])
            named = {i: redial.clean(t) for i, t in dict(row["movieMentions"] or {}).items() if t and t.strip()}
            for n, message in enumerate(row["messages"]):
                turns.append(_told(str(row["conversationId"]), n, message["text"], named, (lower, bare)))
    return [turn for turn in turns if turn.text.strip()]


def _told(conversation: str, n: int, text: str, named: dict[str, str], shares: tuple[float, float]) -> Turn:
    told, spans, at = "", [], 0
    for found in _ID.finditer(text):
        if found[1] not in named:
            continue
        told += text[at : found.start()]
        title = titles.split_year(named[found[1]])[0]
        shown = title.lower() if share("lower", conversation, n, found.start()) < shares[0] else title
        if share("bare", conversation, n, found.start()) < shares[1]:
            shown = re.sub(r"^(?:the|an?) (?=\w)", "", shown, flags=re.I)
        spans.append((len(told), len(told) + len(shown), named[found[1]]))
        told, at = told + shown, found.end()
    return Turn(_half(conversation), told + text[at:], tuple(spans))


def inspired_turns(folder: Path, *, corrected: bool = False) -> Iterator[Turn]:
    """One turn per utterance; a span of the gold is (-1, -1, title): the annotators say what, not where.

    `corrected`: without the faults that tests/data/inspired_faults.csv lists of the half that is reported.
    """
    missing, wrong = inspired_faults() if corrected else ({}, {})
    with open(folder / "inspired" / "dev.tsv", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            place = (row["dialog_id"][:15], row["utt_id"])
            told = [t.strip() for t in row["movies"].split(";") if t.strip()]
            named = [t for t in told if t not in wrong.get(place, ())] + missing.get(place, [])
            text = row["text"].replace("QUOTATION_MARK", '"')
            yield Turn(_half(row["dialog_id"]), text, tuple((-1, -1, t) for t in named))


def inspired_faults() -> tuple[dict[tuple[str, str], list[str]], dict[tuple[str, str], list[str]]]:
    """({(dialogue, utterance): titles that the gold lacks}, {...: titles of the gold that are not named there})."""
    found: dict[str, dict[tuple[str, str], list[str]]] = {"missing": {}, "wrong": {}}
    with open(DATA / "inspired_faults.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["fault"]].setdefault((row["dialog"], row["utterance"]), []).append(row["title"])
    return found["missing"], found["wrong"]


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
            found = {"domain": "film", "title": name, "year": year, "refs": [f"imdb:tt{int(row['movie_id']):07d}"]}
            rows.append(made.item("csv", row["movie_id"], "f:1", **found))
    return made.items_read(rows, []).rows


def films(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(items, links) of MovieLens and ReDial: the catalog of somebody who has both."""
    lens = movielens.read(folder / "movielens_small").rows
    return catalog.merge(pl.concat([lens, redial_items.read(folder / "redial" / "ievalm_id2info.json").rows]))


def redial_titles(folder: Path) -> dict[str, str]:
    """The title that ReDial's dialogues give each of their ids."""
    named: dict[str, str] = {}
    for path in sorted((folder / "redial").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            named |= {i: redial.clean(t) for i, t in dict(json.loads(line)["movieMentions"] or {}).items() if t}
    return named
