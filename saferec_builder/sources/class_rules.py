"""What a class of statements (rating reasons, keywords, tags) says of the taxonomy's questions, and how surely.

class_rules.toml has the patterns of reasons and, per question, of how many works that were read a rule was right;
keywords.csv has which keyword answers which question with yes. Both are our own: no text of others.
"""

import csv
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

CLASSES = ("reason", "keyword", "tag")  # kinds of WARNINGS that speak through a rule
FEWEST = 30  # works read before a rule's precision is known at all
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class ClassRule:
    """One statement of a class: where `key` (the topic of a warning of this kind) stands, `topic` is answered yes.

    right and read are of works that were read; a rule with none was not read.
    """

    kind: str
    key: str
    topic: str
    right: int = 0
    read: int = 0

    @property
    def precision(self) -> float:
        """The share of right ones; 0 where too few were read to know."""
        return self.right / self.read if self.read >= FEWEST else 0.0


@dataclass(frozen=True)
class Reason:
    """A pattern of rating reasons."""

    name: str
    says: re.Pattern[str]
    unless: re.Pattern[str] | None
    ratings: tuple[str, ...]  # none: any

    def matches(self, rating: str, reason: str) -> bool:
        if self.ratings and rating not in self.ratings:
            return False
        return bool(self.says.search(reason)) and not (self.unless and self.unless.search(reason))


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads((_HERE / "class_rules.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def reasons() -> tuple[Reason, ...]:
    return tuple(
        Reason(
            row["name"],
            re.compile(row["says"], re.I),
            re.compile(row["unless"], re.I) if "unless" in row else None,
            tuple(row.get("ratings", ())),
        )
        for row in _table()["reason"]
    )


@lru_cache(maxsize=1)
def keywords() -> dict[str, tuple[str, ...]]:
    """Keyword in lower case -> the questions that it answers with yes."""
    found: dict[str, tuple[str, ...]] = {}
    with (_HERE / "keywords.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["keyword"]] = (*found.get(row["keyword"], ()), row["topic"])
    return found


@lru_cache(maxsize=1)
def rules() -> tuple[ClassRule, ...]:
    """Every rule. Keywords were read per question; what single people call a film (tag) was not read."""
    table = _table()
    named = [ClassRule("reason", r["name"], r["topic"], r.get("right", 0), r.get("read", 0)) for r in table["reason"]]
    read = {row["topic"]: (row["right"], row["read"]) for row in table["keyword"]}
    pairs = [(word, topic) for word, topics in keywords().items() for topic in topics]
    spoken = [ClassRule("keyword", word, topic, *read.get(topic, ())) for word, topic in pairs]
    return (*named, *spoken, *(ClassRule("tag", word, topic) for word, topic in pairs))
