"""From a ref, or from "Title (Year)" in a text, to the item that it names.

reads  items, links (see merging)
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import polars as pl
from ahocorasick_rs import AhoCorasick

from saferec_builder.core import titles
from saferec_builder.core.undated import Work
from saferec_builder.scoring import mention_finder
from saferec_builder.scoring.mention_finder import Finder
from saferec_builder.scoring.title_evidence import is_part

_MOST_WORDS = 12  # of a title before its year in running text
_BEFORE = re.compile(r"(?:(?!['’]\d)[^\w(\[#])*")  # what stands before a title and is no part of it
_YEAR_IN_TEXT = re.compile(r"[(\[]\s*((?:18|19|20)\d\d)\s*[)\]]")


def index(items: pl.DataFrame, works: Mapping[str, Work] | None = None) -> titles.Index:
    """`works` (known_works.works) tell works of one title apart where a title has no year."""
    built = titles.index(items.select("item", "title", "year", "domain", "aliases").iter_rows())
    built.works = works or {}
    return built


def finder(
    items: pl.DataFrame, weighed: Mapping[str, float] | None = None, works: Mapping[str, Work] | None = None
) -> Finder:
    """Finds the items of `merge` in free text (mention_finder.in_text): one automaton over every title and alias."""
    names = (name for title, aliases in items.select("title", "aliases").iter_rows() for name in (title, *aliases))
    return mention_finder.finder(index(items, works), names, AhoCorasick, weighed)


def link(refs: Iterable[str], links: pl.DataFrame, index: titles.Index, domain: str | None = None) -> dict[str, str]:
    """ref -> item for every ref that names one item only, exactly or not."""
    return {ref: match.item for ref, match in matches(refs, links, index, domain).items() if match.item}


def matches(
    refs: Iterable[str], links: pl.DataFrame, index: titles.Index, domain: str | None = None
) -> dict[str, titles.Match]:
    """ref -> what it means; `title:` refs that are not in `links` go through titles.find."""
    known = dict(links.iter_rows())
    found: dict[str, titles.Match] = {}
    for ref in dict.fromkeys(refs):
        if ref in known:
            found[ref] = titles.Match("found", known[ref])
        elif ref.startswith("title:"):
            found[ref] = titles.find(index, *titles.split_year(ref.removeprefix("title:")), domain)
    return found


def finders(
    refs: Iterable[str], items: pl.DataFrame, links: pl.DataFrame, works: Mapping[str, Work], *, undated: bool
) -> tuple[Mapping[str, str], Callable[[str], Sequence[tuple[int, int, str]]]]:
    """(ref -> item, text -> mentions), both by the catalog; `undated`: of titles without a year, too."""
    if not undated:
        known = index(items, works)
        return link(refs, links, known), partial(mentions, index=known)
    found = finder(items, works=works)

    def said(text: str) -> list[tuple[int, int, str]]:
        return [(one.start, one.end, one.item) for one in mention_finder.in_text(found, text) if one.item]

    return link(refs, links, found.index), said


def mentions(text: str, index: titles.Index) -> list[tuple[int, int, str]]:
    """(start, end, item) of every "Title (Year)" in a text: the longest run of words before a year that is a title."""
    found: list[tuple[int, int, str]] = []
    free = 0  # where the text that no earlier mention took begins
    for year in _YEAR_IN_TEXT.finditer(text):
        free = max(free, text.rfind("\n", 0, year.start()) + 1)
        words = [word.start() for word in re.finditer(r"\S+", text[free : year.start()])][-_MOST_WORDS:]
        longer = False  # whether a longer run is a title, of another year
        for start in (free + word for word in words):
            title = text[start : year.start()].strip()
            if titles.normal(title) not in index.by_title:
                continue
            match = titles.find(index, title, int(year[1]))
            before = _BEFORE.match(title)
            begins = start + (before.end() if before else 0)
            if match.item and not is_part(text, begins, exact=match.exact, longer=longer):
                found.append((begins, year.end(), match.item))
                break
            longer = True
        free = year.end()
    return found
