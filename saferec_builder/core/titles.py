"""Normalises item titles, and finds the item that a (title, year) means.

Only the standard library: training resolves its answers with the same functions.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from saferec_builder.core import undated
from saferec_builder.core.undated import Company, Work

YEARS_APART = 2  # a year within two still names the same item (release dates differ by country)

_YEAR = re.compile(r"^(.*\S)\s*[(\[]\s*((?:18|19|20)\d\d)(?:\s*[-–]\s*(?:\d{4})?)?\s*[)\]]\s*$", re.S)
_ARTICLES = "the|an?|les?|la|lo|gli|il|els?|los|las|un|une|una|der|die|das|den|det|de|os|l'|i"
_TRAILING_ARTICLE = re.compile(rf"^(.*\S)\s*,\s*({_ARTICLES})$", re.S | re.I)
_LEADING_ARTICLE = re.compile(r"^\W*(?:the|an?)\s+(?=.*\w)", re.S)
_ARTICLE_AT_ONCE = tuple(article + space for article in ("the", "an", "a") for space in " \t\n\xa0\u3000\u2009\u200a")
_SIGNS = str.maketrans(dict.fromkeys("’‘ʼʹ′`´ʻ", "'") | dict.fromkeys("™®©℠", " "))
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"})
_VOICED = "\u3099\u309a"  # what tells the kana of "Paris" from those of "Bali": part of the letter, no accent
_LOST_SIGN = re.compile(r"&(x[0-9a-f]{2,4});", re.I)
_AND = re.compile(r"&|(?<=\s)\+(?=\s)")
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "xi": "11", "xii": "12"}
_SPELT = dict(zip("one two three four five six seven eight nine ten".split(), map(str, range(1, 11)), strict=True))
_PARTS = frozenset(("part", "chapter", "episode", "volume", "vol"))
_COUNTING = frozenset(_ROMAN) | _PARTS | {"vs", "versus"}
_NOT_WORD = re.compile(r"[^\w#]+|_")
_BLANKS = bytes(ord(" ") if _NOT_WORD.match(chr(n)) else n for n in range(256))  # the same, of ASCII
_BRACKETED = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*")
_INSIDE = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
_ALSO = re.compile(r"^\s*(?:a\.?k\.?a\.?|aka|also known as)\s+", re.I)
# a note on an edition or an instalment is no title of its own
_NOTE = re.compile(r"^(?:(?:part|vol|volume|season|series|episode|chapter|disc|tv|video|original|extended)\b|\d+$)")
_INSTALMENT = re.compile(r"^(?:(?:part|vol|volume|chapter)\b|\d{1,2}$)")  # without it the title is another film's


def split_year(text: str) -> tuple[str, int | None]:
    """("Alien (1979)") -> ("Alien", 1979); a title without a trailing year keeps None ("2049" is a title)."""
    found = _YEAR.match(text.strip())
    return (found[1].strip(), int(found[2])) if found else (text.strip(), None)


def shown(item: Mapping[str, object]) -> str:
    """Of an item with a title and perhaps a year, as people read it: "Alien (1979)"."""
    return f"{item['title']} ({item['year']})" if item.get("year") else str(item["title"])


def spoken(title: str) -> str:
    """The title as people say it: "Postman, The (Postino, Il)" -> "The Postman (Il Postino)"."""
    if "," not in title:
        return " ".join(title.split())
    parts = re.split(r"([(\[][^()\[\]]*[)\]])", title)
    words = [
        part[0] + _article_first(part[1:-1]) + part[-1] if part[:1] in ("(", "[") else _article_first(part.strip())
        for part in parts
    ]
    return " ".join(" ".join(words).split())


def _article_first(text: str) -> str:
    found = _TRAILING_ARTICLE.match(text)
    if not found:
        return text
    return found[2] + ("" if found[2].endswith("'") else " ") + found[1]


def unescaped(title: str) -> str:
    """Without what a web page left in it: "Mr. &amp; Mrs. Smith", and "Dracula&x27;s" of ReDial, which lost a sign."""
    return html.unescape(_LOST_SIGN.sub(r"&#\1;", title)) if "&" in title and ";" in title else title


def normal(title: str) -> str:
    """Case, accents, quotes, punctuation, articles and "&" folded: the key under which a title is looked up."""
    title = unescaped(title)
    text = title.lower().strip() if title.isascii() else _folded(title)
    if "&" in text or "+" in text:
        text = _AND.sub(" and ", text)
    text = (_article_first(text) if "," in text else text).replace("'", "").replace("`", "")
    # before punctuation goes: "A Team" has an article, "A-Team" has not
    if text[:1].isalnum() and not text.startswith(_ARTICLE_AT_ONCE):
        return _words(text)
    return _words(_LEADING_ARTICLE.sub("", text)) or _words(text)


def _folded(title: str) -> str:
    text = unicodedata.normalize("NFKD", re.sub(r"(?<=\d)(?=[¼½¾⅓⅔])", " ", title.translate(_SIGNS)))
    text = "".join(c for c in text if not unicodedata.combining(c) or c in _VOICED)
    if any(mark in text for mark in _VOICED):
        text = unicodedata.normalize("NFC", text)
    return text.casefold().strip().translate(_LETTERS)


def _words(text: str) -> str:
    if text.isascii():  # most are, and bytes are quicker than a pattern
        return " ".join(counted(text.encode().translate(_BLANKS).decode().split()))
    return " ".join(counted(_NOT_WORD.sub(" ", text).split()))


def counted(words: list[str]) -> list[str]:
    """Words with their numbers as digits: "rocky ii" is "rocky 2", "chapter two" is "chapter 2", "vs" is "v".

    Only after another word, and I, V and X may be letters.
    """
    if _COUNTING.isdisjoint(words):
        return words
    return [_number(before, word) for before, word in zip(["", *words], words, strict=False)]


def _number(before: str, word: str) -> str:
    if not before:
        return word
    if word in ("vs", "versus"):
        return "v"
    return _ROMAN.get(word) or (_SPELT.get(word, word) if before in _PARTS else word)


def forms(title: str) -> list[str]:
    """The normal forms a title answers to: whole, without its bracketed part, and the bracketed part itself."""
    whole = normal(title)
    if "(" not in title and "[" not in title:
        return [whole] if whole else []
    inside = [_ALSO.sub("", part) for part in _INSIDE.findall(title)]
    keys = [whole, _outside(title), *(n for n in map(normal, inside) if len(n) > 3 and not _NOTE.match(n))]
    return list(dict.fromkeys(key for key in keys if key))


def _outside(title: str) -> str:
    return normal(_BRACKETED.sub(" ", title).strip())


class Match(NamedTuple):
    """found: `item` is it; ambiguous: `candidates` share the title; not_found: neither.

    exact is False where another work may be meant than the item or the candidates: the year is one or two away or not
    given, brackets were passed over that are no title of it, or a year was asked of an entry that has none. What is
    known of it may violate, and never clears. A found item has candidates where a title without a year may mean any of
    these: one may violate, and only all of them clear.
    """

    match: str
    item: str | None = None
    candidates: tuple[str, ...] = ()
    exact: bool = True


class Near(str):
    """The id of an item that a title names, but not exactly (see Match): the same id wherever ids are compared."""


NOT_FOUND = Match("not_found")


def named(match: Match) -> str | None:
    """The item's id, a Near where the title does not name it exactly."""
    sure = match.exact and not match.candidates
    return match.item if sure or match.item is None else Near(match.item)


@dataclass
class Index:
    """Items by normal title: build with `index`, ask with `find`."""

    by_title: dict[str, list[tuple[int | None, str, str]]] = field(default_factory=dict)  # (year, domain, item id)
    # the same rows under a title as a source spells it, in lower case: what most questions are, and no work
    spelt: dict[str, list[tuple[int | None, str, str]]] = field(default_factory=dict)
    works: Mapping[str, Work] = field(default_factory=dict)  # what tells works of one title apart, where it is known


def index(items: Iterable[tuple[str, str, int | None, str, Sequence[str]]]) -> Index:
    """From (item id, title, year, domain, aliases); a title's main form and its aliases all lead to it.

    An alias may carry a year of its own ("Alien (1980)", where a source dates the item otherwise).
    """
    built = Index()
    for item, title, year, domain, aliases in items:
        keys: dict[tuple[str, int | None], None] = {}
        for name, dated in ((title, None), *map(split_year, aliases)):
            answers_to = forms(name)
            keys |= dict.fromkeys((form, dated or year) for form in answers_to)
            if answers_to:
                built.spelt[name.lower()] = built.by_title.setdefault(answers_to[0], [])
        for form, dated in keys:
            built.by_title.setdefault(form, []).append((dated, domain, item))
    return built


def find(
    index: Index, title: str, year: int | None = None, domain: str | None = None, among: Company = Company()
) -> Match:
    """The item that a title and year mean: nearest year within two; without a year the likeliest one (see undated), by
    what the index knows of works and by what it stands `among`, else only if nothing else shares the title.

    The whole title is looked up first, then the title without its brackets, unless they say which part it is; what
    stands in brackets counts as a title only where the year agrees.
    """
    rows = index.spelt.get(title.lower())
    match = _of(rows, year, domain) if rows else NOT_FOUND
    match = by_forms(index, title, year, domain) if match is NOT_FOUND else match
    return match if year is not None or match is NOT_FOUND else likeliest(index, title, match, among)


def likeliest(index: Index, title: str, match: Match, among: Company = Company()) -> Match:
    """What a title without a year means of the works that share it; nothing is weighed where the index knows no works.

    exact: it is unlikely that the catalogue lacks the work.
    """
    items = (match.item,) if match.item else match.candidates
    if match.exact or not all(item in index.works for item in items):
        return match
    p, none = undated.chances(title, len(normal(title).split()), [index.works[item] for item in items], among)
    near = undated.likely(items, p)
    exact = none < undated.LIKELY and "(" not in title and "[" not in title  # brackets may make it another work
    if max(p) >= undated.LINKED or match.item:
        return Match("found", near[0] if near else items[0], near if len(near) > 1 else (), exact)
    return Match("ambiguous", None, near or items, exact)


def by_forms(index: Index, title: str, year: int | None = None, domain: str | None = None) -> Match:
    """`find` for a title that no source spells so."""
    if "(" not in title and "[" not in title:
        return by_form(index, normal(title), year, domain)
    whole, *others = forms(title) or [""]
    outside = _outside(title) if others else whole
    inside = [normal(_ALSO.sub("", part)) for part in _INSIDE.findall(title)]
    if any(map(_INSTALMENT.match, inside)):
        others = [form for form in others if form != outside]
    match = by_form(index, whole, year, domain)
    for form in others:
        if match is NOT_FOUND and (form == outside or year is not None):
            match = by_form(index, form, year, domain)
            parts = [part for part in (outside, *inside) if part and part != str(year)]
            # exact where each part is a title of the same item: "The Postman (Il Postino)"
            if match.item and any(by_form(index, part, year, domain).item != match.item for part in parts):
                match = match._replace(exact=False)
    return match


def by_form(index: Index, form: str, year: int | None = None, domain: str | None = None) -> Match:
    """`find` for a normal form that is known to be one."""
    rows = index.by_title.get(form)
    return NOT_FOUND if rows is None else _of(rows, year, domain)


def _of(rows: Sequence[tuple[int | None, str, str]], year: int | None, domain: str | None) -> Match:
    if domain is not None:
        rows = [row for row in rows if row[1] == domain]
    if year is not None and len(rows) == 1 and rows[0][0] is not None:  # nearly always
        apart = abs(rows[0][0] - year)
        return Match("found", rows[0][2], (), apart == 0) if apart <= YEARS_APART else NOT_FOUND
    return _match(rows, year, domain)


def _match(rows: Sequence[tuple[int | None, str, str]], year: int | None, domain: str | None) -> Match:
    if year is None:
        return _named(
            [item for _, _, item in rows], exact=domain == "game" or all(dated is None for dated, _, _ in rows)
        )
    nearest, items = YEARS_APART, []
    for dated, _, item in rows:
        apart = abs(dated - year) if dated is not None else YEARS_APART + 1
        if apart < nearest:
            nearest, items = apart, [item]
        elif apart == nearest:
            items.append(item)
    if items:
        return _named(items, exact=nearest == 0)
    # few sources date games: one without a year is meant where no other of its title has one; a film without a year
    # may be another of its name
    dateless = [row for row in rows if row[0] is None]
    if not dateless:
        return NOT_FOUND
    others = any(domain == "game" and dated is not None for dated, domain, _ in rows)
    if all(domain == "game" for _, domain, _ in dateless) and not others:
        return _named([item for _, _, item in dateless], exact=domain == "game")  # else a film may be meant
    return Match("ambiguous", None, tuple(dict.fromkeys(item for _, _, item in dateless)), False)


def _named(items: Sequence[str], exact: bool = True) -> Match:
    if len(items) > 1:
        items = list(dict.fromkeys(items))
    if len(items) == 1:
        return Match("found", items[0], (), exact)
    return Match("ambiguous", None, tuple(items), exact) if items else NOT_FOUND
