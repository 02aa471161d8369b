"""One normal form of a title, and from (title, year) to the item it means.

Only the standard library: training resolves its answers with the same functions.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

YEARS_APART = 2  # a year within two still names the same item (release dates differ by country)

_YEAR = re.compile(r"^(.*\S)\s*[(\[]\s*((?:18|19|20)\d\d)(?:\s*[-–]\s*(?:\d{4})?)?\s*[)\]]\s*$", re.S)
_TRAILING_ARTICLE = re.compile(r"^(.*),\s*(the|an?|les?|la|el|los|las|der|die|das|il|l')$")
_LEADING_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")
_NOT_WORD = re.compile(r"[^\w#]+")
_BRACKETED = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*")


def split_year(text: str) -> tuple[str, int | None]:
    """("Alien (1979)") -> ("Alien", 1979); a title without a trailing year keeps None ("2049" is a title)."""
    found = _YEAR.match(text.strip())
    return (found[1].strip(), int(found[2])) if found else (text.strip(), None)


def normal(title: str) -> str:
    """Case, accents, quotes, punctuation, articles and "&" folded: the key under which a title is looked up."""
    text = unicodedata.normalize("NFKD", title)
    text = "".join(c for c in text if not unicodedata.combining(c)).casefold().strip()
    text = text.replace("&", " and ").replace("'", "").replace("’", "").replace("‘", "")
    if trailing := _TRAILING_ARTICLE.match(text):
        text = f"{trailing[2]} {trailing[1]}"
    text = " ".join(_NOT_WORD.sub(" ", text).split())
    return _LEADING_ARTICLE.sub("", text) or text


def forms(title: str) -> list[str]:
    """The normal forms a title answers to: whole, without its bracketed part, and the bracketed part itself."""
    outside = _BRACKETED.sub(" ", title).strip()
    inside = [part for part in re.findall(r"[(\[]([^()\[\]]+)[)\]]", title) if len(part) > 3]
    return list(dict.fromkeys(n for n in map(normal, [title, outside, *inside]) if n))


@dataclass(frozen=True)
class Match:
    """found: `item` is it; ambiguous: `candidates` share the title; not_found: neither."""

    match: str
    item: str | None = None
    candidates: tuple[str, ...] = ()


@dataclass
class Index:
    """Items by normal title: build with `index`, ask with `find`."""

    by_title: dict[str, list[tuple[int | None, str, str]]] = field(default_factory=dict)  # (year, domain, item id)


def index(items: Iterable[tuple[str, str, int | None, str, Sequence[str]]]) -> Index:
    """From (item id, title, year, domain, aliases); a title's main form and its aliases all lead to it."""
    built: dict[str, list[tuple[int | None, str, str]]] = {}
    for item, title, year, domain, aliases in items:
        for form in dict.fromkeys(f for name in (title, *aliases) for f in forms(name)):
            built.setdefault(form, []).append((year, domain, item))
    return Index(built)


def find(index: Index, title: str, year: int | None = None, domain: str | None = None) -> Match:
    """The item that a title and year mean: nearest year within two; without a year only if nothing else shares it."""
    rows = next((index.by_title[f] for f in forms(title) if f in index.by_title), [])
    rows = [row for row in rows if domain in (None, row[1])]
    if year is not None:
        apart = [(abs(row[0] - year), row[2]) for row in rows if row[0] is not None]
        near = [pair for pair in apart if pair[0] <= YEARS_APART]
        best = min((d for d, _ in near), default=0)
        # a yearless item (a game whose source has no years) is meant only where nothing dated fits
        named = [item for d, item in near if d == best] or [item for y, _, item in rows if y is None]
    else:
        named = [item for _, _, item in rows]
    named = list(dict.fromkeys(named))
    if len(named) == 1:
        return Match("found", named[0])
    return Match("ambiguous", None, tuple(named)) if named else Match("not_found")
