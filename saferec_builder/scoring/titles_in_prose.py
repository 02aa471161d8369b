"""Finds titles in running text and on plain lines, where no list marks the words of a title.

A title may begin only at a few places (a line, a quote, punctuation, "try ..."), and a title without a year counts only
if it is in the catalogue, so that prose is no recommendation and an invented title is no item.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from saferec_builder.scoring.list_entry_parser import (
    CLOSE,
    GROUP,
    OPEN,
    POSITION,
    YEAR_AFTER,
    YEAR_BEFORE,
    Entry,
    Look,
    bare,
    before,
    choose,
    clean,
    marked,
    named,
    year_of,
    yearless,
)

HEADING = re.compile(r"^\s*(?:#{1,6}\s+)?")
BULLET = re.compile(r"(\s*)(?:#{1,6}\s+)?[-*•●▪◦‣·–—+]\s")
_LEADING = frozenset(
    "avoid try watch see play recommend suggest like consider about is are include unlike than".split()
)
_QUOTED = re.compile(r"\x02([^\x02\x03]+)\x03[.!?]\s+")
_SMALL = frozenset("a an and at by for from in into of on or the to with".split())  # words in titles


def unlisted(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of lines without marks: every title with a year, and those without one that are clearly titles."""
    entries: list[Entry] = []
    any_dated = any(GROUP.search(line) for line in lines)
    for line in (marked(" ".join(HEADING.sub("", line).split())) for line in lines):
        if GROUP.search(line):
            entries += dated(line, look)
        else:
            entries += _undated(line[:POSITION], look, alone=any_dated or len(lines) < 2)
    return entries


def dated(line: str, look: Look) -> list[Entry]:
    """Titles before (or, if the line begins with a year, after) each year in brackets."""
    groups = list(GROUP.finditer(line))
    if not clean(line[: groups[0].start()]) and clean(line[groups[0].end() :]):
        ends = [*(g.start() for g in groups[1:]), len(line)]
        return [choose(line[g.end() : end], year_of(g), look) for g, end in zip(groups, ends, strict=True)]
    entries, start = [], 0
    for group in groups:
        # 'maybe "Heat". Then Alien (1979)': a quote that ends a sentence is a title of its own
        span = _QUOTED.search(line, start, group.start())
        leads = span is not None and bare(line[start : span.start()] + "x") == "x"
        if span and leads and (entry := _marked(span, look)).item:
            entries.append(entry)
            start = span.end()
        entries += _chunk(line[start : group.start()], year_of(group), look)
        start = group.end()
    tail = clean(line[start:])
    return entries + ([Entry(tail, None, item)] if (item := look(tail)) else [])


def _chunk(text: str, year: int, look: Look) -> list[Entry]:
    """Text before a year: its longest ending that is a title and begins where one may begin."""
    words = [(m.start(), m[0]) for m in re.finditer(r"\S+", text)][-24:]
    endings = []
    for n, (start, _) in enumerate(words):
        ending = text[start:]
        if _may_begin(words, n) or (_after_verb(words, n) and look(clean(ending), year)):
            endings.append(clean(ending))
    entry = choose(text, year, look, endings)
    return [entry] if clean(entry.title) else []


def _may_begin(words: Sequence[tuple[int, str]], n: int) -> bool:
    """A title may begin at the start, in bold or quotes, after punctuation, or after "try", "instead of", ..."""
    if n == 0 or words[n][1].startswith(OPEN):
        return True
    last = words[n - 1][1].rstrip(CLOSE)
    if last[-1:] in ",;:.!?…|/&–—-" or last.endswith(OPEN):
        return True
    return last.lower() in _LEADING or [word.lower() for _, word in words[max(n - 2, 0) : n]] == ["instead", "of"]


def _after_verb(words: Sequence[tuple[int, str]], n: int) -> bool:
    """A title may also begin with a capital or digit after a verb ("you might enjoy Alien (1979)", "I would go for
    ..."), if the catalogue has it with that year: inside a title such words have capitals."""
    before = [word for _, word in words[:n]]
    while before and before[-1] in _SMALL:
        before.pop()
    return (not before or before[-1][0].islower()) and not words[n][1][0].islower()


def _undated(line: str, look: Look, alone: bool) -> list[Entry]:
    """A line without a year in brackets: one title, several between commas, or prose (no entries)."""
    title = clean(line)
    if (entry := named(title, look)).item:
        return [entry]
    if YEAR_AFTER.match(line) or YEAR_BEFORE.match(line):
        entry = yearless(line, look)
        return [entry] if entry.item or not alone else []
    pieces = _pieces(line, look)
    if len(known := [p for p in pieces if p.item]) >= 2 and 2 * len(known) >= len(pieces):
        return pieces
    spans = [e for span in re.finditer(r"\x02([^\x02\x03]+)\x03", line) if (e := _marked(span, look)).item]
    return spans or ([Entry(title)] if not alone and _looks_like_title(title, line) else [])


def _marked(span: re.Match[str], look: Look) -> Entry:
    """A title in bold or quotes; brackets after it may show that it is another work's."""
    entry = named(clean(span[1]), look)
    return replace(entry, item=before(entry.item, span.string[span.end() :])) if entry.item else entry


def _looks_like_title(title: str, line: str) -> bool:
    """Looks like a title on a line of its own: short, no small first letter, no end of a sentence."""
    return title != "" and not title[0].islower() and len(title.split()) <= 8 and line.rstrip()[-1:] not in ".:!?,;"


def title_case(text: str) -> bool:
    """Whether its words have the capitals of a title: nothing else distinguishes an invented one from a sentence."""
    words = text.split()
    return 0 < len(words) <= 10 and not any(word[0].islower() and word not in _SMALL for word in words)


def _pieces(line: str, look: Look) -> list[Entry]:
    """The parts between commas, joined again if the catalogue has the title with its comma."""
    cuts = list(re.finditer(r"\s*[,;•·|]\s*(?:(?:and|or)\s+)?|\s+(?:and|&|or)\s+", line))
    starts, ends = [0, *(c.end() for c in cuts)], [*(c.start() for c in cuts), len(line)]
    entries, n = [], 0
    while n < len(starts):
        for m in range(min(n + 4, len(starts)), n, -1):
            entry = named(bare(line[starts[n] : ends[m - 1]].rstrip(" .…!")), look)
            if entry.item:
                break
        n = m
        # a title in running text has a capital: "sorry, it" names no film
        if entry.title:
            entries.append(Entry(entry.title) if entry.title[0].islower() else entry)
    return entries
