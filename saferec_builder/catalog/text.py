"""Titles in free text: every place where a title of the catalog could stand, kept where enough speaks for it.

The evidence of a place (see evidence) is weighed by a logistic regression (text.toml), fitted on one half of real
turns and reported on the other: tests/bench/fit_mentions.py and bench_linking.py. A year beside the title decides.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from ahocorasick_rs import AhoCorasick

from saferec_builder import titles
from saferec_builder.catalog.evidence import ARTICLES, Place, Text, evidence, rarity
from saferec_builder.catalog.linking import index

_HERE = Path(__file__).parent
_WORD = re.compile(r"#?[^\W_]+(?:['’`´][^\W_]+)*|&|(?<=\s)\+(?=\s)")
_YEAR_AFTER = re.compile(r"""["'”’*_]*\s*(?:[(\[]\s*((?:18|19|20)\d\d)\s*[)\]]|,?\s*((?:19|20)\d\d)\b(?!\s*[s'’]))""")


class Mention(NamedTuple):
    """text[start:end] names `item`; where several items share the title it is ambiguous and none is chosen."""

    start: int
    end: int
    item: str | None
    candidates: tuple[str, ...]

    @property
    def match(self) -> str:
        return "found" if self.item else "ambiguous"


@dataclass(frozen=True)
class Finder:
    """Build with `finder`, ask with `in_text`; it holds an automaton, so each process builds its own."""

    index: titles.Index
    forms: Sequence[str]
    small: frozenset[str]  # forms of small words alone
    articled: frozenset[str]  # forms whose titles all begin with an article: "the game", not "game"
    automaton: Any
    weights: Mapping[str, float]


def finder(items: pl.DataFrame, weighed: Mapping[str, float] | None = None) -> Finder:
    """From the items of `merge`: one automaton over every title and alias."""
    found = index(items)
    forms = [form for form in found.by_title if len(form) > 1 or form.isdigit()]
    articled: dict[str, bool] = {}
    for title, aliases in items.select("title", "aliases").iter_rows():
        for name in (title, *aliases):
            form = titles.normal(titles.split_year(name)[0])
            starts = name.casefold().split(" ", 1)[0] in ARTICLES
            articled[form] = articled.get(form, True) and starts
    automaton = AhoCorasick([f" {form} " for form in forms])
    small = frozenset(form for form in forms if not any(map(rarity, form.split())))
    needs = frozenset(form for form, yes in articled.items() if yes)
    return Finder(found, forms, small, needs, automaton, weighed or weights())


def in_text(finder: Finder, text: str) -> list[Mention]:
    """Mentions in the order of the text; of two that overlap the longer one stays."""
    read = as_words(text)
    taken = bytearray(len(read.words))
    kept = []
    for place in sorted(places(finder, read), key=lambda p: (p.first - p.last, p.first)):
        if any(taken[place.first : place.last + 1]):
            continue
        mention = _judged(finder, read, place)
        if mention:
            kept.append(mention)
            taken[place.first : place.last + 1] = b"\1" * (place.last + 1 - place.first)
    return sorted(kept)


def _judged(finder: Finder, read: Text, place: Place) -> Mention | None:
    if place.form in finder.small and not _marked(read, place):
        return None
    year = _YEAR_AFTER.match(read.raw, place.end)
    match = titles.by_form(finder.index, place.form, int(year[1] or year[2]) if year else None)
    if year and match.match == "found":
        return _mention(read, place, year.end(), match)
    if year and year[1]:
        return None  # another film of this name
    score = sum(finder.weights.get(name, 0.0) for name in evidence(read, place, place.form in finder.articled))
    if score < 0:
        return None
    return _mention(read, place, place.end, titles.by_form(finder.index, place.form))


def _marked(read: Text, place: Place) -> bool:
    """Small words alone ("it", "up") need a capital, a quote, a line that they begin or a number behind them."""
    start = read.spans[place.first][0]
    before, behind = read.raw[start - 1 : start], read.raw[place.end : place.end + 8]
    return (
        read.raw[start].isupper() or not before.isspace() or before == "\n" or any(c in "([0123456789" for c in behind)
    )


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


def as_words(text: str) -> Text:
    found = list(_WORD.finditer(text))
    words = [_plain(word[0]) for word in found]
    if "" in words:
        found = [word for word, plain in zip(found, words, strict=True) if plain]
        words = [plain for plain in words if plain]
    return Text(text, [word.span() for word in found], titles.counted(words))


@lru_cache(maxsize=65536)
def _plain(word: str) -> str:
    if word in ("&", "+"):
        return "and"
    return word.lower().replace("'", "").replace("`", "") if word.isascii() else titles.normal(word)


def places(finder: Finder, read: Text) -> Iterator[Place]:
    """Every run of words that is a title, overlaps and all; an article before a title that has one is part of it."""
    yield from _found(finder, read, read.words, {})
    owners = {
        n: read.words[n][:-1]
        for n, (start, end) in enumerate(read.spans)
        if read.raw[end - 2 : end] in ("'s", "’s") and end - start > 2
    }
    if owners:
        words = [owners.get(n, word) for n, word in enumerate(read.words)]
        yield from (p for p in _found(finder, read, words, owners) if p.last in owners)


def _found(finder: Finder, read: Text, words: list[str], owners: Mapping[int, str]) -> Iterator[Place]:
    met = finder.automaton.find_matches_as_indexes(f" {' '.join(words)} ", overlapping=True)
    if not met:
        return
    starts, ends, at = {}, {}, 0
    for n, word in enumerate(words):
        starts[at] = n
        at += len(word) + 1
        ends[at + 1] = n  # a pattern begins and ends with a space
    for pattern, start, end in met:
        first, last = starts.get(start), ends.get(end)
        if first is None or last is None:
            continue
        form = finder.forms[pattern]
        if first and words[first - 1] in ARTICLES and form in finder.articled:
            first -= 1
        yield Place(first, last, read.spans[last][1] - (2 if last in owners else 0), form)


@lru_cache(maxsize=1)
def weights() -> dict[str, float]:
    table = tomllib.loads((_HERE / "text.toml").read_text(encoding="utf-8"))
    return {str(name): float(weight) for name, weight in table["weights"].items()}
