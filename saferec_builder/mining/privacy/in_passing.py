"""Names in passing ("Farid is driving"), which no word before them announces: a linear model of the words around them.

Candidates are given names of the lists, capitalised words that are neither everyday words nor seen in talk about films
nor, at the start of a sentence, other English words, and full names of these. The words beside a candidate, their
kinds, its case and how often it occurs in talk about films together predict whether it belongs to somebody in the
writer's life. The weights are fitted (tests/bench/fit_in_passing.py); a score above 0 means yes.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path

import polars as pl

from saferec_builder.mining.privacy import names

_TOKEN = re.compile(
    r"\[[a-z]+\]|\b(?:[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof|[Ss]gt)\.|\b[A-HJ-Z]\.(?= ?[A-Z])"
    r"|[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)?(?![\w-])|[^\W\d_]+(?:['’][^\W\d_]+)*|\d+"
    r"|[.!?…]+|[\n,:;()\"“”&+/*@#_-]"
)
_STRETCHED = re.compile(r"(.)\1\1")  # "Ummm"
_PARTS = re.compile("['’-]")
_QUOTES = "\"“”'‘’*_"
_QUOTED = re.compile(r"\"[^\"\n]{1,60}\"|“[^”\n]{1,60}”")
_FIRST_PERSON = ("i", "i'm", "i'd", "i'll", "i've")
_ACTS = ("do", "say", "feel", "see", "-ed", "is", "was", "has", "had")
_ENDS = ("^", ".", "!", "?", "…", "|")  # of a sentence; | is the end of a line
_ENDINGS = ("s", "ed", "ing", "ly", "er", "ers", "est", "y", "d", "r", "es", "ness", "ish")
_TITLES = ("title", "kin", "hail")  # Dr, Aunt and Dear, before a name
_INNER = frozenset("van von der den de la le el al di da dos del bin ibn te o".split())  # parts of surnames
_OPENS = (*_ENDS, '"', "“", ":", "(", "-", "*")
_MARKS = frozenset(
    "^ $ , . ? ! ( ' : | 0 <N> <n> and with for to is was or in of by the a from at as like has had if".split()
)
_FULL_FORMS = dict(pair.split("=") for pair in names.words()["short"].split())
_KINDS: dict[str, str] = names.words()["kinds"]
_KIND = {word: kind for kind, words in _KINDS.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class _Word:
    plain: str  # lower case, without accents, written in full
    alike: str  # itself, or a symbol for any name
    kind: str  # the kind of `alike`: a list, itself, or its ending
    size: int  # letters without 's
    capital: bool
    owned: bool  # has 's
    sort: str  # of a given name "sure" or "more"; "new" if it is capitalised like a name


_BEFORE, _AFTER = (_Word(mark, mark, mark, 0, False, False, "") for mark in "^$")


@cache
def model() -> tuple[dict[str, float], dict[str, str]]:
    """(feature -> weight, word -> how often it occurs in talk about films: 0 to 4, with f if it is famous; an everyday
    word has at least 1, another English word w: it is no name at the start of a sentence, but may be one elsewhere; a
    word that is seldom seen, and never in lower case, 1n: it may be a name everywhere)."""
    weights, frequency = dict[str, float](), dict[str, str]()
    for line in Path(__file__).with_name("in_passing.txt").read_text(encoding="utf-8").splitlines():
        head, *words = line.split(" ")
        if head.startswith("met"):
            frequency.update(dict.fromkeys(words, head[3:]))
        elif head != "#":
            weights.update(dict.fromkeys(words, float(head)))
    return weights, frequency


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each."""
    weights, frequency = model()
    for start, end, features in candidates(text, frequency):
        if sum(weights.get(feature, 0) for feature in features) + weights["bias"] > 0:
            yield start, end


def again(text: str, known: Collection[str]) -> Iterator[tuple[int, int]]:
    """(start, end) of further places of names, given in lower case, that were found elsewhere in the same conversation.

    Not if they may be a word there ("Will you"), nor in "Emma Stone".
    """
    matches = list(_TOKEN.finditer(text)) if known else []
    words, starts = [_word(match[0]) for match in matches], [match.start() for match in matches]
    met = model()[1]
    for n, (word, start) in enumerate(zip(words, starts, strict=True)):
        end = start + word.size
        mid_sentence = word.capital and n and words[n - 1].plain not in _ENDS
        acts = n + 1 < len(words) and words[n + 1].kind in _ACTS
        is_name = word.sort == "sure" or mid_sentence or (word.sort and (acts or not _is_common(word, met)))
        if is_name and text[start:end].casefold() in known and _stands_alone(text, words, n, n, starts):
            yield start, end


def somewhere(texts: pl.Series) -> pl.Series:
    """In which of many texts `find` finds something; it reads only those that have a word that may be a name."""
    word, row = pl.col("word"), pl.col("row")
    found_words = texts.str.extract_all(r"\p{L}+(?:['’-]\p{L}+)*")
    words = pl.DataFrame({"word": found_words}).with_row_index("row").explode("word").drop_nulls()
    names_in = pl.DataFrame({"word": [*filter(_may_be_name, words["word"].unique())]}, schema=words.select(word).schema)
    rows = words.join(names_in, on="word", how="semi").select(row.unique().sort()).to_series()
    hits = [any(True for _ in find(text)) for text in texts.gather(rows)]
    return pl.zeros(len(texts), pl.Int8, eager=True).cast(pl.Boolean).scatter(rows, hits)


def _may_be_name(word: str) -> bool:
    if not word.isascii():
        return True
    if word.isalpha() and word.islower():
        return word in _given_names()[1]
    words = [_word(part) for part in {word, *_PARTS.split(word)} if part]
    return any(part.sort and not _is_new_common(part, model()[1], starts=False) for part in words)


@cache
def _given_names() -> tuple[frozenset[str], frozenset[str]]:
    all_names, sure_names = names.known()
    return all_names - names.NEVER, sure_names - names.NEVER


def candidates(text: str, met: Mapping[str, str]) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, features) of each name that stands alone, and of each full name."""
    words = [*map(_word, _TOKEN.findall(text))]
    if not any(word.sort for word in words):
        return
    starts = [match.start() for match in _TOKEN.finditer(text)]
    runs = [run for run in _runs(text, words, starts, met) if _stands_alone(text, words, *run, starts)]
    if runs:
        no_capitals = not any(word.capital and word.plain not in _FIRST_PERSON for word in words[1:])
        topics = sorted({f"about={word.kind}" for word in words if word.plain in _KIND})
        if any(word.plain == "0" and word.size == 4 for word in words):
            topics.append("about=year")
        inside = {i for n, m in runs for i in range(n, m + 1)}
        others = [word for i, word in enumerate(words) if i not in inside and _is_name_like(words, i)]
        seen = sum(met.get(word.plain, "w") != "w" for word in others)
        topics += [f"names{min(4, len(runs))}", f"others{min(3, len(others))}", f"seen{min(3, seen)}"]
        quoted = [found.span() for found in _QUOTED.finditer(text)]
    for n, m in runs:
        start, end = starts[n], starts[m] + words[m].size
        in_quotes = ["quoted"] if any(first < start and end < last for first, last in quoted) else []
        yield start, end, [*_features(words, n, m, no_capitals, met), *topics, *in_quotes]


def _runs(text: str, words: list[_Word], starts: list[int], met: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """(first, last) word of each name: given names, and capitalised words that are no ordinary ones.

    A word that begins a sentence belongs to a full name only if it is hardly a common word.
    """
    n = 0
    while n < len(words):
        m = n
        if words[n].capital and (words[n].sort or _is_name_like(words, n)) and words[n].kind not in _TITLES:
            while (after := _joined(text, words, starts, m)) > m:
                m = after
            if m > n and not _is_name_like(words, n) and _is_common(words[n], met) and not _is_part(words[n]):
                n += 1
        parts = [i for i in range(n, m + 1) if m - n < 4 and not _is_part(words[i])]
        if parts and all(_may_end(words, i, met) for i in (parts[0], parts[-1])):
            yield n, m
        n = m + 1


def _joined(text: str, words: list[_Word], starts: list[int], n: int) -> int:
    """The next capitalised word of the same name, or n."""
    for m in (n + 1, n + 2, n + 3):
        if m >= len(words) or words[m - 1].owned or text[starts[m - 1] + words[m - 1].size : starts[m]] != " ":
            return n
        if words[m].capital:
            return m if words[m].plain not in _FIRST_PERSON and words[m].plain not in names.NEVER else n
        if words[m].plain not in _INNER:
            return n
    return n


def _is_part(word: _Word) -> bool:
    """An initial, or "van" in a surname."""
    return word.capital and (len(word.plain) == 1 or word.plain in _INNER)


def _is_new_common(word: _Word, met: Mapping[str, str], *, starts: bool) -> bool:
    return word.sort == "new" and _is_ordinary(word.plain, partial(_is_met, met, starts))


def _is_common(word: _Word, met: Mapping[str, str]) -> bool:
    return word.plain in names.doubtful() or _is_new_common(word, met, starts=True) or not word.sort


def _is_ordinary(word: str, is_met: Callable[[str], bool]) -> bool:
    """Whether the word, or what it is formed from, is an everyday or famous one, or occurs in talk about films."""
    if is_met(word):
        return True
    stems = [word[: -len(end)] for end in _ENDINGS if word.endswith(end)]
    return any(is_met(stem) or is_met(stem + "e") or (stem[-1:] == stem[-2:-1] and is_met(stem[:-1])) for stem in stems)


@lru_cache(1 << 15)
def _word(token: str) -> _Word:
    if not token[0].isalpha():
        mark = "<n>" if token == "[name]" else "0" if token.isdigit() else token if token[0] == "[" else token[0]
        mark = _FULL_FORMS.get(mark, mark.replace("\n", "|"))
        return _Word(mark, mark, _kind(mark), len(token), False, False, "")
    all_names, sure_names = _given_names()
    plain, capital = names.bare(token.casefold().replace("’", "'").rstrip(".")), token[0].isupper()
    owned = plain.endswith("'s")
    plain = plain.removesuffix("'s")
    sure = names.hyphened(plain) if "-" in plain else plain in sure_names
    sort = "sure" if sure else "more" if capital and plain in all_names else ""
    is_like_name = capital and len(plain) > 2 and not token.isupper() and plain not in names.NEVER
    if not sort and is_like_name and not _STRETCHED.search(plain):
        sort = "new"
    plain = _FULL_FORMS.get(plain, plain)
    symbol = plain if sort in ("", "new") or plain in _KIND else "<N>" if capital else "<n>"
    return _Word(plain, symbol, _kind(symbol), len(token) - 2 * owned, capital, owned, sort)


def _stands_alone(text: str, words: list[_Word], n: int, m: int, starts: list[int]) -> bool:
    """Without a year after it, quotation marks around it, hyphens (Winnie-the-Pooh), or another capitalised word beside
    it, except one that begins a sentence."""
    start, end = starts[n], starts[m] + words[m].size
    if _is_name_like(words, n - 1) or _is_name_like(words, m + 1):
        return False
    dated = [(after.plain, after.size) for after in words[m + 1 : m + 3]] == [("(", 1), ("0", 4)]
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    quoted = before and after and before in _QUOTES and after in _QUOTES
    return not dated and "-" not in (before, after) and not quoted


def _listed(words: list[_Word], n: int) -> bool:
    """Whether it is one of three or more capitalised words between commas or slashes."""
    items, marks = [words[n]], (",", "/", "and", "(")
    for step in (1, -1):
        i = n + step
        while 0 < i + step < len(words) and words[i].plain in marks and (words[i + step].capital or words[n].sort):
            if not words[i + step].plain[0].isalpha() or words[i + step].plain in _FIRST_PERSON:
                break
            items.append(words[i + step])
            if not words[i + step].capital and not words[i + step].sort:
                break
            i += 2 * step
    return len(items) > 2


def _is_name_like(words: list[_Word], n: int) -> bool:
    if not 0 < n < len(words) or not words[n].capital:
        return False
    if words[n].plain in _FIRST_PERSON or words[n].kind in _TITLES or words[n].plain in names.NEVER:
        return False
    return words[n - 1].plain not in _OPENS


def _kind(word: str) -> str:
    if word in _KIND:
        return _KIND[word]
    if word in _MARKS or len(word) < 4 or not word.isalpha():
        return word if word in _MARKS else "-"
    return "-ed" if word.endswith("ed") else "-ing" if word.endswith("ing") else "-s" if word[-1] == "s" else "-"


def _features(words: list[_Word], n: int, m: int, no_capitals: bool, frequency: Mapping[str, str]) -> list[str]:
    word, last = words[n], words[m]
    window = [*[_BEFORE] * 3, *words[max(0, n - 3) : n], *words[m + 1 : m + 4], *[_AFTER] * 3]
    centre = 3 + min(n, 3)
    others = window[centre - 3 : centre + 3]
    c, b, a, x, y, _ = (other.alike for other in others)
    kc, kb, ka, kx, ky, kz = (other.kind for other in others)
    if last.owned:
        x, kx = f"'s~{x}", f"'s~{kx}"
    ranks = [frequency.get(name.plain, "0").replace("w", "0") for name in (word, last)]
    case, sort, met = "C" if word.capital else "l", word.sort, f"met{ranks[0][0]}"
    features = [f"{case}{sort}", met, f"{case}{met}", f"{met}{sort}", "low" if no_capitals else "capitals"]
    features += [f"a={a}", f"x={x}", f"b={b}", f"y={y}", f"ab={b}~{a}", f"xy={x}~{y}"]
    features += [f"A={ka}", f"X={kx}", f"B={kb}", f"Y={ky}", f"C={kc}", f"Z={kz}"]
    features += [f"AX={ka}~{kx}", f"AB={kb}~{ka}", f"XY={kx}~{ky}"]
    groups: tuple[str, ...] = (case, sort, met)
    if m > n:
        groups = (*groups, "full")
        features += ["full", f"full{m - n}", f"full{met}", f"full~{last.sort}", f"full~met{ranks[1][0]}"]
        features += [f"fullAX={ka}~{kx}"]
    features += [f"{group}A={ka}" for group in groups] + [f"{group}X={kx}" for group in groups]
    if any(rank[1:] == "f" for rank in ranks):
        features += ["famous", f"famous{ranks[0]}"]
    if "-" in last.plain:
        features += [f"hyphen~{last.sort}"]
    marks = [other.plain for other in words]
    if "|" in marks:
        own = "~own" if a in ("^", "|") and x in ("|", "$") else ""
        features.append(f"line{'~first' if '|' not in marks[:n] else '~last' if '|' not in marks[m:] else ''}{own}")
    nearby = [*words[max(0, n - 6) : n], *words[m + 1 : m + 7]]
    features += sorted({f"near={other.kind}" for other in nearby if other.plain in _KIND})
    features += sorted({f"w={other.alike}" for other in words[max(0, n - 5) : n]})
    features += sorted({f"W={other.alike}" for other in words[m + 1 : m + 6]})
    size = f"size{min(6, len(words) // 8)}"
    features += [size, f"{size}{a in _ENDS}", f"place{4 * n // len(words)}"]
    if "and" in (a, b) or "," in (a, b):
        features.append("listed~with~name" if {"<n>", "<N>"} & {a, b, c, x, y} else "listed")
    if word.capital and not no_capitals and a in _ENDS:
        features += ["starts", f"starts{sort}", f"starts{met}"]
    if _listed(words, n):
        features.append("of~three")
    if _is_name_like(words, n - 3) or _is_name_like(words, n - 2):
        features.append(f"{case}capital~before")
    if _is_name_like(words, m + 2) or _is_name_like(words, m + 3):
        features.append(f"{case}capital~after")
    return features


def _may_end(words: list[_Word], n: int, met: Mapping[str, str]) -> bool:
    """Whether it may be the first or last word of a name."""
    return bool(words[n].sort) and not _is_new_common(words[n], met, starts=not _is_name_like(words, n))


def _is_met(met: Mapping[str, str], starts: bool, word: str) -> bool:
    """Whether it is one of these; a word of rank w only where it starts a sentence, one of rank 1n nowhere."""
    return word in met and (starts or met[word] != "w") and met[word] != "1n"
