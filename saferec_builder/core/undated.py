"""Estimates which of the works that share a title is meant where no year is given, or none: a conditional logit.

P(i) = exp(u_i) / (1 + sum_j exp(u_j)) over the works of that title (McFadden 1974); the 1 stands for a work that the
catalogue lacks. u is a weighted sum: how well known the work is (`pull`), whether the title is spelt like its own,
and how similar it is to the other works of the list. Fitted by tests/bench/fit_undated.py. Only the standard library.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

LINKED = 0.8  # P from which the likeliest work is taken as the one that is meant
LIKELY = 0.05  # P from which a work, or none of them, may be meant
WEIGHTS = {
    "work": -0.39,
    "collections": 0.24,
    "reason": 0.63,
    "keywords": 1.30,
    "mentions": 1.97,
    "spelt": 2.41,
    "words": 0.38,
    "decades": -0.54,
    "genres": 0.86,
}
_FEW = 3  # other works with a year that a list needs to have a period
_NO_PERIOD, _NO_GENRE = 1.5, 0.15  # distance in decades, and share of genres, where they are unknown
_MARKUP = re.compile(
    r"```|\[\||[{}=<>\\|]|\(\)|\b(?:import|print|return|def) ?[\w(]|^\W*(?:User|System|Human|AI)\b\W*:"
)
_TALK = re.compile(r"\b(?:I|I'm|I've|you|your|me|my|we|please|here are|recommendations?|looking for)\b", re.I)
_LONGEST = 12  # words of a title


@dataclass(frozen=True)
class Work:
    """A work: its names are in lower case; `pull` is the part of u that does not depend on a list."""

    year: int | None
    genres: frozenset[str]
    names: frozenset[str]
    pull: float


@dataclass(frozen=True)
class Company:
    """The other works of a list: their median year, and the share of them that has each genre."""

    year: float | None = None
    genres: Mapping[str, float] | None = None


class Known(NamedTuple):
    """How well known a work is: numbers of collections with its id, rating reasons, keywords, conversations with it."""

    collections: int
    reasons: int
    keywords: int
    mentions: int

    def features(self) -> dict[str, float]:
        return {
            "work": 1.0,
            "collections": self.collections - 2.0,
            "reason": float(self.reasons > 0),
            "keywords": math.log1p(self.keywords),
            "mentions": math.log1p(self.mentions),
        }

    def pull(self) -> float:
        return sum(WEIGHTS[name] * value for name, value in self.features().items())


def company(works: Sequence[Work]) -> Company:
    years = [work.year for work in works if work.year is not None]
    genres = Counter(genre for work in works for genre in work.genres)
    shares = {genre: n / len(works) for genre, n in genres.items()}
    return Company(median(years) if len(years) >= _FEW else None, shares if works else None)


def features(title: str, words: int, work: Work, among: Company) -> dict[str, float]:
    """The features of a work beside its pull; `words` is the number of words of the title's normal form."""
    decades = abs(work.year - among.year) / 10 if work.year and among.year is not None else _NO_PERIOD
    similarity = _NO_GENRE
    if among.genres is not None and work.genres:
        similarity = sum(among.genres.get(genre, 0.0) for genre in work.genres) / len(work.genres)
    is_spelt = title.strip(" \"'“”").lower() in work.names
    return {"spelt": float(is_spelt), "words": float(min(words, 4) - 1), "decades": decades, "genres": similarity}


def chances(title: str, words: int, works: Sequence[Work], among: Company = Company()) -> tuple[list[float], float]:
    """Returns (P of each work, P that none of them is meant)."""
    u = [w.pull + sum(WEIGHTS[k] * x for k, x in features(title, words, w, among).items()) for w in works]
    largest = max(0.0, *u)
    weights = [math.exp(x - largest) for x in u]
    total = sum(weights) + math.exp(-largest)
    return [x / total for x in weights], math.exp(-largest) / total


def likely(items: Iterable[str], chances: Iterable[float]) -> tuple[str, ...]:
    """The items that may be meant, the likeliest first."""
    ranked = sorted(zip(items, chances, strict=True), key=lambda pair: -pair[1])
    return tuple(item for item, p in ranked if p >= LIKELY)


def is_title(text: str) -> bool:
    """Whether a text that no catalogue holds may be a title: no code, no markup, no talk, no sentence."""
    words = text.split()
    if not re.search(r"\w", text) or _MARKUP.search(text) or len(words) > _LONGEST:
        return False
    if (text.strip()[-1] in ".?:," and len(words) > 5) or text.strip(" \"'“(")[:1].islower():
        return False
    return not (_TALK.search(text) and len(words) > 5)
