"""Says whether two rows of the catalog that share an id are one work."""

import re
from typing import TypedDict

from saferec_builder.core import titles

BY_TITLE = 1  # trust in ids that a source found by title and year: a year that fits proves nothing
TRUST = {"redial": BY_TITLE, "ddd": BY_TITLE, "csv": 2}  # in the ids that a source gives; of other collections: 3
_TITLE_BREAK = re.compile(r":| [-–—] ")


class Row(TypedDict):
    """A row of the catalog, as `merging` reads it."""

    n: int
    source: str
    source_id: str
    domain: str
    title: str
    year: int | None
    refs: list[str] | None
    aliases: list[str] | None
    genres: list[str] | None
    plot: str | None
    ref: str
    key: str | None
    alias_keys: list[str] | None
    free: bool


def medium(domain: str) -> str:
    """Returns "screen" for films and series, which sources do not always tell apart; games and books are none."""
    return "screen" if domain in ("film", "series") else domain


def agree(first: Row, second: Row) -> bool:
    """Whether two rows that share an id are one item.

    If neither source found its ids by title and year, ids are right but for slips: years at most one apart, or titles
    that are alike, are enough ("Battleship Potemkin" and "Bronenosets Potyomkin"). Otherwise rows must share a title,
    at most two years apart. In the same year, one title may also be part of the other: "Borat" and "Borat: Cultural
    Learnings ...", "Van Wilder" and "National Lampoon's Van Wilder"; a single word is too little ("Wanted", "Hot Girls
    Wanted").
    """
    if medium(first["domain"]) != medium(second["domain"]):
        return False
    years = abs(first["year"] - second["year"]) if first["year"] and second["year"] else None
    ours, theirs = title_forms(first), title_forms(second)
    trusted = BY_TITLE not in (TRUST.get(first["source"]), TRUST.get(second["source"]))
    if trusted and ((years is not None and years <= 1) or any(titles.alike(a, b) for a in ours for b in theirs)):
        return True
    if years is not None and years > titles.YEARS_APART:
        return False
    if ours & theirs:
        return True
    if years != 0:
        return False
    parts = [{titles.normal(part) for part in _TITLE_BREAK.split(row["title"])} for row in (first, second)]
    if parts[0] <= parts[1] or parts[1] <= parts[0]:
        return True
    return any(_within(a, b) or _within(b, a) for a in ours for b in theirs)


def title_forms(row: Row) -> set[str]:
    names = (titles.split_year(name)[0] for name in (row["title"], *(row["aliases"] or ())))
    return {form for name in names for form in titles.forms(name)}


def unlike(ours: set[str], theirs: set[str]) -> bool:
    """Whether two sets of title forms share no word and no title of one is like one of the other."""
    shared = {word for form in ours for word in form.split()} & {word for form in theirs for word in form.split()}
    return not shared and not any(titles.alike(a, b) for a in ours for b in theirs)


def _within(short: str, long: str) -> bool:
    return " " in short and f" {short} " in f" {long} "
