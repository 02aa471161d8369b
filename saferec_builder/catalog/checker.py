"""Verdicts of one title at a time, as a service asks for them: the tables are read once, and answers are kept."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from saferec_builder.catalog import known_works, linking, lookup
from saferec_builder.core import titles
from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import UNKNOWN, VIOLATED, Oracle
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

KEPT = 1_000_000  # answers that a checker keeps
_YEAR, _YEARS = 12, (1 << 12) - 1  # a work is one number: its year, and from this bit on its verdicts


class Checker(Protocol):
    """A function: the worst verdict (violated, clear or unknown) of a title over a person's traits.

    The title may end in its year: "Alien (1979)"; passed as `year` it is faster. Without any year it is the likeliest
    work, as in `check`. A title that the catalog lacks is unknown; ids are no titles. `traits` is the name of one, or a
    list. Raises UsageError for an unknown trait, and for none: whose traits are not known is not somebody without any.
    """

    def __call__(self, title: str, traits: str | Sequence[str], year: int | None = None) -> str: ...


def checker(ws: Workspace, *, domain: str | None = None) -> Checker:
    """Returns a Checker by the catalog as it is now; `domain` distinguishes a film and a game of one title.

    Raises UsageError for an unknown domain or an empty catalog.
    """
    lookup.known_domain(domain)
    items, links = lookup.merged(ws)
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    return checker_of(judged.oracle, linking.index(items, judged.works), domain)


def checker_of(oracle: Oracle, index: titles.Index, domain: str | None = None) -> Checker:
    """A Checker by the verdicts of `oracle` on the items of `index`.

    It answers what `titles.find` and `oracle.verdicts` do. Most titles are those of dated works only, so these are kept
    as numbers; all others are looked up.
    """
    codes = np.hstack([oracle.codes == VIOLATED, oracle.codes == UNKNOWN])
    bits = [int.from_bytes(row.tobytes(), "little") << _YEAR for row in np.packbits(codes, axis=1, bitorder="little")]

    def dated(rows: Sequence[tuple[int | None, str, str]]) -> int | tuple[int, ...]:
        years = [year for year, kind, _ in rows if year and year <= _YEARS and domain in (None, kind)]
        if len(years) < len(rows):
            return 0
        works = [bits[oracle.row(item)] | year for year, (_, _, item) in zip(years, rows, strict=True)]
        return works[0] if len(works) == 1 else tuple(works)

    forms = {form: dated(rows) for form, rows in index.by_title.items()}
    spelt = {title: dated(rows) for title, rows in index.spelt.items()}
    masks: dict[str | Sequence[str], tuple[int, int]] = {}
    apart = titles.YEARS_APART

    @lru_cache(KEPT)
    def cached(title: str, traits: str | Sequence[str], year: int | None) -> str:
        wanted = masks.get(traits)
        if wanted is None:
            wanted = masks[traits] = _masks(oracle, traits)
        work = 0
        if year is not None:
            dated_works = spelt.get(title.lower())
            if dated_works is None and "(" not in title and "[" not in title:
                dated_works = forms.get(titles.normal(title))
                if dated_works is None:
                    return "unknown"
            work = _nearest(dated_works, year) if isinstance(dated_works, tuple) else dated_works or 0
        if year is not None and work and -apart <= (off := (work & _YEARS) - year) <= apart:
            exact = off == 0
        else:
            name, own_year = titles.split_year(title) if year is None else (title, year)
            match = titles.find(index, name, own_year, domain)
            exact, work = match.exact, 0
            for item in match.candidates or (match.item,):  # the worst of the works that may be meant
                work |= bits[oracle.row(item)]
        if work & wanted[0]:
            return "violated"
        return "unknown" if work & wanted[1] or not exact else "clear"

    def check(title: str, traits: str | Sequence[str], year: int | None = None) -> str:
        try:
            return cached(title, traits, year)  # a list has no hash, and is not kept
        except TypeError:
            return cached(title, tuple(traits), year)

    return check


def _masks(oracle: Oracle, traits: str | Sequence[str]) -> tuple[int, int]:
    """The bits of a work that say violated, and those that say unknown, for any of these traits."""
    mask = oracle.mask((traits,) if isinstance(traits, str) else traits) << _YEAR
    if not mask:  # an iterator that is used up is true, and names none
        raise UsageError("no traits: expected at least one; to people without any, every title can be shown")
    return mask, mask << len(oracle.traits)


def _nearest(works: Sequence[int], year: int) -> int:
    """The only work whose year is nearest; 0 where there are two."""
    distances = [abs((work & _YEARS) - year) for work in works]
    least = min(distances)
    return works[distances.index(least)] if distances.count(least) == 1 else 0
