"""Parses one list entry of an answer: from "**Title** (1999) - a reason" to its title, year and item.

Only titles.find turns a title into an item; a title that is ambiguous or not in the catalogue has no item. Where a
generous reading would turn an invented title into a real one, the item is unknown: "Saw: Reborn" is not "Saw".
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from saferec_builder.core import titles

Find = Callable[[str, int | None, str | None], str | None]  # (title, year, domain) -> item id, perhaps a titles.Near

POSITION = 400  # characters that are read of one list position, or of a line without a year

YEAR = r"(?:18|19|20)\d\d"
# (1999) [1999] (2019-2021) (1999, a director) (a director, 1999) (1999 film); never "(500)" or a subtitle in brackets
GROUP = re.compile(
    rf"[(\[]\s*(?:({YEAR})(?:\s*[-–—/]\s*(?:\d{{2,4}}|present)?)?|({YEAR})[\s,;]+[^()\[\]\n]{{1,60}}"
    rf"|[^()\[\]\n]{{1,60}}[,;]\s*({YEAR}))\s*[)\]]"
)
YEAR_AFTER = re.compile(rf"^(.*?\S)\s*(?:,|\s[-–—])\s*({YEAR})(?:\W*$|\s+[-–—|(]+\s*\S)")  # a title, 1999 - a reason
_YEAR_BARE = re.compile(rf"^(.*\S)\s+({YEAR})$")  # a title 1999: only if the catalogue has that title and year
YEAR_BEFORE = re.compile(rf"^\W*({YEAR})\W*[-–—:|)\]]\s*(\S.*)$")  # 1999 - a title
DASH = re.compile(r"\s+[-–—]\s+")
_REASON = re.compile(r"\s+[-–—]+\s+|[–—]|:\s+|,\s+|;\s+|\.\s+|\s+\(|\s+\|\s+|\s+because\s+")
_BY = re.compile(r"(.+?)\s+(?:by|starring)\s+(?!The\b|My\b|Your\b)[A-Z]\S*\s+[A-Z]")  # a title by a person
_LABEL = re.compile(r"^(?:title|movie|film|game|name|recommendation|pick)\s*:\s*", re.I)
_LEAD = re.compile(
    r"^(?:(?:try|watch|see|play|check out|consider|how about|what about|maybe|perhaps|also|and|or|then|next|finally"
    r"|(?:i|i'd|i would|we|you could|you might|you should)(?: also)? (?:recommend|suggest|try|watch|see|play))\s+)+",
    re.I,
)

OPEN, CLOSE = "\x02", "\x03"  # around text that was bold, italic, code or quoted
_SPANS = [
    re.compile(pattern)
    for pattern in (
        r"\*\*(?=\S)(.{1,200}?)(?<=\S)\*\*",
        r"(?<![\w*])\*(?=\S)([^*\n]{1,200}?)(?<=\S)\*(?![\w*])",
        r"(?<!\w)_(?=\S)([^_\n]{1,200}?)(?<=\S)_(?!\w)",
        r"`([^`\n]{1,200})`",
        r"[“„«‹「『《]\s*([^“”„«»‹›「」『』《》\n]{1,200}?)\s*[”“»›」』》]",
        r"(?<!\w)‘([^‘\n]{1,200}?)’(?!\w)",
        r'"(?=\S)([^"\n]{1,200}?)(?<=\S)"',
        r"(?<!\w)'(?=\S)([^'\n]{1,200}?(?:\w'\w[^'\n]{0,200}?){0,4})(?<=\S)'(?!\w)",
    )
]
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\((?:https?:|/|#)[^()\s]*\)")
_SPECIAL = re.compile(r"[*_`“„«‹「『《‘\"']|\]\(")


@dataclass(frozen=True)
class Entry:
    """One rank of an answer: the title and year as written, and their item, if there is one."""

    title: str
    year: int | None = None
    item: str | None = None

    @property
    def key(self) -> str:
        """The item's id, or a ref made of the title if there is no item: repeats have the same key."""
        return self.item or f"title:{titles.normal(self.title)}" + (f" ({self.year})" if self.year else "")


@dataclass(frozen=True)
class Look:
    """Looks titles up for one answer, in its domain: (title, year) -> item id or None."""

    find: Find
    domain: str | None

    def __call__(self, title: str, year: int | None = None) -> str | None:
        return self.find(title, year, self.domain) if title else None


def finder(index: titles.Index) -> Find:
    """titles.find with a cache. The domain decides only between items that share a title, and whether an item is named
    exactly: an item of another domain is not if the year is missing."""

    @lru_cache(maxsize=1 << 18)
    def find(title: str, year: int | None = None, domain: str | None = None) -> str | None:
        match = titles.find(index, title, year)
        if domain is None or (match.exact and match.item and year is not None):
            return titles.item_of(match)
        in_domain = titles.find(index, title, year, domain)
        if match.match == "ambiguous" or in_domain.item == match.item:
            return titles.item_of(in_domain)
        return titles.item_of(match._replace(exact=False))

    return find


def marked(text: str) -> str:
    """The text with bold, italics, code and quotes as one kind of bracket (OPEN, CLOSE), and links as their text."""
    if not _SPECIAL.search(text):
        return text
    text = _LINK.sub(r"\1", text)
    for span in _SPANS:
        text = span.sub(OPEN + r"\1" + CLOSE, text)
    return text


def clean(text: str) -> str:
    """The text without markup, and without punctuation that joins a title to its neighbours."""
    text = text.replace(OPEN, "").replace(CLOSE, "").strip().strip("*|").strip()
    # a dot, comma or dash at the end belongs to the sentence; "..." and "!" may be in a title, and look-ups ignore them
    return text.rstrip(" ,;:-–—").lstrip(" ,;:–—").removeprefix("- ").strip()


def _span(text: str) -> str | None:
    """The content of a bracket of `marked` that ends at the end of the text or is still open there; else None."""
    text = text.rstrip(" ,;:-–—")
    if text.endswith(CLOSE):
        return clean(text[text.rstrip(CLOSE).rfind(OPEN) + 1 :])
    return clean(text[text.rfind(OPEN) + 1 :]) if text.rfind(OPEN) > text.rfind(CLOSE) else None


def bare(text: str) -> str:
    """The text without a label or the verbs before a title."""
    return _LEAD.sub("", _LABEL.sub("", clean(text)))


def _cuts(text: str) -> Iterator[str]:
    """The text cut before each possible reason after the title, longest first."""
    for cut in reversed(list(_REASON.finditer(text))):
        rest = text[cut.end() :]
        # "Saw: a grim one" ends in a reason; "Saw: Reborn" is another title, and perhaps an invented one
        if rest[:1].islower() or len(rest.split()) >= 5:
            yield text[: cut.start()]


def before(item: str, rest: str) -> str:
    """The item, as titles.Near if brackets or its author follow its title in `rest`: it may be another work."""
    return titles.Near(item) if rest.lstrip().startswith(("(", "[", "by ")) else item


def choose(text: str, year: int | None, look: Look, more: Sequence[str] = (), following: str = "") -> Entry:
    """The entry for a text that should be a title: the first reading that is in the catalogue.

    following: the text after it. A reading that skips brackets after its title does not name the item exactly:
    "Saw (part two)" is not "Saw".
    """
    full, span, plain = clean(text), _span(text), bare(text)
    short = [clean(cut) for cut in _cuts(text)]
    rare = [clean(text.rpartition(": ")[2])] if year else []  # "Best of all: a title (1999)"
    rare += [by[1]] if year and (by := _BY.match(plain)) else []  # without a year it may well be a book
    for name in dict.fromkeys(n for n in (full, span, plain, *more, *short, *map(bare, short), *rare) if n):
        if item := look(name, year):
            return Entry(name, year, before(item, f"{full} {following}".partition(name)[2]))
    return Entry(span or (plain if year or not short else short[-1]) or full, year)


@lru_cache(maxsize=1 << 16)
def entry_of(text: str, look: Look) -> Entry:
    """One list position: a title with or without year, markup and reason."""
    text = " ".join(text[:POSITION].split())
    title, year = titles.split_year(text)
    # most entries are plain "Title (Year)"
    if year and not _SPECIAL.search(title) and (item := look(title, year)):
        return Entry(title, year, item)
    text = marked(text)
    groups = list(GROUP.finditer(text))
    if not groups:
        return yearless(text, look)
    if not clean(text[: groups[0].start()]) and clean(text[groups[0].end() :]):
        return choose(text[groups[0].end() :], year_of(groups[0]), look)
    entries = [choose(text[: group.start()] or text, year_of(group), look) for group in groups]
    return next((entry for entry in entries if entry.item), entries[0])


def yearless(text: str, look: Look) -> Entry:
    """A list position without a year in brackets: "Title, 1999", "1999 - Title", "Title 1999", "Title - a reason"."""
    if (entry := Entry(clean(text), None, look(clean(text)))).item:  # the 2001 in "2001: A Space Odyssey" is no year
        return entry
    if year_last := YEAR_AFTER.match(text):
        return choose(year_last[1], int(year_last[2]), look)
    if year_first := YEAR_BEFORE.match(text):
        entry = choose(year_first[2], int(year_first[1]), look)
        # "2001: A Space Odyssey - Sci-Fi" is not of 2001
        if entry.item or not any(look(clean(text[: dash.start()])) for dash in DASH.finditer(text)):
            return entry
    if (entry := named(clean(text), look)).item:
        return entry
    if text.lstrip().startswith(OPEN) and CLOSE in text:
        end = text.index(CLOSE) + 1
        return choose(text[:end], None, look, following=clean(text[end:]))
    return choose(text, None, look)


def named(name: str, look: Look) -> Entry:
    """The entry for a title as written, or for a title and a bare year after it if the catalogue has only those."""
    if not (item := look(name)) and (split := _YEAR_BARE.match(name)) and (dated := look(split[1], int(split[2]))):
        return Entry(clean(split[1]), int(split[2]), dated)
    return Entry(name, None, item)


def year_in(value: object) -> int | None:
    """The year at the start of a field: 1999, "1999-10-15", or 1999.0 from a table with gaps."""
    match = re.match(rf"\s*({YEAR})\b", str(value))
    return int(match[1]) if match else None


def year_of(group: re.Match[str]) -> int:
    return int(next(g for g in group.groups() if g))
