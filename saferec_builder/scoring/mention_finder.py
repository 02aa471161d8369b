"""Finds mentions of a catalog's titles in free text, and keeps those with enough evidence.

The evidence at a place (title_evidence) is weighed by a logistic regression (mention_finder.toml), fitted on one half
of real turns and reported on the other: tests/bench/fit_mentions.py and bench_linking.py. A year beside the title
decides.
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

_NUMBERED = frozenset("([0123456789")
# a mark may belong to the title: "Mother! (2017)"
_YEAR_AFTER = re.compile(
    r"""["'”’*_!?.]*\s*[(\[]\s*((?:18|19|20)\d\d)\s*[)\]]|["'”’*_]*\s*,?\s*((?:19|20)\d\d)\b(?!\s*[s'’])"""
)
_SEQUEL = re.compile(
    r" (?:[2-9]|II|III|IV|VI?)\b(?![-'’./]?\d| (?:times|stars|thumbs|hours|days|weeks|years|or|out)\b)"
)


class Mention(NamedTuple):
    """text[start:end] names `item`; if several items share the title it is ambiguous and none is chosen. Each is a
    titles.Near if another work may be meant."""

    start: int
    end: int
    item: str | None
    candidates: tuple[str, ...]


class Search(Protocol):
    """Finds forms, each between two spaces, in a text: ahocorasick_rs.AhoCorasick, or `Forms`."""

    def find_matches_as_indexes(self, text: str, overlapping: bool = False) -> Iterable[tuple[int, int, int]]:
        """(number of the form, start, end) in the order of the ends."""


@dataclass(frozen=True)
class Finder:
    """Build it with `finder`, use it with `in_text`; it may hold an automaton, so each process builds its own."""

    index: titles.Index
    forms: Sequence[str]
    small: frozenset[str]  # forms that consist of small words only
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
    """The finder for the titles and aliases of an index. search: builds a Search for the forms, by default `Forms`."""
    forms = [form for form in index.by_title if len(form) > 1 or form.isdigit()]
    articled: dict[str, bool] = {}
    for name in names:
        form = titles.normal(titles.split_year(name)[0])
        starts = name.casefold().split(" ", 1)[0] in ARTICLES
        articled[form] = articled.get(form, True) and starts
    small = frozenset(form for form in forms if not any(map(rarity, form.split())))
    with_article = frozenset(form for form, always in articled.items() if always)
    endings = frozenset(form.rpartition(" ")[2] for form in forms)
    automaton = (search or Forms)([f" {form} " for form in forms])
    return Finder(index, forms, small, endings, with_article, automaton, weighed or weights())


class Forms:
    """A Search in plain Python: as fast as an automaton for short texts, and built at once."""

    def __init__(self, forms: Sequence[str]) -> None:
        self.numbers = {form.strip(): n for n, form in enumerate(forms)}
        self.lengths: dict[str, set[int]] = {}  # last word -> numbers of words of its forms
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


def in_text(finder: Finder, text: str, domain: str | None = None) -> list[Mention]:
    """Mentions in the order of the text; of two that overlap the longer one counts. A title means a work of the domain,
    if it has one."""
    read = as_words(text)
    candidates = [p for p in places(finder, read) if p.form not in finder.small or _marked(read, p)]
    taken, starts = bytearray(len(read.words)), {place.first for place in candidates}
    refused = set[int]()  # the ends of longer titles that are no mention here
    mentions = []
    for place in sorted(candidates, key=lambda p: (p.first - p.last, p.first)):
        if any(taken[place.first : place.last + 1]):
            continue
        mention = _mention_at(finder, read, place, starts, refused, domain)
        if not mention:
            refused.add(place.last)
        else:
            mentions.append(mention)
            taken[place.first : place.last + 1] = b"\1" * (place.last + 1 - place.first)
    return sorted(mentions)


def _mention_at(
    finder: Finder,
    read: Text,
    place: Place,
    starts: Collection[int],
    refused: Collection[int],
    domain: str | None,
) -> Mention | None:
    start, end = _mention_span(read, place)
    year = _YEAR_AFTER.match(read.raw, end)
    if year:
        match = _match(finder.index, place.form, int(year[1] or year[2]), domain)
        longer = place.last in refused
        if match.match == "found" and not is_part(read.raw, start, exact=match.exact, longer=longer):
            return _mention(start, year.end(), match)
        if year[1]:
            return None  # another film with this title
    if is_else(read, place, starts):
        return None
    score = sum(finder.weights.get(name, 0.0) for name in evidence(read, place, place.form in finder.articled))
    if score < 0:
        return None
    match_ = _match(finder.index, place.form, None, domain)
    match_ = titles.likeliest(finder.index, read.raw[read.spans[place.first][0] : place.end], match_)
    # "Suspiria 1977", or "X-Men 2", if the catalog has only another one: its title, without an item
    if (year or _SEQUEL.match(read.raw, end)) and match_.item:
        match_ = titles.Match("ambiguous", None, (match_.item,), False)
    return _mention(start, end, match_)


def _match(index: titles.Index, form: str, year: int | None, domain: str | None) -> titles.Match:
    match = titles.by_form(index, form, year, domain)
    return titles.by_form(index, form, year) if match is titles.NOT_FOUND else match


def _marked(read: Text, place: Place) -> bool:
    """Small words alone ("it", "up") need a capital, a quote, the start of a line or a number after them."""
    start = read.spans[place.first][0]
    before, after = read.raw[start - 1 : start], read.raw[place.end : place.end + 8]
    return read.raw[start].isupper() or not before.isspace() or before == "\n" or not _NUMBERED.isdisjoint(after)


def _mention(start: int, end: int, match: titles.Match) -> Mention:
    item, others = titles.item_of(match), match.candidates if match.exact else map(titles.Near, match.candidates)
    return Mention(start, end, item, (item,) if item else tuple(others))


def _mention_span(read: Text, place: Place) -> tuple[int, int]:
    """Includes the marks that belong to the title: "(500) Days of Summer", "'71", "Ran (Chaos)"."""
    start, end = read.spans[place.first][0], place.end
    before, title = read.raw[start - 1 : start], read.raw[start:end]
    opened = title.count("(") - title.count(")")
    starts_earlier = (before == "(" and opened < 0) or (before and before in "'’" and title.isdigit())
    return start - bool(starts_earlier), end + (opened > 0 and read.raw[end : end + 1] == ")")


# ---- possible places of titles


def places(finder: Finder, read: Text) -> Iterator[Place]:
    """Every run of words that is a title, with overlaps; it includes the article before a title that has one."""
    yield from _form_places(finder, read, read.words, {})
    if "'s" not in read.raw and "’s" not in read.raw:
        return
    owners = {
        n: read.words[n][:-1]
        for n, (start, end) in enumerate(read.spans)
        if read.raw[end - 2 : end] in ("'s", "’s") and end - start > 2
    }
    if not finder.endings.isdisjoint(word.rpartition(" ")[2] for word in owners.values()):  # "8½" is three words
        words = [owners.get(n, word) for n, word in enumerate(read.words)]
        yield from (p for p in _form_places(finder, read, words, owners) if p.last in owners)


def _form_places(finder: Finder, read: Text, words: list[str], owners: Mapping[int, str]) -> Iterator[Place]:
    joined = f" {' '.join(words)} "
    matches = finder.automaton.find_matches_as_indexes(joined, overlapping=True)
    # "8½" is one word here and three in a form: only spaces between words count
    spaced = joined if joined.count(" ") == len(words) + 1 else f" {' '.join(w.replace(' ', '_') for w in words)} "
    last, seen = -1, 0
    for number, start, end in matches:  # in order of their ends; each begins and ends with a space
        last, seen = last + spaced.count(" ", seen, end - 1), end - 1
        if spaced[start] == spaced[end - 1] == " ":
            first, form = last - spaced.count(" ", start + 1, end - 1), finder.forms[number]
            if first and words[first - 1] in ARTICLES and form in finder.articled:
                first -= 1
            yield Place(first, last, read.spans[last][1] - (2 if last in owners else 0), form)


@lru_cache(maxsize=1)
def weights() -> dict[str, float]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {str(name): float(weight) for name, weight in table["weights"].items()}
