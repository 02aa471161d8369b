"""Finds mentions of a catalog's titles in free text, and keeps those with enough evidence.

The evidence of a place (see evidence) is weighed by a logistic regression (mention_finder.toml), fitted on one half of
real turns and reported on the other: tests/bench/fit_mentions.py and bench_linking.py. A year beside the title decides.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from saferec_builder.core import titles
from saferec_builder.scoring.title_evidence import ARTICLES, Place, evidence, is_else, is_part, rarity
from saferec_builder.scoring.title_words import Text, as_words

_HERE = Path(__file__).parent
_NUMBERED = frozenset("([0123456789")
# a mark may be the title's own: "Mother! (2017)"
_YEAR_AFTER = re.compile(
    r"""["'”’*_!?.]*\s*[(\[]\s*((?:18|19|20)\d\d)\s*[)\]]|["'”’*_]*\s*,?\s*((?:19|20)\d\d)\b(?!\s*[s'’])"""
)
_SEQUEL = re.compile(
    r" (?:[2-9]|II|III|IV|VI?)\b(?![-'’./]?\d| (?:times|stars|thumbs|hours|days|weeks|years|or|out)\b)"
)


class Mention(NamedTuple):
    """text[start:end] names `item`; where several items share the title it is ambiguous and none is chosen."""

    start: int
    end: int
    item: str | None
    candidates: tuple[str, ...]

    @property
    def match(self) -> str:
        return "found" if self.item else "ambiguous"


class Search(Protocol):
    """Where forms, each between two spaces, stand in a text: ahocorasick_rs.AhoCorasick, or `Forms`."""

    def find_matches_as_indexes(self, text: str, overlapping: bool = False) -> Iterable[tuple[int, int, int]]:
        """(number of the form, start, end) in the order of the ends."""


@dataclass(frozen=True)
class Finder:
    """Build with `finder`, ask with `in_text`; it may hold an automaton, so each process builds its own."""

    index: titles.Index
    forms: Sequence[str]
    small: frozenset[str]  # forms of small words alone
    endings: frozenset[str]  # last words of forms
    articled: frozenset[str]  # forms whose titles all begin with an article: "the game", not "game"
    automaton: Search
    weights: Mapping[str, float]


def finder(
    index: titles.Index,
    names: Iterable[str],
    search: Callable[[Sequence[str]], Search] | None = None,
    weighed: Mapping[str, float] | None = None,
) -> Finder:
    """From the titles and aliases of an index. search: what looks for so many forms, `Forms` where none is given."""
    forms = [form for form in index.by_title if len(form) > 1 or form.isdigit()]
    articled: dict[str, bool] = {}
    for name in names:
        form = titles.normal(titles.split_year(name)[0])
        starts = name.casefold().split(" ", 1)[0] in ARTICLES
        articled[form] = articled.get(form, True) and starts
    small = frozenset(form for form in forms if not any(map(rarity, form.split())))
    needs = frozenset(form for form, yes in articled.items() if yes)
    endings = frozenset(form.rpartition(" ")[2] for form in forms)
    found = (search or Forms)([f" {form} " for form in forms])
    return Finder(index, forms, small, endings, needs, found, weighed or weights())


class Forms:
    """A Search in plain Python: as quick as an automaton where texts are short, and built at once."""

    def __init__(self, forms: Sequence[str]) -> None:
        self.numbers = {form.strip(): n for n, form in enumerate(forms)}
        self.lengths: dict[str, set[int]] = {}  # last word -> how many words its forms have
        for form in self.numbers:
            self.lengths.setdefault(form.rpartition(" ")[2], set()).add(form.count(" ") + 1)

    def find_matches_as_indexes(self, text: str, overlapping: bool = False) -> Iterator[tuple[int, int, int]]:
        starts = [0, *(n + 1 for n, letter in enumerate(text) if letter == " ")]
        words = text.split(" ")
        for last, word in enumerate(words):
            for length in self.lengths.get(word, ()):
                first = last - length + 1
                form = text[starts[first] : starts[last] + len(word)] if first > 0 else ""
                if form in self.numbers:
                    yield self.numbers[form], starts[first] - 1, starts[last] + len(word) + 1


def in_text(finder: Finder, text: str) -> list[Mention]:
    """Mentions in the order of the text; of two that overlap the longer one stays."""
    read = as_words(text)
    found = [p for p in places(finder, read) if p.form not in finder.small or _marked(read, p)]
    taken, titled = bytearray(len(read.words)), {place.first for place in found}
    refused = set[int]()  # where longer titles end that are none here
    kept = []
    for place in sorted(found, key=lambda p: (p.first - p.last, p.first)):
        if any(taken[place.first : place.last + 1]):
            continue
        mention = _judged(finder, read, place, titled, refused)
        if not mention:
            refused.add(place.last)
        else:
            kept.append(mention)
            taken[place.first : place.last + 1] = b"\1" * (place.last + 1 - place.first)
    return sorted(kept)


def _judged(
    finder: Finder, read: Text, place: Place, titled: Collection[int], refused: Collection[int]
) -> Mention | None:
    year = _YEAR_AFTER.match(read.raw, place.end)
    if year:
        match = titles.by_form(finder.index, place.form, int(year[1] or year[2]))
        start, longer = _start(read, place), place.last in refused
        if match.match == "found" and not is_part(read.raw, start, exact=match.exact, longer=longer):
            return _mention(read, place, year.end(), match)
        if year[1]:
            return None  # another film of this name
    if is_else(read, place, titled):
        return None
    score = sum(finder.weights.get(name, 0.0) for name in evidence(read, place, place.form in finder.articled))
    if score < 0:
        return None
    named = titles.by_form(finder.index, place.form)
    named = titles.likeliest(finder.index, read.raw[read.spans[place.first][0] : place.end], named)
    # "Suspiria 1977", or "X-Men 2", where the catalog has another one alone: its title, and nobody is guessed
    if (year or _SEQUEL.match(read.raw, place.end)) and named.item:
        named = titles.Match("ambiguous", None, (named.item,))
    return _mention(read, place, place.end, named)


def _marked(read: Text, place: Place) -> bool:
    """Small words alone ("it", "up") need a capital, a quote, a line that they begin or a number behind them."""
    start = read.spans[place.first][0]
    before, behind = read.raw[start - 1 : start], read.raw[place.end : place.end + 8]
    return read.raw[start].isupper() or not before.isspace() or before == "\n" or not _NUMBERED.isdisjoint(behind)


def _mention(read: Text, place: Place, end: int, match: titles.Match) -> Mention:
    candidates = (match.item,) if match.item else match.candidates
    return Mention(_start(read, place), end, match.item, candidates)


def _start(read: Text, place: Place) -> int:
    """With the mark that belongs to the title: "(500) Days of Summer", "'71"."""
    start = read.spans[place.first][0]
    before, inside = read.raw[start - 1 : start], read.raw[start : place.end]
    opens = before == "(" and inside.count(")") > inside.count("(")
    return start - 1 if opens or (before and before in "'’" and inside.isdigit()) else start


# ---- where a title could stand


def places(finder: Finder, read: Text) -> Iterator[Place]:
    """Every run of words that is a title, overlaps and all; an article before a title that has one is part of it."""
    yield from _found(finder, read, read.words, {})
    if "'s" not in read.raw and "’s" not in read.raw:
        return
    owners = {
        n: read.words[n][:-1]
        for n, (start, end) in enumerate(read.spans)
        if read.raw[end - 2 : end] in ("'s", "’s") and end - start > 2
    }
    if not finder.endings.isdisjoint(word.rpartition(" ")[2] for word in owners.values()):  # "8½" is three words
        words = [owners.get(n, word) for n, word in enumerate(read.words)]
        yield from (p for p in _found(finder, read, words, owners) if p.last in owners)


def _found(finder: Finder, read: Text, words: list[str], owners: Mapping[int, str]) -> Iterator[Place]:
    joined = f" {' '.join(words)} "
    met = finder.automaton.find_matches_as_indexes(joined, overlapping=True)
    # "8½" is one word and three of a form: only spaces between words count
    ruled = joined if joined.count(" ") == len(words) + 1 else f" {' '.join(w.replace(' ', '_') for w in words)} "
    last, at = -1, 0
    for pattern, start, end in met:  # in order of their ends; each begins and ends with a space
        last, at = last + ruled.count(" ", at, end - 1), end - 1
        if ruled[start] == ruled[end - 1] == " ":
            first, form = last - ruled.count(" ", start + 1, end - 1), finder.forms[pattern]
            if first and words[first - 1] in ARTICLES and form in finder.articled:
                first -= 1
            yield Place(first, last, read.spans[last][1] - (2 if last in owners else 0), form)


@lru_cache(maxsize=1)
def weights() -> dict[str, float]:
    table = tomllib.loads((_HERE / "mention_finder.toml").read_text(encoding="utf-8"))
    return {str(name): float(weight) for name, weight in table["weights"].items()}
