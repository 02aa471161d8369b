"""The demo's invented world: films and games, the true topics of each, and warnings that cover a part of them.

An item's `topics` (films.jsonl, games.jsonl) are the questions answered yes; all others are answered no. So the truth
is known for every item and the twelve demo traits, while the warnings leave some traits of some items unknown. Items
without any warnings are flagged by people from their plots.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from saferec_builder.core.errors import strict_json
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import digest

FOLDER = Path(__file__).parent
TRAITS = (
    "animal_harm",
    "spiders_snakes",
    "gore",
    "child_harm",
    "domestic_abuse",
    "substance_use",
    "medical_trauma",
    "needles",
    "confined_spaces",
    "pregnancy_loss",
    "accidents_disasters",
    "horror_scares",
)
HIDDEN = 0.12  # share of (item, trait) pairs without warnings
HIDDEN_ITEMS = 60  # items without any


class Mark(TypedDict):
    """What a text truly shows: a trait, its form (explicit or implicit), and the evidence."""

    trait: str
    form: str
    turn: int
    quote: str


class Votes(TypedDict):
    """A row of a warnings CSV."""

    title: str
    year: int
    domain: str
    topic: str
    yes: int
    no: int


@dataclass(frozen=True, eq=False)  # compared by identity: `items` makes each of them once
class Item:
    title: str
    year: int
    domain: str
    genres: tuple[str, ...]
    plot: str
    topics: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.title} ({self.year})"

    def breaks(self, taxonomy: Taxonomy) -> list[str]:
        """The demo traits that this item truly breaks."""
        return [slug for slug in TRAITS if self.topics & set(taxonomy[slug].topics)]


@lru_cache(maxsize=1)
def items() -> tuple[Item, ...]:
    """All invented films and games, in file order."""
    return tuple(
        Item(row["title"], row["year"], row["domain"], tuple(row["genres"]), row["plot"], frozenset(row["topics"]))
        for name in ("films.jsonl", "games.jsonl")
        for row in read_lines(FOLDER / name)
    )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield strict_json(line)


def hidden_items() -> frozenset[Item]:
    """The items whose warnings are held back, drawn by hash."""
    return frozenset(sorted(items(), key=lambda item: digest("hidden item", item.title, item.year))[:HIDDEN_ITEMS])


def warnings(taxonomy: Taxonomy) -> list[Votes]:
    """Rows of a warnings CSV: clear votes on the topics of the demo traits, and none for hidden items and (item, trait)
    pairs."""
    rng, without_any = random.Random(7), hidden_items()
    topics = dict.fromkeys(t for slug in TRAITS for t in taxonomy[slug].topics)
    rows: list[Votes] = []
    for item in items():
        hidden = {t for slug in TRAITS if rng.random() < HIDDEN for t in taxonomy[slug].topics}
        for topic in topics:
            votes, has_strays = rng.randint(12, 60), rng.random() < 0.3  # for hidden topics, too: the same draws follow
            if topic in hidden or item in without_any:
                continue
            strays = votes // 30 if has_strays else 0  # one or two among many: P(yes) stays above .9 or below .1
            yes, no = (votes - strays, strays) if topic in item.topics else (strays, votes - strays)
            rows.append(Votes(title=item.title, year=item.year, domain=item.domain, topic=topic, yes=yes, no=no))
    return rows
