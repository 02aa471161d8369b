"""Finds the positions of a list in the lines of an answer: numbered or bulleted ones, several on a line too."""

import re
from collections.abc import Sequence
from itertools import pairwise

from saferec_builder.scoring.list_entry_parser import GROUP, Entry, Look, clean, entry_of, marked
from saferec_builder.scoring.titles_in_prose import dated

_MORE = re.compile(r"^\W*(?:[,;|&]|and\b)", re.I)  # after a title and its year: another title follows
_MARKER = re.compile(
    r"^(\s*)(?:>\s*)*(?:#{1,6}\s+)?(?:[-*•●▪◦‣·–—+]\s+)?"
    r"(?:(?:\*\*|__)?(?:\((\d{1,2})\)\s*|#?(\d{1,3})(?:[.)、](?=[^\d\s])|[.):]\s*(?:\*\*|__)?\s+)))?"
)
_BULLET = re.compile(r"(\s*)(?:>\s*)*(?:#{1,6}\s+)?[-*•●▪◦‣·–—+]\s")
_INLINE_NUMBER = re.compile(r"(?:^|(?<=[\s)\],;.]))\(?(\d{1,3})[.)]\s+(?=\S)")
_INLINE_BULLET = re.compile(r"(?<=\s)(?=[•●▪◦‣]\s)")


def listed(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of the numbered lines, or else of the bulleted ones; reasons on deeper lines are passed over."""
    split = [piece for line in lines for part in _bulleted_inline(line) for piece in _numbered_inline(part)]
    positions, kept, last = _numbered(split) or _bulleted(split), [], 0
    for indent, number, text in positions:
        # a nested list counts from one again; a text that lost its first indent counts on
        deeper = indent > positions[0][0] + 1 and not (number and number == last + 1)
        if not deeper and clean(marked(text)):
            last = number
            kept.append(text.strip())
    return _several(kept[0], look) if len(kept) == 1 else [entry_of(text, look) for text in kept]


def names(entries: Sequence[Entry]) -> bool:
    """Whether one is an item, or has a year as titles have."""
    return any(entry.item or entry.year for entry in entries)


def _numbered(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    """(indent, number, text) of the lines that begin with a number, if the numbers count."""
    found = []
    for line in lines:
        if (marker := _MARKER.match(line)) and (number := marker[2] or marker[3]):
            # "**1. Title**": the other half stands in the text
            text = line[marker.end() :].replace("**", "", marker[0].count("**") % 2)
            found.append((len(marker[1]), int(number), text))
    numbers = [number for _, number, _ in found]
    # "300: a title" among titles without numbers does not count
    counts = len(lines) == 1 or min(numbers, default=9) <= 1 or any(b == a + 1 for a, b in pairwise(numbers))
    return found if counts else []


def _bulleted(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    return [(len(m[1]), 0, line[m.end() :]) for line in lines if (m := _BULLET.match(line))]


def _several(text: str, look: Look) -> list[Entry]:
    """The entries of a list's only line, which may hold a whole list: "- Saw (2004), Hostel (2005)"."""
    groups = list(GROUP.finditer(text))
    if len(groups) > 1 and _MORE.match(text[groups[0].end() :]):
        return dated(marked(text), look)
    return [entry_of(text.strip(), look)]


def _bulleted_inline(line: str) -> list[str]:
    """ "• A (2001) • B (2002)" on one line as two lines; a part without a year is a reason, and no title."""
    parts = [part for part in _INLINE_BULLET.split(line) if part.strip()]
    return parts if len(parts) > 1 and _BULLET.match(line) and all(map(GROUP.search, parts)) else [line]


def _numbered_inline(line: str) -> list[str]:
    """ "1. A 2. B 3. C" on one line as three lines; numbers that do not count up belong to titles."""
    starts, expected = [], None
    for number in _INLINE_NUMBER.finditer(line):
        if expected is None or int(number[1]) == expected:
            starts.append(number.start())
            expected = int(number[1]) + 1
    if len(starts) < 2:
        return [line]
    return [line[a:b] for a, b in zip(starts, [*starts[1:], len(line)], strict=True)]
