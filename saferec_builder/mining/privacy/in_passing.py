"""Names in passing ("Farid is driving"), which no word before them announces: a linear model of what is beside.

Candidates are given names of the lists that stand alone: "Tom Hanks" is somebody whom everybody knows. The words beside
a candidate, their kinds, its case and how often the name is met in talk about films say together whether it is that of
somebody in the writer's life. The weights are fitted (tests/bench/fit_in_passing.py); above 0 it is.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import polars as pl

from saferec_builder.mining.privacy import names

_TOKEN = re.compile(
    r"\[[a-z]+\]|[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)?(?![\w-])|[^\W\d_]+(?:['’][^\W\d_]+)*|\d+|[.!?…]+|[\n,:;()\"“”&+/*@#_-]"
)
_QUOTES = "\"“”'‘’*_"
_QUOTED = re.compile(r"\"[^\"\n]{1,60}\"|“[^”\n]{1,60}”")
_I = ("i", "i'm", "i'd", "i'll", "i've")
_ACTS = ("do", "say", "feel", "see", "-ed", "is", "was", "has", "had")
_ENDS = ("^", ".", "!", "?", "…", "|")  # of a sentence; | is the end of a line
_MARKS = frozenset(
    "^ $ , . ? ! ( ' : | 0 <N> <n> and with for to is was or in of by the a from at as like has had if".split()
)
_SHORT = dict(pair.split("=") for pair in names.words()["short"].split())
_KINDS: dict[str, str] = names.words()["kinds"]
_KIND = {word: kind for kind, words in _KINDS.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class _Word:
    plain: str  # lower case, no accents, as people write it in full
    alike: str  # itself, or what stands for any name
    kind: str  # what `alike` is in: a kind, itself, or how it ends
    size: int  # letters without 's
    capital: bool
    owned: bool  # has 's
    sort: str  # of a given name: "sure" or "more"


_BEFORE, _AFTER = (_Word(mark, mark, mark, 0, False, False, "") for mark in "^$")


@cache
def model() -> tuple[dict[str, float], dict[str, str]]:
    """(feature -> weight, given name -> how often it is met in talk about films: from 1 to 4; others are never)."""
    weights, met = dict[str, float](), dict[str, str]()
    for line in Path(__file__).with_name("in_passing.txt").read_text(encoding="utf-8").splitlines():
        head, *words = line.split(" ")
        if head.startswith("met"):
            met.update(dict.fromkeys(words, head[3:]))
        elif head != "#":
            weights.update(dict.fromkeys(words, float(head)))
    return weights, met


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each."""
    weights, met = model()
    for start, end, features in candidates(text, met):
        if sum(weights.get(feature, 0) for feature in features) + weights["bias"] > 0:
            yield start, end


def again(text: str, known: Collection[str]) -> Iterator[tuple[int, int]]:
    """(start, end) of further places of names, given in lower case, that were found elsewhere in the same talk.

    Not where they may be a word ("Will you"), nor in "Emma Stone".
    """
    words, starts = _words(text) if known else ([], [])
    for n, (word, start) in enumerate(zip(words, starts, strict=True)):
        end = start + word.size
        inside = word.capital and n and words[n - 1].plain not in _ENDS
        acts = n + 1 < len(words) and words[n + 1].kind in _ACTS
        like_one = word.sort == "sure" or inside or (word.sort and (acts or word.plain not in names.doubtful()))
        if like_one and text[start:end].casefold() in known and _stands_alone(text, words, n, start, end):
            yield start, end


def somewhere(texts: pl.Series) -> pl.Series:
    """In which of many texts `find` finds something; only those that have a given name are looked at."""
    every, only = (pl.Series(sorted(some)).implode() for some in _given())
    word, row = pl.col("word"), pl.col("row")
    said = pl.DataFrame({"word": texts.str.extract_all(r"\p{L}+(?:-\p{L}+)*")}).with_row_index("row").explode("word")
    low, capital = word.str.to_lowercase(), word.str.contains(r"^\p{Lu}")
    given = low.is_in(only) | (capital & low.is_in(every)) | word.str.contains("[^a-zA-Z-]|.-.")
    at = said.filter(given).select(row.unique().sort()).to_series()
    found = [any(True for _ in find(text)) for text in texts.gather(at)]
    return pl.zeros(len(texts), pl.Int8, eager=True).cast(pl.Boolean).scatter(at, found)


@cache
def _given() -> tuple[frozenset[str], frozenset[str]]:
    every, only = names.known()
    return every - names.NEVER, only - names.NEVER


def candidates(text: str, met: Mapping[str, str]) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, features) of each given name that stands alone."""
    words, starts = _words(text)
    spans = {n: (starts[n], starts[n] + word.size) for n, word in enumerate(words) if word.sort}
    at = [n for n, span in spans.items() if _stands_alone(text, words, n, *span)]
    if at:
        low = not any(word.capital and word.plain not in _I for word in words[1:])
        about = sorted({f"about={word.kind}" for word in words if word.plain in _KIND})
        if any(word.plain == "0" and word.size == 4 for word in words):
            about.append("about=year")
        quoted = [found.span() for found in _QUOTED.finditer(text)]
    for n in at:
        start, end = spans[n]
        inside = ["quoted"] if any(a < start and end < b for a, b in quoted) else []
        yield start, end, [*_features(words, n, low, met), *about, *inside]


def _words(text: str) -> tuple[list[_Word], list[int]]:
    """(the words and marks, where each begins)."""
    found = list(_TOKEN.finditer(text))
    return [_word(one[0]) for one in found], [one.start() for one in found]


@lru_cache(1 << 15)
def _word(token: str) -> _Word:
    if not token[0].isalpha():
        mark = "<n>" if token == "[name]" else "0" if token.isdigit() else token if token[0] == "[" else token[0]
        mark = _SHORT.get(mark, mark.replace("\n", "|"))
        return _Word(mark, mark, _kind(mark), len(token), False, False, "")
    every, only = _given()
    plain, capital = names.bare(token.casefold().replace("’", "'")), token[0].isupper()
    owned = plain.endswith("'s")
    plain = plain.removesuffix("'s")
    sure = names.hyphened(plain) if "-" in plain else plain in only
    sort = "sure" if sure else "more" if capital and plain in every else ""
    plain = _SHORT.get(plain, plain)
    alike = plain if not sort or plain in _KIND else "<N>" if capital else "<n>"
    return _Word(plain, alike, _kind(alike), len(token) - 2 * owned, capital, owned, sort)


def _stands_alone(text: str, words: list[_Word], n: int, start: int, end: int) -> bool:
    """No year behind it, no quotation marks, no part of Winnie-the-Pooh; beside it no other capitalised word, but for
    one that begins a sentence.
    """
    if _stands_out(words, n - 1) or _stands_out(words, n + 1):
        return False
    dated = [(after.plain, after.size) for after in words[n + 1 : n + 3]] == [("(", 1), ("0", 4)]
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    return (
        not dated and "-" not in (before, after) and not (before and after and before in _QUOTES and after in _QUOTES)
    )


def _listed(words: list[_Word], n: int) -> bool:
    """One of three or more capitalised words with commas between them, or a slash."""
    parts, marks = [words[n]], (",", "/", "and", "(")
    for way in (1, -1):
        at = n + way
        while 0 < at + way < len(words) and words[at].plain in marks and (words[at + way].capital or words[n].sort):
            if not words[at + way].plain[0].isalpha() or words[at + way].plain in _I:
                break
            parts.append(words[at + way])
            if not words[at + way].capital and not words[at + way].sort:
                break
            at += 2 * way
    return len(parts) > 2


def _stands_out(words: list[_Word], n: int) -> bool:
    if not 0 < n < len(words) or not words[n].capital:
        return False
    return words[n].plain not in _I and words[n - 1].plain not in _ENDS


def _kind(word: str) -> str:
    if word in _KIND:
        return _KIND[word]
    if word in _MARKS or len(word) < 4 or not word.isalpha():
        return word if word in _MARKS else "-"
    return "-ed" if word.endswith("ed") else "-ing" if word.endswith("ing") else "-s" if word[-1] == "s" else "-"


def _features(words: list[_Word], n: int, low: bool, often: Mapping[str, str]) -> list[str]:
    word = words[n]
    beside = [*[_BEFORE] * 3, *words[max(0, n - 3) : n + 4], *[_AFTER] * 3]
    at = 3 + min(n, 3)
    others = [*beside[at - 3 : at], *beside[at + 1 : at + 4]]
    c, b, a, x, y, _ = (other.alike for other in others)
    kc, kb, ka, kx, ky, kz = (other.kind for other in others)
    if word.owned:
        x, kx = f"'s~{x}", f"'s~{kx}"
    case, sort, met = "C" if word.capital else "l", word.sort, f"met{often.get(word.plain, '0')}"
    features = [f"{case}{sort}", met, f"{case}{met}", f"{met}{sort}", "low" if low else "capitals"]
    features += [f"a={a}", f"x={x}", f"b={b}", f"y={y}", f"ab={b}~{a}", f"xy={x}~{y}"]
    features += [f"A={ka}", f"X={kx}", f"B={kb}", f"Y={ky}", f"C={kc}", f"Z={kz}"]
    features += [f"AX={ka}~{kx}", f"AB={kb}~{ka}", f"XY={kx}~{ky}"]
    features += [f"{of}A={ka}" for of in (case, sort, met)] + [f"{of}X={kx}" for of in (case, sort, met)]
    near = [*words[max(0, n - 6) : n], *words[n + 1 : n + 7]]
    features += sorted({f"near={other.kind}" for other in near if other.plain in _KIND})
    if "and" in (a, b) or "," in (a, b):
        features.append("listed~with~name" if {"<n>", "<N>"} & {a, b, c, x, y} else "listed")
    if word.capital and not low and a in _ENDS:
        features += ["starts", f"starts{sort}", f"starts{met}"]
    if _listed(words, n):
        features.append("of~three")
    if _stands_out(words, n - 3) or _stands_out(words, n - 2):
        features.append(f"{case}capital~before")
    if _stands_out(words, n + 2) or _stands_out(words, n + 3):
        features.append(f"{case}capital~after")
    return features
