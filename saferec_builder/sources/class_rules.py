"""Rules by which statements (rating reasons, keywords, tags) answer the taxonomy's questions, and their precision.

class_rules.toml has the patterns of reasons and, per question, for how many of the works that were read a rule was
right; keywords.csv says which keyword answers which question with yes. Both are our own and hold no text of others.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

CLASSES = ("reason", "keyword", "tag")  # kinds of WARNINGS that answer questions by a rule
FEWEST = 30  # works that must be read to know a rule's precision
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class ClassRule:
    """A warning of this kind with the topic `key` answers the question `topic` with yes.

    read: the works that were read to check the rule, 0 for an unchecked one; right: those of them where it was right.
    """

    kind: str
    key: str
    topic: str
    right: int = 0
    read: int = 0

    @property
    def precision(self) -> float:
        """The share of works where the rule was right; 0 where too few were read."""
        return self.right / self.read if self.read >= FEWEST else 0.0


@dataclass(frozen=True)
class Reason:
    """A pattern of rating reasons."""

    name: str
    says: re.Pattern[str]
    unless: re.Pattern[str] | None
    ratings: tuple[str, ...]  # none: any

    def matches(self, rating: str, reason: str) -> bool:
        """Whether a reason, with its rating in capitals, says this."""
        if self.ratings and rating not in self.ratings:
            return False
        return bool(self.says.search(reason)) and not (self.unless and self.unless.search(reason))


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads((_HERE / "class_rules.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def reasons() -> tuple[Reason, ...]:
    """The patterns of rating reasons, in the order of class_rules.toml."""
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
    """Returns keyword in lower case -> the questions that it answers with yes."""
    pairs = pl.read_csv(_HERE / "keywords.csv").group_by("keyword", maintain_order=True).agg("topic")
    return {keyword: tuple(topics) for keyword, topics in pairs.iter_rows()}


@lru_cache(maxsize=1)
def rules() -> tuple[ClassRule, ...]:
    """Returns all rules. Keywords were checked per question; tags, which single people give, were not checked."""
    table = _table()
    reasons = [ClassRule("reason", r["name"], r["topic"], r.get("right", 0), r.get("read", 0)) for r in table["reason"]]
    checked = {row["topic"]: (row["right"], row["read"]) for row in table["keyword"]}
    pairs = [(word, topic) for word, topics in keywords().items() for topic in topics]
    keyword_rules = [ClassRule("keyword", word, topic, *checked.get(topic, ())) for word, topic in pairs]
    return (*reasons, *keyword_rules, *(ClassRule("tag", word, topic) for word, topic in pairs))
