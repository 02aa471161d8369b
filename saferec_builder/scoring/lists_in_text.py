"""Finds the positions of a list in the lines of an answer: numbered or bulleted ones, several on a line too."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from saferec_builder.scoring.list_entry_parser import (
    CLOSE,
    GROUP,
    OPEN,
    POSITION,
    YEAR_AFTER,
    Entry,
    Look,
    clean,
    entry_of,
    marked,
    year_of,
)
from saferec_builder.scoring.titles_in_prose import BULLET, HEADING, dated, title_case

# between a title with its year and the next; no dash, behind which reasons stand
_JOIN = re.compile(r"[\s\x02\x03]*(?:[,;|&/+]\s*(?:(?:and|or|then|also|plus|&)\s+)?|(?:and|or)\s+)", re.I)
_EDITION = re.compile(r"\b(?:cut|edition|version|remaster\w*|restor\w+|remake|season|dir|directed)\b", re.I)
_MARKER = re.compile(
    r"^(\s*)(?:>\s*)*(?:#{1,6}\s+)?(?:[-*•●▪◦‣·–—+]\s+)?"
    r"(?:(?:\*\*|__)?(?:\((\d{1,2})\)\s*|#?(\d{1,3})(?:[.)、](?=[^\d\s])|[.):]\s*(?:\*\*|__)?\s+)))?"
)
_INLINE_NUMBER = re.compile(r"(?:^|(?<=[\s)\],;.]))(\(?)(\d{1,3})([.)])\s+(?=\S)")
_BARE_NUMBER = re.compile(r"(\s*)(?:\*\*)?#?(\d{1,3})(?:\*\*)?\s+(?=\S)")
_INLINEBULLET = re.compile(r"(?<=\s)(?=[•●▪◦‣]\s)")
_THESE = r"(?:\s+(?:these|those|them|the following|for now|films|movies|titles|games))*"
# a heading of what is not recommended: "Avoid:", "Films to skip:", "I would not recommend these:", "You liked:"; a list
# that avoids something ("Films that avoid gore:") is recommended
_WHAT = r"(?:(?:the |some |a few )?(?:films|movies|titles|games|ones|what|which)(?: that| which)?\s+)?"
_TO = r"(?:(?:to|you should|you may want to|better|also|i(?:['’]d| would))\s+)*"
_LEFT_OUT = re.compile(
    rf"{_WHAT}{_TO}(?:avoid|skip|stay away from|steer clear of|leave out){_THESE}"
    rf"|{_WHAT}(?:i\s+)?(?:(?:would|do|can) ?not|\w+n['’]t|not) (?:recommend|recommended|suggest){_THESE}"
    rf"|{_WHAT}you(?:['’]ve| have)?(?: already)? (?:liked|enjoyed|seen|watched)"
    r"|left out|excluded",
    re.I,
)


class _Position(NamedTuple):
    """A line behind its number or bullet."""

    line: int
    indent: int
    number: int  # 0: a bullet
    text: str


def listed(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of the titles that stand above marked lines, or else of the numbered lines, or else of the bulleted ones:
    the first of these that names items. Reasons on deeper lines are passed over, so bullets come before numbers that
    stand beneath them."""
    every = [piece for line in lines for part in _bulleted_inline(line) for piece in _numbered_inline(part)]
    offered = _offered(every)
    if len(offered) < len(every) and names(found := _listed(offered, look)):
        return found
    return _listed(every, look)


def left_out(heading: str) -> bool:
    """Whether a line says of the list beneath it that it is not recommended."""
    return bool(_LEFT_OUT.fullmatch(clean(marked(HEADING.sub("", heading[:POSITION])))))


def _offered(lines: Sequence[str]) -> list[str]:
    """The lines without the lists whose headings say that they are not recommended."""
    kept, out, form = list[str](), False, None
    for line in lines:
        if not _is_marked(line):
            is_heading = _kind(line) or line.rstrip(" *_").endswith(":")
            out, form = bool(is_heading and left_out(line)), None
        elif out:  # a list ends where another of marks begins: "2. Heat" behind "- the last scene"
            now = (len(line) - len(line.lstrip()), BULLET.match(line) is None)
            form = form or now
            out = now == form or now[0] > form[0]
        if not out:
            kept.append(line)
    return kept


def _is_marked(line: str) -> bool:
    """Whether a line begins with a bullet or a number."""
    number = _MARKER.match(line)
    return BULLET.match(line) is not None or (number is not None and bool(number[2] or number[3]))


def _listed(split: Sequence[str], look: Look) -> list[Entry]:
    numbered, bulleted = _numbered(split), _bulleted(split)
    if titles := _above(split, [*numbered, *bulleted], look):
        return titles
    readings = [_outer(found, look) for found in (numbered, bulleted) if found]
    if len(readings) > 1 and bulleted[0].line < numbered[0].line and bulleted[0].indent < numbered[0].indent:
        readings.reverse()
    return next((entries for entries in readings if names(entries)), readings[0] if readings else [])


def names(entries: Sequence[Entry]) -> bool:
    """Whether one is an item, or has a year as titles have."""
    return any(entry.item or entry.year for entry in entries)


def _above(lines: Sequence[str], marks: Sequence[_Position], look: Look) -> list[Entry]:
    """Entries of the lines that are a title and nothing else, if two or more stand above marked lines: their reasons.

    Lines that are set as they are and stand right above marked lines are titles, too, that the catalogue does not hold.
    Without years all may be categories ("Romance"): then half of them must be in the catalogue, and most of the marked
    lines must not.
    """
    under = {mark.line: mark.text for mark in marks}
    heads: dict[int, Entry] = {}
    above: list[int] = []
    for n, line in enumerate(lines if marks else ()):
        if n not in under and (entry := _head(line, look)):
            heads[n] = entry
        elif n in under and heads and next(reversed(heads)) not in above:
            above.append(next(reversed(heads)))
    if len(above) < 2 or any(_is_title(text, look) for n, text in under.items() if n < above[0]):
        return []
    kinds = {kind for n in above if (kind := _kind(lines[n]))}
    alike = [n for n in range(len(lines)) if n + 1 in under and n not in under and _kind(lines[n]) in kinds]
    others = {n: Entry(name) for n in alike if n not in heads and (name := _bare(lines[n])) and name[-1] != ":"}
    dated = [heads[n] for n in above if heads[n].year]
    if len(dated) < 2 or not any(entry.item for entry in dated):
        beneath = [_is_title(text, look) for n, text in under.items() if n > above[0]]
        if len(above) < len(others) or 2 * sum(beneath) >= len(beneath):
            return []
    each = sorted((heads | others).items())
    return [e for n, one in each for e in (_several(HEADING.sub("", lines[n]), look) if one.year else [one])]


def _kind(line: str) -> str:
    """How a line is set: its signs of a heading, or whether it begins in marks."""
    text = line.strip()
    return text[: len(text) - len(text.lstrip("#"))] or (OPEN if marked(text).startswith(OPEN) else "")


def _head(line: str, look: Look) -> Entry | None:
    """The title that a line consists of: dated, or set as a heading or in marks and in the catalogue."""
    text = marked(" ".join(HEADING.sub("", line[:POSITION]).split()))
    group = GROUP.search(text)
    if not group:
        if YEAR_AFTER.match(text) and (entry := entry_of(text, look)).item:
            return entry
        item = look(clean(text)) if _kind(line) and not text.rstrip(CLOSE).endswith(":") else None
        return Entry(clean(text), None, item) if item else None
    entry = entry_of(text, look)
    if not clean(text).startswith(entry.title):
        return None  # "Because you liked **Heat (1995)**:"
    if re.search(r"\w", text[group.end() :]) and len(_several(text, look)) < 2:  # a reason on the same line
        return entry if entry.item and _kind(line) and not text.endswith(":") else None
    label = ":" in text[: group.start()] and not (text.startswith(OPEN) and CLOSE not in text[: group.start()])
    return entry if entry.item or (not label and title_case(entry.title)) else None


def _bare(line: str) -> str:
    return marked(HEADING.sub("", line[:POSITION])).replace(OPEN, "").replace(CLOSE, "").strip()


def _is_title(text: str, look: Look) -> bool:
    """Whether a marked line begins with an item and has at most a reason behind punctuation."""
    group = GROUP.search(text)
    if not group:
        return look(clean(marked(text))) is not None
    entry, behind = entry_of(text, look), text[group.end() :].lstrip(" *_`\"'”’")
    begins = clean(marked(text)).startswith(entry.title) and (not behind or behind[0] in "-–—:,;.(|/")
    return begins and (entry.item is not None or title_case(entry.title))


def _numbered(lines: Sequence[str]) -> list[_Position]:
    """The lines that begin with a number, if the numbers count."""
    found = []
    for n, line in enumerate(lines):
        if (marker := _MARKER.match(line)) and (number := marker[2] or marker[3]):
            # "**1. Title**": the other half stands in the text
            text = line[marker.end() :].replace("**", "", marker[0].count("**") % 2)
            found.append(_Position(n, len(marker[1]), int(number), text))
    numbers = [position.number for position in found]
    # "300: a title" among titles without numbers does not count
    counts = len(lines) == 1 or min(numbers, default=9) <= 1 or any(b == a + 1 for a, b in pairwise(numbers))
    return found if counts else _bare_numbered(lines)


def _bare_numbered(lines: Sequence[str]) -> list[_Position]:
    """The lines that begin with a number and nothing behind it ("1 Alien"), if these count from one: titles do not."""
    bare = [(n, line, m) for n, line in enumerate(lines) if (m := _BARE_NUMBER.match(line))]
    if len(bare) < 2 or [int(m[2]) for _, _, m in bare] != [*range(1, len(bare) + 1)]:
        return []
    return [
        _Position(n, len(m[1]), int(m[2]), line[m.end() :].replace("**", "", m[0].count("**") % 2))
        for n, line, m in bare
    ]


def _bulleted(lines: Sequence[str]) -> list[_Position]:
    bullets = ((n, line, BULLET.match(line)) for n, line in enumerate(lines))
    return [_Position(n, len(m[1]), 0, line[m.end() :]) for n, line, m in bullets if m]


def _outer(positions: Sequence[_Position], look: Look) -> list[Entry]:
    """Entries of the positions that stand no deeper than the first."""
    kept, last = [], 0
    for _, indent, number, text in positions:
        # a nested list counts from one again; a text that lost its first indent counts on
        deeper = indent > positions[0].indent + 1 and not (number and number == last + 1)
        if not deeper and clean(marked(text)):
            last = number
            kept.append(text.strip())
    return [entry for text in kept for entry in _several(text, look)]


def _several(text: str, look: Look) -> list[Entry]:
    """The entries of a position: more than one where commas, slashes or "and" join titles with their years.

    What joins them must be followed by a title and nothing else, so that none of a reason is taken: "Heat (1995), by
    the director of Thief (1981)". Another title of the same work is no second one.
    """
    line = marked(" ".join(text.split()))
    groups = list(GROUP.finditer(line))
    more: list[Entry] = []
    for last, group in pairwise(groups):
        join = _JOIN.match(line, last.end(), group.start())
        name = clean(line[join.end() : group.start()]) if join else ""
        item = look(name, year_of(group))
        behind = line[group.end() :].lstrip(CLOSE + " ")
        if re.match(r"(?!and\b|or\b|are\b|both\b|all\b)\w", behind):
            break
        if not item and (_EDITION.search(name) or not title_case(name)):
            break
        if item or year_of(group) != year_of(last):
            more.append(Entry(name, year_of(group), item))
    first = entry_of(line[: groups[0].end()] if more else text.strip(), look)
    if more and not first.item:  # "Space: Alien (1979), Aliens (1986)"
        first = next((entry for entry in dated(line[: groups[0].end()], look) if entry.item), first)
    return [first, *(e for e in more if not e.item or e.item != first.item or e.title == first.title)]


def _bulleted_inline(line: str) -> list[str]:
    """ "• A (2001) • B (2002)" on one line as two lines; a part without a year is a reason, and no title."""
    parts = [part for part in _INLINEBULLET.split(line) if part.strip()]
    return parts if len(parts) > 1 and BULLET.match(line) and all(map(GROUP.search, parts)) else [line]


def _numbered_inline(line: str) -> list[str]:
    """ "1. A 2. B 3. C" on one line as three lines; numbers that do not count up, that are set in another way or that
    stand in brackets ("(Mad Max 2)") belong to titles and reasons."""
    starts: list[int] = []
    expected, sign, at = 0, "", 0
    for number in _INLINE_NUMBER.finditer(line):
        brackets = [line.count(one, at, number.start()) for one in "()"]
        if starts and (int(number[2]) != expected or number[1] + number[3] != sign or brackets[0] > brackets[1]):
            continue
        starts.append(number.start())
        expected, sign, at = int(number[2]) + 1, number[1] + number[3], number.end()
    if len(starts) < 2:
        return [line]
    return [line[a:b] for a, b in zip(starts, [*starts[1:], len(line)], strict=True)]
