"""Evidence for and against reading a place in a text as a title, as named features; their weights stand elsewhere.

How rare the title's words are in everyday English (common.txt), capitals and whether the writer uses any, quotes, a
line of its own, the words around ("have you seen ...", "... was good"), a name that the word belongs to.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from saferec_builder.scoring.title_words import Text

_HERE = Path(__file__).parent
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "*": "*", "_": "_", "«": "»", "”": "”"}
_STOPS = re.compile(r"[.!?;:\n…|]|(?:^|\s)[-–—/](?:\s|$)")
_LINE_MARK = re.compile(r"\s*(?:[-*•–]|\(?\d{1,3}[.):])?\s*")
_MOST = 5  # rarity above which more words tell nothing new
ARTICLES = ("the", "a", "an")
# before the end of a longer title: a word with a capital and small words, on the same line, with nothing but blanks
_JOINING = "a|an|and|&|at|by|for|from|in|into|of|on|the|to|with"
_LEADS = re.compile(rf"(?:(?:Mrs?|Dr|St)\.|[^\W_][\w'’-]*)(?:[^\S\n]+(?:{_JOINING}))*[^\S\n]+\Z", re.I)
_FIRST_WORD = re.compile(r"(?:\A|[.!?;:\n…|*•]|\s[-–—])[\s\"'“‘*_]*\Z")
_JOINED, _APOSTROPHES = frozenset(_JOINING.split("|")), str.maketrans("", "", "'’")
_LED = 60  # letters before a title in which that is looked for
_DATING = frozenset(("in", "released", "since", "from", "until", "year", ","))  # what a year of another work follows
_GENRES = frozenset(
    "action adventure animation comedy crime documentary drama fantasy fiction gothic horror musical mystery romance"
    " satire suspense thriller western".split()
) | {"young adult", "true crime", "science fiction"}


class Place(NamedTuple):
    """Words first..last are a title; `end` is where it ends in the text (before a possessive 's)."""

    first: int
    last: int
    end: int
    form: str


class _English(NamedTuple):
    small: frozenset[str]
    common: frozenset[str]
    names: frozenset[str]
    talk: frozenset[str]


@lru_cache(maxsize=1)
def _english() -> _English:
    """The four blocks of common.txt."""
    lines = (_HERE / "common.txt").read_text(encoding="utf-8").splitlines()
    blocks = "\n".join(line for line in lines if not line.startswith("#")).strip().split("\n\n")
    small, common, names = (frozenset(block.split()) for block in blocks[:3])
    return _English(small, common, names, frozenset(blocks[3].splitlines()))


@lru_cache(maxsize=65536)
def rarity(word: str) -> int:
    """0 small words, 1 common ones and numbers, 2 the rest."""
    small, common, _, _ = _english()
    if word in small:
        return 0
    stems = [word, *(word.removesuffix(end) for end in ("s", "es", "ed", "d", "ing", "ly", "er"))]
    stems.append(word.removesuffix("ing") + "e")
    return 1 if word.isdigit() or any(s in common or (len(s) > 2 and s in small) for s in stems) else 2


def evidence(read: Text, place: Place, articled: bool) -> list[str]:
    """The names of what is seen at a place; each has a weight, or none."""
    rare, count, form_kind = _told_of(place.form)
    case = _case(read, place)
    before, after = _around(read, place)
    found = ["bias", f"rare {rare}", f"words {count}", f"case {case}", f"rare {rare} {case}", f"words {count} {case}"]
    found += [f"before {word}" for word in before[:1]] + [f"before2 {word}" for word in before[1:2]]
    found += [f"after {after}", f"article {_article(read, place, articled)}"]
    found += [f"{side} a name" for side in _names(read, place)]
    if case in ("lower", "none") and rare <= 2:
        found += [f"weak before {word}" for word in before[:1]] + [f"weak after {after}"]
    if form_kind:
        found += [form_kind, f"{form_kind} {case}", f"{form_kind} before {before[0]}"]
    start = read.spans[place.first][0]
    opening = read.raw[start - 1 : start]
    if opening in _QUOTES and read.raw[place.end : place.end + 2].lstrip(",.!?")[:1] == _QUOTES[opening]:
        found.append("quoted")
    line = read.raw.rfind("\n", 0, place.end) + 1
    mark = _LINE_MARK.match(read.raw, line)
    if mark and mark.end() >= start:
        alone = read.raw[place.end :].split("\n", 1)[0].strip(" .!?,\"'*)") == ""
        marked = bool(mark[0].strip())
        found.append(f"line{' alone' if alone else ''}{' marked' if marked else ''}")
        found.append(f"line rare {rare}{' alone' if alone else ''}{' marked' if marked else ''}")
    return found


def is_else(read: Text, place: Place, titled: Collection[int] = ()) -> bool:
    """Whether a place is certainly no title: the year of another work, a genre, or one word of a longer name that the
    catalog lacks ("Serena Williams", "The Pillars of the Earth"). titled: words that titles begin with: a list."""
    start, before = read.spans[place.first][0], _around(read, place)[0][0]
    opening = read.raw[start - 1 : start]
    if opening in _QUOTES:
        return False
    if _told_of(place.form)[2] == "year":
        return opening in ("(", "[") or before in _DATING
    if place.form in _GENRES:
        return True
    if place.first < place.last or read.lower or not read.raw[start].isupper():
        return False
    following, behind = place.last + 1, place.first - (2 if before in ARTICLES else 1)
    goes_on = following not in titled and read.raw[place.end : place.end + 1] == " " and _within(read, following)
    return goes_on or (behind > 0 and read.words[behind] == "of" and _within(read, behind - 1))


def is_part(text: str, start: int, *, exact: bool, longer: bool) -> bool:
    """Whether a title before a year is only the end of another work's: "the Dead" in "Shaun of the Dead (2008)".

    exact: the work is of that year. longer: a longer title ends there too, and none of its works is of that year.
    """
    return (longer and _goes_on(text, start)) if exact else (longer or _goes_on(text, start))


def _goes_on(text: str, start: int) -> bool:
    """Whether a word with a capital leads up to it; one that sentences begin with ("Loved ...") is of no title."""
    near = max(start - _LED, 0)
    found = _LEADS.search(text, near, start) if text[start - 1 : start].isspace() else None
    word = found[0].split()[0].lower() if found and found[0][0].isupper() else ""
    if not found or not word or word in _JOINED:
        return False
    return rarity(word.translate(_APOSTROPHES)) > 0 or not _FIRST_WORD.search(text, near, found.start())


def _within(read: Text, n: int) -> bool:
    """Whether this word has a capital, and no sentence begins with it."""
    return 0 < n < len(read.words) and _capital(read, n) and not _begins(read, n)


@lru_cache(maxsize=65536)
def _told_of(form: str) -> tuple[int, int, str | None]:
    """(rarity of its words together, their number, what else it is), whatever the place."""
    words = form.split()
    return min(sum(map(rarity, words)), _MOST), min(len(words), 4), _kind(words, form)


def _kind(said: list[str], form: str) -> str | None:
    english = _english()
    if all(word in english.names for word in said):
        return "names"
    if form.isdigit():
        return "year" if len(form) == 4 and form[:2] in ("19", "20") else "number"
    return "talk" if form in english.talk else None


def _case(read: Text, place: Place) -> str:
    """caps: as a name is written; start: a capital that any sentence begins with; none: the writer uses none."""
    inside = range(place.first, place.last + 1)
    strong = [n for n in inside if rarity(read.words[n]) or n in (place.first, place.last)]
    capital = [not read.raw[read.spans[n][0]].islower() for n in strong]
    shouted = read.upper and len(read.words) > place.last - place.first + 2
    if shouted:
        return "none"
    if all(capital):
        single = len(strong) == 1 or not any(capital[1:])
        if single and _begins(read, place.first):
            return "start"
        return "caps"
    if any(capital[1:]):
        return "some"
    return "none" if read.lower else "lower"


def _begins(read: Text, n: int) -> bool:
    return n == 0 or bool(_STOPS.search(read.raw, read.spans[n - 1][1], read.spans[n][0]))


def _around(read: Text, place: Place) -> tuple[list[str], str]:
    """(the two words before, nearest first, the word after); "^" and "$" where a sentence or the text ends."""
    before: list[str] = []
    for n in (place.first, place.first - 1):
        if n < 1 or _begins(read, n):
            before.append("^")
            break
        comma = "," in read.raw[read.spans[n - 1][1] : read.spans[n][0]]
        before.append("," if comma else read.words[n - 1])
    after = place.last + 1
    if after >= len(read.words):
        return before, "$" + _mark(read.raw[place.end :])
    gap = read.raw[place.end : read.spans[after][0]]
    if _STOPS.search(gap):
        return before, "." + _mark(gap)
    return before, "," if "," in gap else read.words[after]


def _names(read: Text, place: Place) -> Iterator[str]:
    """Where a word with a capital stands beside it: "Jack Nicholson" is no film called Jack."""
    first, last = place.first, place.last
    if first > 1 and _capital(read, first - 1) and not _begins(read, first) and not _begins(read, first - 1):
        yield "after"
    if last + 1 < len(read.words) and _capital(read, last + 1) and not _begins(read, last + 1):
        yield "before"


def _capital(read: Text, n: int) -> bool:
    start = read.spans[n][0]
    return read.raw[start].isupper() and rarity(read.words[n]) > 0


def _mark(gap: str) -> str:
    """The mark that ends a sentence, not the quotes around it."""
    return gap.strip(" \t\"'”’*_)\\")[:1].strip()


def _article(read: Text, place: Place, articled: bool) -> str:
    has = read.words[place.first] in ARTICLES
    if articled:
        return "there" if has else "missing"
    preceded = place.first > 0 and read.words[place.first - 1] in (*ARTICLES, "this", "that", "my", "your", "some")
    return "extra" if preceded else "none"
