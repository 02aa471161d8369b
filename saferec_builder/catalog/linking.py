"""Finds the item that a ref, or a "Title (Year)" in a text, names.

reads  items, links (see merging)
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

import polars as pl
from ahocorasick_rs import AhoCorasick

from saferec_builder.core import titles
from saferec_builder.core.undated import Work
from saferec_builder.scoring import mention_finder
from saferec_builder.scoring.mention_finder import Finder
from saferec_builder.scoring.title_evidence import is_part

_MOST_WORDS = 12  # in a title before its year in running text
_BEFORE = re.compile(r"(?:(?!['’]\d)[^\w(\[#])*")  # marks before a title that are no part of it
_YEAR_IN_TEXT = re.compile(r"[(\[]\s*((?:18|19|20)\d\d)\s*[)\]]")


def index(items: pl.DataFrame, works: Mapping[str, Work] | None = None) -> titles.Index:
    """An index of the titles; `works` (known_works.works) distinguish works of one title if it has no year."""
    by_title = titles.index(items.select("item", "title", "year", "domain", "aliases").iter_rows())
    by_title.works = works or {}
    return by_title


def finder(
    items: pl.DataFrame, weighed: Mapping[str, float] | None = None, works: Mapping[str, Work] | None = None
) -> Finder:
    """Finds the items of `merge` in free text (mention_finder.in_text): one automaton over every title and alias."""
    names = (name for title, aliases in items.select("title", "aliases").iter_rows() for name in (title, *aliases))
    return mention_finder.finder(index(items, works), names, AhoCorasick, weighed)


def spans(build: Callable[[], Finder]) -> Callable[[str], list[tuple[int, int]]]:
    """A function: a text -> (start, end) of the items in it, which no placeholder may replace. It calls `build` for the
    first text that it is asked for, since few texts hold something like a title."""
    built = cache(build)
    return lambda text: [(m.start, m.end) for m in mention_finder.in_text(built(), text)]


def link(refs: Iterable[str], links: pl.DataFrame, index: titles.Index) -> dict[str, str]:
    """ref -> item for every ref that names one item only, exactly or not."""
    return {ref: match.item for ref, match in matches(refs, links, index).items() if match.item}


def matches(
    refs: Iterable[str], links: pl.DataFrame, index: titles.Index, domain: str | None = None
) -> dict[str, titles.Match]:
    """ref -> its match; `title:` refs that are not in `links` go through titles.find."""
    linked = dict(links.iter_rows())
    by_ref: dict[str, titles.Match] = {}
    for ref in dict.fromkeys(refs):
        if ref in linked:
            by_ref[ref] = titles.Match("found", linked[ref])
        elif ref.startswith("title:"):
            by_ref[ref] = titles.find(index, *titles.split_year(ref.removeprefix("title:")), domain)
    return by_ref


def finders(
    refs: Iterable[str], items: pl.DataFrame, links: pl.DataFrame, works: Mapping[str, Work], *, undated: bool
) -> tuple[Mapping[str, str], Callable[[str], Sequence[tuple[int, int, str]]]]:
    """(ref -> item, text -> mentions), both by the catalog; `undated`: titles without a year count, too."""
    if not undated:
        by_title = index(items, works)
        return link(refs, links, by_title), partial(mentions, index=by_title)
    finder_ = finder(items, works=works)

    def mentions_in(text: str) -> list[tuple[int, int, str]]:
        return [(m.start, m.end, str(m.item)) for m in mention_finder.in_text(finder_, text) if m.item]

    return link(refs, links, finder_.index), mentions_in


def mentions(text: str, index: titles.Index) -> list[tuple[int, int, str]]:
    """(start, end, item) of every "Title (Year)" in a text: the longest run of words before a year that is a title."""
    hits: list[tuple[int, int, str]] = []
    free = 0  # where the text after the previous mention begins
    for year in _YEAR_IN_TEXT.finditer(text):
        free = max(free, text.rfind("\n", 0, year.start()) + 1)
        words = [word.start() for word in re.finditer(r"\S+", text[free : year.start()])][-_MOST_WORDS:]
        longer = False  # whether a longer run is a title, but of another year
        for start in (free + word for word in words):
            title = text[start : year.start()].strip()
            if titles.normal(title) not in index.by_title:
                continue
            match = titles.find(index, title, int(year[1]))
            before = _BEFORE.match(title)
            begins = start + (before.end() if before else 0)
            if match.item and not is_part(text, begins, exact=match.exact, longer=longer):
                hits.append((begins, year.end(), match.item))
                break
            longer = True
        free = year.end()
    return hits
