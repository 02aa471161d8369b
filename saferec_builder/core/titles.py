"""Normalises item titles, and finds the item that a (title, year) means.

Only the standard library: training resolves its answers with the same functions.
"""

import difflib
import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from saferec_builder.core import undated
from saferec_builder.core.undated import Company, Work

LIKE = 0.8  # two titles are alike from this share of common characters
YEARS_APART = 2  # a year within two still names the same item (release dates differ by country)

_YEAR = re.compile(r"^(.*\S)\s*[(\[]\s*((?:18|19|20)\d\d)(?:\s*[-–]\s*(?:\d{4})?)?\s*[)\]]\s*$", re.S)
_ARTICLES = "the|an?|les?|la|lo|gli|il|els?|los|las|un|une|una|der|die|das|den|det|de|os|l'|i"
_TRAILING_ARTICLE = re.compile(rf"^(.*\S)\s*,\s*({_ARTICLES})$", re.S | re.I)
_LEADING_ARTICLE = re.compile(r"^\W*(the|an?)\s+(?=.*\w)", re.S)
_ARTICLE_AT_ONCE = tuple(article + space for article in ("the", "an", "a") for space in " \t\n\xa0\u3000\u2009\u200a")
_SIGNS = str.maketrans(dict.fromkeys("’‘ʼʹ′`´ʻ", "'") | dict.fromkeys("™®©℠", " "))
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"})
_VOICED = "\u3099\u309a"  # the marks that tell the kana of "Paris" from those of "Bali": part of the letter, no accent
_LOST_SIGN = re.compile(r"&(x[0-9a-f]{2,4});", re.I)
_AND = re.compile(r"&|(?<=\s)\+(?=\s)")
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "xi": "11", "xii": "12"}
_DIGITS = dict(zip("one two three four five six seven eight nine ten".split(), map(str, range(1, 11)), strict=True))
_PARTS = frozenset(("part", "chapter", "episode", "volume", "vol"))
_COUNTING = frozenset(_ROMAN) | _PARTS | {"vs", "versus"}
_NOT_WORD = re.compile(r"[^\w#]+|_")
_BLANKS = bytes(ord(" ") if _NOT_WORD.match(chr(n)) else n for n in range(256))  # the same for ASCII
_BRACKETED = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*")
_INSIDE = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
_AKA = re.compile(r"^\s*(?:a\.?k\.?a\.?|aka|also known as)\s+", re.I)
# a note on an edition or an instalment is no title of its own
_NOTE = re.compile(r"^(?:(?:part|vol|volume|season|series|episode|chapter|disc|tv|video|original|extended)\b|\d+$)")
_INSTALMENT = re.compile(r"^(?:(?:part|vol|volume|chapter)\b|\d{1,2}$)")  # without it the title is another film's


def split_year(text: str) -> tuple[str, int | None]:
    """Splits "Alien (1979)" into ("Alien", 1979); the year is None where no year in brackets ends the title."""
    match = _YEAR.match(text.strip())
    return (match[1].strip(), int(match[2])) if match else (text.strip(), None)


def dated(item: Mapping[str, object]) -> str:
    """The title of an item, with its year if it has one, as people read it: "Alien (1979)"."""
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
    match = _TRAILING_ARTICLE.match(text)
    if not match:
        return text
    return match[2] + ("" if match[2].endswith("'") else " ") + match[1]


def unescaped(title: str) -> str:
    """The title without entities of HTML: "Mr. &amp; Mrs. Smith", and "Dracula&x27;s" of ReDial, which lost its #."""
    return html.unescape(_LOST_SIGN.sub(r"&#\1;", title)) if "&" in title and ";" in title else title


def normal(title: str) -> str:
    """The lookup key of a title: case, accents, quotes, punctuation, articles and "&" are folded."""
    title = unescaped(title)
    text = title.lower().strip() if title.isascii() else _folded(title)
    if "&" in text or "+" in text:
        text = _AND.sub(" and ", text)
    text = (_article_first(text) if "," in text else text).replace("'", "").replace("`", "")
    # before punctuation is removed: "A Team" has an article, "A-Team" has not
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
    if text.isascii():  # most titles are, and bytes are faster than a pattern
        return " ".join(counted(text.encode().translate(_BLANKS).decode().split()))
    return " ".join(counted(_NOT_WORD.sub(" ", text).split()))


def counted(words: list[str]) -> list[str]:
    """Words with their numbers as digits: "rocky ii" is "rocky 2", "chapter two" is "chapter 2", "vs" is "v".

    Only after another word; I, V and X stay, as they may be letters.
    """
    if _COUNTING.isdisjoint(words):
        return words
    return [_number(previous, word) for previous, word in zip(["", *words], words, strict=False)]


def _number(previous: str, word: str) -> str:
    if not previous:
        return word
    if word in ("vs", "versus"):
        return "v"
    return _ROMAN.get(word) or (_DIGITS.get(word, word) if previous in _PARTS else word)


def alike(title: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, title, other, autojunk=False).ratio() >= LIKE


def forms(title: str) -> list[str]:
    """The normal forms of a title: the whole, without its bracketed parts, and each bracketed part but notes."""
    whole = normal(title)
    if "(" not in title and "[" not in title:
        return [whole] if whole else []
    return list(dict.fromkeys(key for key in (whole, _outside(title), *bracketed(title)) if key))


def bracketed(title: str) -> list[str]:
    """The normal forms of the titles in brackets: that of "Se7en" of "Seven (a.k.a. Se7en)"."""
    inside = (normal(_AKA.sub("", part)) for part in _INSIDE.findall(title))
    return [form for form in inside if len(form) > 3 and not _NOTE.match(form)]


def _outside(title: str) -> str:
    return normal(_BRACKETED.sub(" ", title).strip())


class Match(NamedTuple):
    """The result of a lookup. found: `item` is meant; ambiguous: `candidates` share the title; not_found: neither.

    exact is False where another work may be meant than the item or the candidates: the year is one or two off or not
    given, the title has brackets that are no title of the item, or the entry has no year and the title has one. Such a
    match may violate and never clears. A found item has candidates where a title without a year may mean any of them:
    one of them may violate, and only all of them together clear.
    """

    match: str
    item: str | None = None
    candidates: tuple[str, ...] = ()
    exact: bool = True


class Near(str):
    """The id of an item that a title names, but not exactly (see Match); it equals the plain id."""


NOT_FOUND = Match("not_found")


def item_of(match: Match) -> str | None:
    """The id of the matched item; a Near where the title does not name it exactly."""
    sure = match.exact and not match.candidates
    return match.item if sure or match.item is None else Near(match.item)


@dataclass
class Index:
    """Items by normal title: built by `index`, searched by `find`."""

    by_title: dict[str, list[tuple[int | None, str, str]]] = field(default_factory=dict)  # (year, domain, item id)
    # the same rows by the spelling of a source, in lower case: it answers most lookups without normalising
    spelt: dict[str, list[tuple[int | None, str, str]]] = field(default_factory=dict)
    works: Mapping[str, Work] = field(default_factory=dict)  # tells works of one title apart, where known


def names(title: str, aliases: Iterable[str]) -> frozenset[str]:
    """Returns all names of a work in lower case, without their years."""
    return frozenset(split_year(name)[0].lower() for name in (title, *aliases))


def index(items: Iterable[tuple[str, str, int | None, str, Sequence[str]]]) -> Index:
    """Builds an Index from (item id, title, year, domain, aliases); every form of title and aliases finds the item.

    An alias may have its own year ("Alien (1980)", where a source dates the item differently). Where another item has
    that title and year itself, it is the one that is meant.
    """
    result = Index()
    own: set[tuple[str, tuple[int | None, str]]] = set()
    redated: list[tuple[str, tuple[int | None, str, str]]] = []
    for item, title, year, domain, aliases in items:
        keys: dict[tuple[str, int | None], None] = {}
        for name, own_year in ((title, None), *map(split_year, aliases)):
            name_forms = forms(name)
            keys |= dict.fromkeys((form, own_year or year) for form in name_forms)
            if name_forms:
                result.spelt[name.lower()] = result.by_title.setdefault(name_forms[0], [])
        for form, own_year in keys:
            result.by_title.setdefault(form, []).append((own_year, domain, item))
            if own_year != year:
                redated.append((form, (own_year, domain, item)))
        own.add((normal(title), (year, domain)))
    for form, row in redated:
        if (form, row[:2]) in own:
            result.by_title[form].remove(row)
    return result


def find(
    index: Index, title: str, year: int | None = None, domain: str | None = None, among: Company = Company()
) -> Match:
    """Finds the item that a title and year mean: the nearest year within two. Without a year, the likeliest work (see
    undated) by what the index knows of works and by the list `among`; else an item that alone has the title.

    The whole title is looked up first, then the title without its brackets, unless they name an instalment; the text in
    brackets counts as a title only where the year agrees.
    """
    rows = index.spelt.get(title.lower())
    match = _choose(rows, year, domain) if rows else NOT_FOUND
    match = by_forms(index, title, year, domain) if match is NOT_FOUND else match
    return match if year is not None or match is NOT_FOUND else likeliest(index, title, match, among)


def likeliest(index: Index, title: str, match: Match, among: Company = Company()) -> Match:
    """The likeliest of the works that share a title without a year; the item of `match` if the index lacks a work, or
    if it is exact.

    exact: it is unlikely that the catalogue lacks the work that is meant, and one of the likely works has the title's
    article ("Heat" is not "The Heat").
    """
    items = (match.item,) if match.item else match.candidates
    if not all(item in index.works for item in items):
        return match._replace(exact=match.exact and not _has_other_articles(index, title))
    if match.exact:
        return match._replace(exact=_same_article(index, title, items))
    p, p_none = undated.chances(title, len(normal(title).split()), [index.works[item] for item in items], among)
    likely = undated.likely(items, p)
    exact = p_none < undated.LIKELY and "(" not in title and "[" not in title  # brackets may name another work
    exact = exact and _same_article(index, title, likely or items)
    if max(p) >= undated.LINKED or match.item:
        return Match("found", likely[0] if likely else items[0], likely if len(likely) > 1 else (), exact)
    return Match("ambiguous", None, likely or items, exact)


def _same_article(index: Index, title: str, items: Iterable[str]) -> bool:
    """Whether a name of these works that is spelt like the title begins with the same article, or none is spelt like
    it: then the title matched in another way."""
    form = normal(title)
    names = [name for item in items for name in index.works[item].names if normal(name) == form]
    return not names or any(_article(name) == _article(title) for name in names)


def _has_other_articles(index: Index, title: str) -> bool:
    """Whether the sources of an index spell a title with other articles, and none with its own."""
    article, words = _article(title), spoken(title.lower())
    rest = words[len(article) :].strip()
    spelt = [a for a in ("", "the", "a", "an") if {f"{a} {rest}".strip(), f"{rest}, {a}"} & index.spelt.keys()]
    return bool(spelt) and article not in spelt


def _article(title: str) -> str:
    match = _LEADING_ARTICLE.match(spoken(title.lower()))
    return match[1] if match else ""


def by_forms(index: Index, title: str, year: int | None = None, domain: str | None = None) -> Match:
    """`find` by the forms of a title that no source spells like this."""
    if "(" not in title and "[" not in title:
        return by_form(index, normal(title), year, domain)
    main, *others = forms(title) or [""]
    outside = _outside(title) if others else main
    inside = [normal(_AKA.sub("", part)) for part in _INSIDE.findall(title)]
    if any(map(_INSTALMENT.match, inside)):
        others = [form for form in others if form != outside]
    match = by_form(index, main, year, domain)
    for form in others:
        if match is NOT_FOUND and (form == outside or year is not None):
            match = by_form(index, form, year, domain)
            parts = [part for part in (outside, *inside) if part and part != str(year)]
            # exact where each part is a title of the same item: "The Postman (Il Postino)"
            if match.item and any(by_form(index, part, year, domain).item != match.item for part in parts):
                match = match._replace(exact=False)
    return match


def by_form(index: Index, form: str, year: int | None = None, domain: str | None = None) -> Match:
    """`find` for a text that is already a normal form."""
    rows = index.by_title.get(form)
    return NOT_FOUND if rows is None else _choose(rows, year, domain)


def _choose(rows: Sequence[tuple[int | None, str, str]], year: int | None, domain: str | None) -> Match:
    if domain is not None:
        rows = [row for row in rows if row[1] == domain]
    if year is not None and len(rows) == 1 and rows[0][0] is not None:  # nearly always
        distance = abs(rows[0][0] - year)
        return Match("found", rows[0][2], (), distance == 0) if distance <= YEARS_APART else NOT_FOUND
    return _choose_by_year(rows, year, domain)


def _choose_by_year(rows: Sequence[tuple[int | None, str, str]], year: int | None, domain: str | None) -> Match:
    if year is None:
        return _match_of(
            [item for _, _, item in rows], exact=domain == "game" or all(item_year is None for item_year, _, _ in rows)
        )
    nearest, items = YEARS_APART, []
    for item_year, _, item in rows:
        distance = abs(item_year - year) if item_year is not None else YEARS_APART + 1
        if distance < nearest:
            nearest, items = distance, [item]
        elif distance == nearest:
            items.append(item)
    if items:
        return _match_of(items, exact=nearest == 0)
    # few sources date games: one without a year is meant where no other game of its title has a year; a film without
    # a year may be another film of its title
    dateless = [row for row in rows if row[0] is None]
    if not dateless:
        return NOT_FOUND
    dated_games = any(domain == "game" and item_year is not None for item_year, domain, _ in rows)
    if all(domain == "game" for _, domain, _ in dateless) and not dated_games:
        return _match_of([item for _, _, item in dateless], exact=domain == "game")  # otherwise a film may be meant
    return Match("ambiguous", None, tuple(dict.fromkeys(item for _, _, item in dateless)), False)


def _match_of(items: Sequence[str], exact: bool = True) -> Match:
    if len(items) > 1:
        items = list(dict.fromkeys(items))
    if len(items) == 1:
        return Match("found", items[0], (), exact)
    return Match("ambiguous", None, tuple(items), exact) if items else NOT_FOUND
