"""Evidence for and against reading a place in a text as a title, as named features; mention_finder has their weights.

How rare the title's words are in everyday English (common.txt), capitals and whether the writer uses any, quotes, a
line of its own, the words around ("have you seen ...", "... was good"), a name that the word belongs to.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from saferec_builder.scoring.title_words import Text

_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "*": "*", "_": "_", "«": "»", "”": "”"}
_STOPS = re.compile(r"[.!?;:\n…|]|(?:^|\s)[-–—/](?:\s|$)")
_LINE_MARK = re.compile(r"\s*(?:[-*•–]|\(?\d{1,3}[.):])?\s*")
_MOST = 5  # rarity above which more words add no information
ARTICLES = ("the", "a", "an")
# the start of a longer title: a capitalised word and small words, on the same line, separated only by blanks
_JOINING = "a|an|and|&|at|by|for|from|in|into|of|on|the|to|with"
_LEADS = re.compile(rf"(?:(?:Mrs?|Dr|St)\.|[^\W_][\w'’-]*)(?:[^\S\n]+(?:{_JOINING}))*[^\S\n]+\Z", re.I)
_FIRST_WORD = re.compile(r"(?:\A|[.!?;:\n…|*•]|\s[-–—])[\s\"'“‘*_]*\Z")
_JOINED, _APOSTROPHES = frozenset(_JOINING.split("|")), str.maketrans("", "", "'’")
_LED = 60  # letters before a title in which to search for it
_DATING = frozenset(("in", "released", "since", "from", "until", "year", ","))  # words before the year of another work
_GENRES = frozenset(
    "action adventure animation comedy crime documentary drama fantasy fiction gothic horror musical mystery romance"
    " satire suspense thriller western".split()
) | {"young adult", "true crime", "science fiction"}


class Place(NamedTuple):
    """Words first..last are a title; `end` is its end in the text (before a possessive 's)."""

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
    lines = Path(__file__).with_name("common.txt").read_text(encoding="utf-8").splitlines()
    blocks = "\n".join(line for line in lines if not line.startswith("#")).strip().split("\n\n")
    small, common, names = (frozenset(block.split()) for block in blocks[:3])
    return _English(small, common, names, frozenset(blocks[3].splitlines()))


@lru_cache(maxsize=65536)
def rarity(word: str) -> int:
    """0 for small words, 1 for common ones and numbers, 2 for the rest."""
    small, common, _, _ = _english()
    if word in small:
        return 0
    stems = [word, *(word.removesuffix(end) for end in ("s", "es", "ed", "d", "ing", "ly", "er"))]
    stems.append(word.removesuffix("ing") + "e")
    return 1 if word.isdigit() or any(s in common or (len(s) > 2 and s in small) for s in stems) else 2


def evidence(read: Text, place: Place, articled: bool) -> list[str]:
    """The names of the features at a place; each has a weight, or none."""
    rare, count, form_kind = _form_features(place.form)
    case = _case(read, place)
    before, after = _around(read, place)
    names = ["bias", f"rare {rare}", f"words {count}", f"case {case}", f"rare {rare} {case}", f"words {count} {case}"]
    names += [f"before {word}" for word in before[:1]] + [f"before2 {word}" for word in before[1:2]]
    names += [f"after {after}", f"article {_article(read, place, articled)}"]
    names += [f"{side} a name" for side in _names(read, place)]
    if case in ("lower", "none") and rare <= 2:
        names += [f"weak before {word}" for word in before[:1]] + [f"weak after {after}"]
    if form_kind:
        names += [form_kind, f"{form_kind} {case}", f"{form_kind} before {before[0]}"]
    start = read.spans[place.first][0]
    opening = read.raw[start - 1 : start]
    if opening in _QUOTES and read.raw[place.end : place.end + 2].lstrip(",.!?")[:1] == _QUOTES[opening]:
        names.append("quoted")
    line = read.raw.rfind("\n", 0, place.end) + 1
    mark = _LINE_MARK.match(read.raw, line)
    if mark and mark.end() >= start:
        alone = read.raw[place.end :].split("\n", 1)[0].strip(" .!?,\"'*)") == ""
        marked = bool(mark[0].strip())
        names.append(f"line{' alone' if alone else ''}{' marked' if marked else ''}")
        names.append(f"line rare {rare}{' alone' if alone else ''}{' marked' if marked else ''}")
    return names


def is_else(read: Text, place: Place, titled: Collection[int] = ()) -> bool:
    """Whether a place is certainly no title: the year of another work, a genre, or one word of a longer name that the
    catalog lacks ("Serena Williams", "The Pillars of the Earth"). titled: words that titles begin with: a list."""
    start, before = read.spans[place.first][0], _around(read, place)[0][0]
    opening = read.raw[start - 1 : start]
    if opening in _QUOTES:
        return False
    if _form_features(place.form)[2] == "year":
        return opening in ("(", "[") or before in _DATING
    if place.form in _GENRES:
        return True
    if place.first < place.last or read.lower or not read.raw[start].isupper():
        return False
    following, previous = place.last + 1, place.first - (2 if before in ARTICLES else 1)
    continues = following not in titled and read.raw[place.end : place.end + 1] == " " and _within(read, following)
    return continues or (previous > 0 and read.words[previous] == "of" and _within(read, previous - 1))


def is_part(text: str, start: int, *, exact: bool, longer: bool) -> bool:
    """Whether a title before a year is only the end of another work's: "the Dead" in "Shaun of the Dead (2008)".

    exact: the work is of that year. longer: a longer title ends there, too, and none of its works is of that year.
    """
    return (longer and _continues_title(text, start)) if exact else (longer or _continues_title(text, start))


def _continues_title(text: str, start: int) -> bool:
    """Whether a capitalised word leads up to it; one that begins sentences ("Loved ...") belongs to no title."""
    near = max(start - _LED, 0)
    lead = _LEADS.search(text, near, start) if text[start - 1 : start].isspace() else None
    word = lead[0].split()[0].lower() if lead and lead[0][0].isupper() else ""
    if not lead or not word or word in _JOINED:
        return False
    return rarity(word.translate(_APOSTROPHES)) > 0 or not _FIRST_WORD.search(text, near, lead.start())


def _within(read: Text, n: int) -> bool:
    """Whether this word has a capital, and no sentence begins with it."""
    return 0 < n < len(read.words) and _capital(read, n) and not _begins(read, n)


@lru_cache(maxsize=65536)
def _form_features(form: str) -> tuple[int, int, str | None]:
    """(rarity of its words together, their number, its kind if it may be something else), whatever the place."""
    words = form.split()
    return min(sum(map(rarity, words)), _MOST), min(len(words), 4), _kind(words, form)


def _kind(words: list[str], form: str) -> str | None:
    english = _english()
    if all(word in english.names for word in words):
        return "names"
    if form.isdigit():
        return "year" if len(form) == 4 and form[:2] in ("19", "20") else "number"
    return "talk" if form in english.talk else None


def _case(read: Text, place: Place) -> str:
    """caps: written like a name; start: the capital of a sentence's start; none: the writer uses no capitals."""
    numbers = range(place.first, place.last + 1)
    main = [n for n in numbers if rarity(read.words[n]) or n in (place.first, place.last)]
    capitals = [not read.raw[read.spans[n][0]].islower() for n in main]
    shouted = read.upper and len(read.words) > place.last - place.first + 2
    if shouted:
        return "none"
    if all(capitals):
        single = len(main) == 1 or not any(capitals[1:])
        if single and _begins(read, place.first):
            return "start"
        return "caps"
    if any(capitals[1:]):
        return "some"
    return "none" if read.lower else "lower"


def _begins(read: Text, n: int) -> bool:
    return n == 0 or bool(_STOPS.search(read.raw, read.spans[n - 1][1], read.spans[n][0]))


def _around(read: Text, place: Place) -> tuple[list[str], str]:
    """(the two words before, nearest first, the word after); "^" and "$" if a sentence or the text ends there."""
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
    """The sides with another capitalised word: "Jack Nicholson" is no film called Jack."""
    first, last = place.first, place.last
    if first > 1 and _capital(read, first - 1) and not _begins(read, first) and not _begins(read, first - 1):
        yield "after"
    if last + 1 < len(read.words) and _capital(read, last + 1) and not _begins(read, last + 1):
        yield "before"


def _capital(read: Text, n: int) -> bool:
    start = read.spans[n][0]
    return read.raw[start].isupper() and rarity(read.words[n]) > 0


def _mark(gap: str) -> str:
    """The mark that ends a sentence, without quotes around it."""
    return gap.strip(" \t\"'”’*_)\\")[:1].strip()


def _article(read: Text, place: Place, articled: bool) -> str:
    has_article = read.words[place.first] in ARTICLES
    if articled:
        return "there" if has_article else "missing"
    preceded = place.first > 0 and read.words[place.first - 1] in (*ARTICLES, "this", "that", "my", "your", "some")
    return "extra" if preceded else "none"
