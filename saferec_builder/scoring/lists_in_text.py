"""Finds the entries of a list in the lines of an answer: numbered or bulleted, also several on one line."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from saferec_builder.scoring.list_entry_parser import (
    CLOSE,
    DASH,
    GROUP,
    OPEN,
    POSITION,
    YEAR,
    YEAR_AFTER,
    Entry,
    Look,
    clean,
    entry_of,
    marked,
    year_of,
)
from saferec_builder.scoring.titles_in_prose import BULLET, HEADING, dated, title_case

# between a title with its year and the next title; no dash, as reasons follow dashes
_JOIN = re.compile(r"[\s\x02\x03]*(?:[,;|&/+]\s*(?:(?:and|or|then|also|plus|&)\s+)?|(?:and|or)\s+)", re.I)
_EDITION = re.compile(r"\b(?:cut|edition|version|remaster\w*|restor\w+|remake|season|dir|directed)\b", re.I)
_MARKER = re.compile(
    r"^(\s*)(?:#{1,6}\s+)?(?:[-*•●▪◦‣·–—+]\s+)?"
    r"(?:(?:\*\*)?(?:\((\d{1,2})\)\s*|(?i:(?:film|movie|game|pick|option|recommendation|no\.?) )?"
    r"#?(\d{1,3})(?:[.)、](?=[^\d\s])|[.):]\s*(?:\*\*)?\s+)))?"
)
_INLINE_NUMBER = re.compile(r"(?:^|(?<=[\s)\],;.]))(\(?)(\d{1,3})([.)])\s+(?=\S)")
_BARE_NUMBER = re.compile(r"(\s*)(?:\*\*)?#?(\d{1,3})(?:\*\*)?\s+(?=\S)")
_INLINE_BULLET = re.compile(r"(?<=\s)(?=[•●▪◦‣]\s)")
_OBJECT = (
    r"(?:\s+(?:these|those|them|the following|from this one|for now|for you|and why|list|films|movies|titles|games"
    r"|picks|candidates|options))*"
)
# headings of lists that are not recommended: "Avoid:", "B. Films to skip (gore):", "I would not recommend these:",
# "Popular, but not for you:", "Reasoning", "You liked:"; but "Films that avoid gore:" is, and "Skip if ..." is a note
_SUBJECT = r"(?:(?:the |some |a few )?(?:films|movies|titles|games|ones|things|what|which)(?: that| which)?\s+)?"
_ADVERBS = r"(?:(?:to|you should|you (?:may|might) want to|better|also|and|please|definitely|i(?:['’]d| would))\s+)*"
_UNFIT = (
    r"(?:(?:(?:(?:may|might) )?not (?:be )?|un)"
    r"(?:safe|suitable|right|recommended|a (?:good |great )?(?:fit|match|choice))|(?:poor|bad) fits?)"
)
_WHY = r"(?P<why>\s*\((?!if\b)[^()]*\)?|\s+[-–—]\s+(?!if\b).*|(?P<cause>,?\s+(?:because|since|for|due to)\b.*))?"
_NOT_RECOMMENDED = re.compile(
    rf"(?:[a-z][.)]\s+)?(?:(?:[^.!?:]*,\s+)?{_SUBJECT}{_ADVERBS}"
    rf"(?:avoid|skip|exclude|stay away(?: from)?|steer clear(?: of)?|leave out|instead of){_OBJECT}"
    rf"|{_SUBJECT}{_ADVERBS}(?:i\s+)?(?:(?:(?:would|do|can) ?)?not|\w+n['’]t) "
    rf"(?:recommend|recommended|suggest|watch|pick){_OBJECT}"
    rf"|{_SUBJECT}(?:i(?:['’]ve| have)?\s+|best )?"
    rf"(?:left out|excluded|skipped|avoided|removed|rejected|omitted|(?:filtered|ruled) out){_OBJECT}"
    r"|(?:(?:these|those) (?:are|may be|might be) |probably |likely )?too (?!good\b)[a-z]+ for (?:you|now)"
    rf"|(?:my |the )?(?:reasoning|thinking|thought process)"
    rf"|(?:[^.!?:]*\bbut\s+)?(?:{_UNFIT}(?: for (?:you|now))?|not for (?:you|now))){_WHY}"
    rf"|{_SUBJECT}you(?:['’]ve| have)?(?: already)? (?P<user>liked|loved|enjoyed|seen|watched|mentioned)",
    re.I,
)
_CROSS = "❌🚫⛔✖✘🙅"
# "❌ a title", "A title (1999): ❌ gore"; "A title (1999): ❌ no gore, ❌ no scares" and "Comedies (❌ gore)" praise
_CROSSED = re.compile(rf"\s*[{_CROSS}]|.*?{YEAR}[)\]][\s*_:–—-]*[{_CROSS}](?!\s*(?:no|zero|without)\b)(?!.*[{_CROSS}])")
_CROSSED_HEADING = re.compile(
    rf"(?=[\s#*_]*[{_CROSS}][^{_CROSS}]*$|[^{_CROSS}(]*[{_CROSS}]\W*$)"
    rf"\s*(?:#+|[{_CROSS}\s]*(?=\*\*[^*]+\*\*:?\W*$|.*:\W*$))"
)
_FREE = re.compile(r"\b(?:no|zero|without) (?!way\b|thanks\b)\w|-free\b", re.I)  # "❌ Gore-free films:" are wanted
_NEAR = 50  # lines that are read to tell a heading from a note


class _Position(NamedTuple):
    """A line with its number or bullet cut off."""

    line: int
    indent: int
    number: int  # 0 for a bullet
    text: str


class _Mark(NamedTuple):
    """How a line begins: "-" with a bullet, "1" with a number, "#1" with a heading's, else ""."""

    indent: int
    sign: str
    number: int


def listed(lines: Sequence[str], look: Look) -> list[Entry]:
    """Returns the entries of titles above numbered or bulleted lines, else of the numbered lines, else of the bulleted
    ones: of the first of these readings that names items. Deeper lines are reasons and are skipped, so bullets precede
    numbers that stand beneath them."""
    lines = [piece for line in lines for part in _bulleted_inline(line) for piece in _numbered_inline(part)]
    numbered, bulleted = _numbered(lines), _bulleted(lines)
    if titles := _titles_above(lines, [*numbered, *bulleted], look):
        return titles
    readings = [_top_level(positions, look) for positions in (numbered, bulleted) if positions]
    if len(readings) > 1 and bulleted[0].line < numbered[0].line and bulleted[0].indent < numbered[0].indent:
        readings.reverse()
    return next((entries for entries in readings if has_titles(entries)), readings[0] if readings else [])


def left_out(heading: str) -> re.Match[str] | None:
    """The match of a heading that says that the list beneath it is not recommended; "Excluded (2011)" is a film."""
    line = heading[:POSITION]
    if GROUP.search(line) or YEAR_AFTER.match(line) or line.rstrip(" *_").endswith("?"):
        return None
    crossed = _CROSSED_HEADING.match(line) and not _FREE.search(line)
    return _NOT_RECOMMENDED.fullmatch("avoid" if crossed else re.sub(r"^\W+|[*_`\"“”]|\W+$", "", _text(line)))


def rejected(lines: Sequence[str], look: Look) -> set[int]:
    """The numbers of the lines of lists whose headings say that they are not recommended, of lines like "Avoid: Saw",
    and of those with a cross. Blank lines tell a heading from a note on the entry right above it."""
    marks, dropped, end = [_mark(line) for line in lines], set[int](), 0
    for n, line in enumerate(lines):
        if n < end or not line.strip():
            continue
        if end := _rejected_until(lines, marks, n, look):
            dropped.update(range(n, end))
            continue
        label, _, rest = line.partition(":")
        of = left_out(label) if rest and not re.search(r"[.!?;]\s+\w", rest) else None
        is_film = of and re.match(r"[\W_]*(?!none\b)[a-z]", rest) and look(of.string)  # "Skip: a short"
        if _CROSSED.match(_text(line)) or (of and not of["user"] and not is_film):
            dropped.add(n)
    return dropped


def _rejected_until(lines: Sequence[str], marks: Sequence[_Mark], n: int, look: Look) -> int:
    """Where the list ends whose heading at n says that it is not recommended; 0 if there is no such heading."""
    if not (heading := left_out(lines[n])):
        return 0
    after = next((m for m in range(n + 1, len(lines)) if lines[m].strip()), n)
    if _is_note(lines, marks, n, after, look):
        return 0
    (indent, sign, _), rest = marks[after], range(n + 1, len(lines))
    ends: Iterator[int] = iter(rest)
    if sign:  # the list ends where one with other marks begins: "2. Heat" after "- the last scene"
        ends = (m for m in rest if lines[m].strip() and marks[m].indent <= indent and marks[m][:2] != (indent, sign))
    elif (after > n + 1 or _ends_in_colon(lines[n]) or _style(lines[n])) and (n == 0 or not lines[n - 1].strip()):
        # lines without marks end at a blank one
        ends = (m for m in rest if m >= after and (not lines[m].strip() or marks[m].sign or _ends_in_colon(lines[m])))
    end = next(ends, len(lines))
    # a film may be called "Skip": but not above titles
    beneath = [line for line in lines[n + 1 : end][:_NEAR] if line.strip()]
    is_film = entry_of(heading.string, look).item and not any(_is_title(_text(line), look) for line in beneath)
    return 0 if is_film else end


def _is_note(lines: Sequence[str], marks: Sequence[_Mark], n: int, after: int, look: Look) -> bool:
    """Whether line n, such as "*Avoid (guns)*", speaks of the entry above it, and the list goes on at `after`."""
    indent, sign, number = marks[after]
    entries = [m for m in range(max(0, n - _NEAR), n) if lines[m].strip() and marks[m].indent <= indent]
    above = [marks[m][:2] for m in entries]
    if marks[n].indent > indent:
        return (indent, sign) in above
    is_heading = _ends_in_colon(lines[n]) or "#" in _style(lines[n])
    if is_heading or number > 1 or above[-1:] != [(indent, sign)]:
        return number > 1 and not is_heading
    is_alone = above[-2:-1] != [(indent, sign)]
    has_why = bool((heading := left_out(lines[n])) and heading["why"])
    if lines[n - 1].strip():
        return is_alone or (sign == "-" and has_why)
    last = lines[entries[-1]]
    if not sign and last.rstrip(" *_").endswith((".", "!", ":")) and not _is_title(last, look):
        return False  # below a sentence such as "Here they are!" stands a heading
    return is_alone and after > n + 1 and (has_why or not _style(lines[n]))


def _text(line: str) -> str:
    """The line without its number or bullet."""
    return _MARKER.sub("", line, count=1)


def _ends_in_colon(line: str) -> bool:
    return line.rstrip(" *_").endswith(":")


def _mark(line: str) -> _Mark:
    number, indent = _MARKER.match(line), len(line) - len(line.lstrip())
    if BULLET.match(line) or not number or not (number[2] or number[3]):
        return _Mark(indent, "-" if BULLET.match(line) else "", 0)
    return _Mark(indent, "#1" if "#" in number[0] else "1", int(number[2] or number[3]))


def has_titles(entries: Sequence[Entry]) -> bool:
    """Whether an entry is an item or has a year, so that it is a title."""
    return any(entry.item or entry.year for entry in entries)


def _titles_above(lines: Sequence[str], positions: Sequence[_Position], look: Look) -> list[Entry]:
    """Entries of the lines that are a title alone, if two or more stand above numbered or bulleted lines with reasons.

    Other lines of the same style right above such reasons are titles that the catalogue lacks. Without years, all may
    be categories ("Romance"): then most of the lines beneath must not be titles.
    """
    by_line = {position.line: position.text for position in positions}
    titles: dict[int, Entry] = {}
    above: list[int] = []
    for n, line in enumerate(lines if positions else ()):
        if n not in by_line and (entry := _title_of(line, look)):
            titles[n] = entry
        elif n in by_line and titles and next(reversed(titles)) not in above:
            above.append(next(reversed(titles)))
    if len(above) < 2 or any(_is_title(text, look) for n, text in by_line.items() if n < above[0]):
        return []
    styles = {style for n in above if (style := _style(lines[n]))}
    alike = [n for n in range(len(lines)) if n + 1 in by_line and n not in by_line and _style(lines[n]) in styles]
    alike = [n for n in alike if n not in titles and not _ends_in_colon(lines[n])]
    unknown = {n: Entry(name) for n in alike if (name := clean(marked(HEADING.sub("", lines[n][:POSITION]))))}
    with_year = [titles[n] for n in above if titles[n].year]
    if len(with_year) < 2:
        beneath = [_is_title(text, look) for n, text in by_line.items() if n > above[0]]
        if 2 * sum(beneath) >= len(beneath):
            return []
    heads = sorted((titles | unknown).items())
    return [e for n, head in heads for e in (_entries_of(HEADING.sub("", lines[n]), look) if head.year else [head])]


def _style(line: str) -> str:
    """The style of a line: its heading signs (`##`), or OPEN if it begins in bold, italics or quotes, or ""."""
    text = line.strip()
    return text[: len(text) - len(text.lstrip("#"))] or (OPEN if marked(text).startswith(OPEN) else "")


def _title_of(line: str, look: Look) -> Entry | None:
    """The title that a line consists of: with a year, or in the catalogue and styled as a heading, bold or quoted."""
    text = marked(" ".join(HEADING.sub("", line[:POSITION]).split()))
    group = GROUP.search(text)
    if not group:
        if YEAR_AFTER.match(text) and (entry := entry_of(text, look)).item:
            return entry
        item = look(clean(text)) if _style(line) and not text.rstrip(CLOSE).endswith(":") else None
        return Entry(clean(text), None, item) if item else None
    entry = entry_of(text, look)
    # "Because you liked **Heat (1995)**:", "**Heat (1995)** fans will like:"
    if not clean(text).startswith(entry.title) or (text.endswith(":") and re.search(r"\w", text[group.end() :])):
        return None
    return entry if entry.item or title_case(entry.title) else None


def _is_title(text: str, look: Look) -> bool:
    """Whether the text after a number or bullet is a title, with at most a reason after punctuation."""
    group = GROUP.search(text)
    if not group:
        return look(clean(marked(text))) is not None
    entry, rest = entry_of(text, look), text[group.end() :].lstrip(" *_`\"'”’")
    begins = clean(marked(text)).startswith(entry.title) and (not rest or rest[0] in "-–—:,;.(|/")
    return begins and (entry.item is not None or title_case(entry.title))


def _numbered(lines: Sequence[str]) -> list[_Position]:
    """The lines that begin with a number, if the numbers count up; those without punctuation ("1 Alien") from one."""
    positions, bare = _positions(lines, _MARKER), _positions(lines, _BARE_NUMBER)
    numbers = [position.number for position in positions]
    # "300: a title" among titles without numbers does not count
    if len(lines) == 1 or min(numbers, default=9) <= 1 or any(b == a + 1 for a, b in pairwise(numbers)):
        return positions
    # "1 film I love is ..." is prose
    return bare if len(bare) > 1 and [position.number for position in bare] == [*range(1, len(bare) + 1)] else []


def _positions(lines: Sequence[str], pattern: re.Pattern[str]) -> list[_Position]:
    positions = []
    for n, line in enumerate(lines):
        if (marker := pattern.match(line)) and (number := next(filter(None, marker.groups()[1:]), None)):
            # "**1. Title:** a reason": the closing asterisks are in the text
            text = line[marker.end() :].replace("**", "", marker[0].count("**") % 2)
            positions.append(_Position(n, len(marker[1]), int(number), text))
    return positions


def _bulleted(lines: Sequence[str]) -> list[_Position]:
    bullets = ((n, line, BULLET.match(line)) for n, line in enumerate(lines))
    return [_Position(n, len(m[1]), 0, line[m.end() :]) for n, line, m in bullets if m]


def _top_level(positions: Sequence[_Position], look: Look) -> list[Entry]:
    """Entries of the positions that are indented no deeper than the first, without headings ("- For you:")."""
    texts, last, headed = list[str](), 0, False
    by_line = {position.line: position for position in positions}
    for line, indent, number, text in positions:
        # a nested list starts at one again; in a text that lost its first indent, the numbers go on
        deeper = indent > positions[0].indent + 1 and not (number and number == last + 1)
        if not deeper and clean(marked(text)):
            last, after = number, by_line.get(line + 1)
            # a title may end in a colon, too: above reasons, above another colon, in a list that no heading begins
            heads = after and (after.indent <= indent or _is_title(after.text, look)) and not _ends_in_colon(after.text)
            may_head = heads and _ends_in_colon(text) and (headed or not texts)
            is_heading = bool(may_head and not has_titles(_entries_of(text, look)))
            headed |= is_heading
            texts += [] if is_heading else [text.strip()]
    return [entry for text in _undashed(texts, look) for entry in _entries_of(text, look)]


def _undashed(texts: list[str], look: Look) -> list[str]:
    """ "Title - Genre" in every line of a list without the genres; "Saw - Reborn" alone may be another work."""
    parts = [DASH.split(text) for text in texts]
    if len(texts) < 2 or any(len(part) != 2 or GROUP.search(part[0]) for part in parts):
        return texts
    items = {look(clean(marked(head))) for head, _ in parts} - {None}
    if 2 * len(items) <= len(texts):
        return texts
    whole = [entry_of(marked(text), look) for text in texts]  # "Alien - Resurrection", "The Thing - 1982"
    return [text if e.item or e.year else head for text, e, (head, _) in zip(texts, whole, parts, strict=True)]


def _entries_of(text: str, look: Look) -> list[Entry]:
    """The entries of a position: several if commas, slashes or "and" join titles with their years.

    Between the join and the year, there must be nothing but a title, so that no reason is read as a title: "Heat
    (1995), by the director of Thief (1981)". Another title of the same work is no second entry.
    """
    line = marked(" ".join(text.split()))
    groups = list(GROUP.finditer(line))
    more: list[Entry] = []
    for last, group in pairwise(groups):
        join = _JOIN.match(line, last.end(), group.start())
        name = clean(line[join.end() : group.start()]) if join else ""
        item = look(name, year_of(group))
        rest = line[group.end() :].lstrip(CLOSE + " ")
        if re.match(r"(?!and\b|or\b|are\b|both\b|all\b)\w", rest):
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
    """ "• A (2001) • B (2002)" on one line as two lines, unless a part has no year: that is a reason."""
    parts = [part for part in _INLINE_BULLET.split(line) if part.strip()]
    return parts if len(parts) > 1 and BULLET.match(line) and all(map(GROUP.search, parts)) else [line]


def _numbered_inline(line: str) -> list[str]:
    """ "1. A 2. B 3. C" on one line as three lines; numbers that do not count up, have other punctuation or stand in
    brackets ("(Mad Max 2)") belong to titles and reasons."""
    starts: list[int] = []
    expected, sign, end = 0, "", 0
    for number in _INLINE_NUMBER.finditer(line):
        brackets = [line.count(bracket, end, number.start()) for bracket in "()"]
        if starts and (int(number[2]) != expected or number[1] + number[3] != sign or brackets[0] > brackets[1]):
            continue
        starts.append(number.start())
        expected, sign, end = int(number[2]) + 1, number[1] + number[3], number.end()
    if len(starts) < 2:
        return [line]
    return [line[a:b] for a, b in zip(starts, [*starts[1:], len(line)], strict=True)]
