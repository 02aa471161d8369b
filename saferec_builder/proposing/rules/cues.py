"""Compiles cues.toml into patterns, and blanks titles in texts; needs the standard library only."""

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

FILE = Path(__file__).with_name("cues.toml")
BLANK = "\0"  # neither word, space nor mark, so that nothing matches across a title

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "\u00a0": " ", "–": ",", "—": ","})
_NAME = re.compile(r"\{([a-z_]+)\}")
_YEAR = re.compile(r"[(\[]\s*(?:18|19|20)\d\d\s*[)\]]")
_SPOKEN = re.compile(  # in double or single marks, between which apostrophes may stand
    r"(?<!\w)'(?=\w)(?:[^'\n]|(?<=\w)'(?=\w)){1,160}(?<=[\w.,!?])'(?!\w)|\"(?=\w)[^\"\n]{1,160}(?<=[\w.,!?])\"(?!\w)"
)
_QUOTED = re.compile(r'"([^"\n]{1,80})"')
_SMALL = "of|the|and|in|on|a|an|to|for|with|at|from|by|de|la|le|du|der|das|die|vs|or|no|not|is|as|&"
_SMALL_WORDS = frozenset(_SMALL.split("|"))
_CAPITALS = re.compile(
    rf"\b(?!I\b|I')[A-Z][\w']*(?:(?:(?:\s+(?:{_SMALL}))*\s+|-)(?!I\b|I')[A-Z0-9][\w']*)+|@\d+",
)
_LINK = re.compile(r"(?:https?://|\bwww\.)[^\s)\]>]+")
_WORK = re.compile(  # "the movie Psycho", "watched Carrie", "the Exorcist films": one capitalised word is a title
    r"\b(?:movie|film|show|series|novel|book|anime|manga|game|watched|saw|seen|finished|called|named) "
    r"(?!I\b|I')([A-Z][\w'-]+)|(?<=[a-z] )(?!I\b|I')([A-Z][\w'-]+)(?= (?:movies|films|books|games|series|franchise)\b)"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?\n])[\s\"'(]*$")
_NO_TITLE = frozenset(
    "i is was were are be seen saw see watch watched watching like liked likes love loved loves enjoy enjoyed hate "
    "hated and or but film films movie movies also about called named than that this it recommend played playing play "
    "finished after before my favorite favourite too so then thought think just re-watched rewatched tried".split()
)
_NOT_ME = "".join(rf"(?<!\b{me} )" for me in ("i'm", "im", "i am", "as", "being", "we're", "was", "became"))
_FAMILY = "mum|mom|dad|gran(?:d?ad|ny|dma|dpa|dmother|dfather)?|nan|mother|father|auntie"  # also without "my"
_YOU = (
    "(?<!can )(?<!could )(?<!would )(?<!thank )(?<!ask )(?<!want )(?<!beg )"
    "you(?! (?:pick|choose|find|recommend|suggest|have|send|come))"
)
_NO_PLEA = "(?<!can )(?<!could )(?<!would )(?<!might )(?<!does )"  # "could somebody name a film" is about nobody
_WHO_KNOWS = r"(?! (?:know|knows|got|have|recommend|suggest|able|out there|here|happen|tell|name|please|point)\b)"
_WORD = re.compile(r"(?<!\w)\w|'(?=\w)")
_REPEAT = re.compile(r"(?:[?*+]|\{\d*,?\d*\})\??")
SEEKER = ("cues", "genre", "says", "reaction", "hints", "aftermath", "implied", "faint", "life")
PLOT = ("cues", "plot", "plot_faint")
Label = tuple[str, str]
_compiled = lru_cache(maxsize=None)(re.compile)
_GAP = r"[\s\-]+"  # between two words of a phrase
_GAPS = re.compile(_GAP)
_LETTERS = 4  # first letters of a phrase, by which it is looked up; a gap counts as one
_LONGEST_TITLE = 12  # words
_LONGEST_PLAIN_TITLE = 4  # words of a title without capitals


class Phrases:
    """Many labelled phrases, found in one pass: tries at each word only those that can begin with its first letters."""

    def __init__(self, labelled: Iterable[tuple[Label, str]], words: dict[str, str]) -> None:
        # as text: to compile all of them takes seconds, and a text begins few of them
        self.by_start: dict[str, list[tuple[Label, str]]] = {}
        self.longer: dict[str, list[tuple[Label, str]]] = {}  # by each beginning of a start
        for label, entry in labelled:
            body = phrase(entry, words)
            pattern = rf"(?:{body})(?!\w)"
            prefixes = starts(body, _LETTERS)
            for start in sorted(prefixes):
                self.by_start.setdefault(start, []).append((label, pattern))
            for part in sorted({start[:n] for start in prefixes for n in range(len(start))}):
                self.longer.setdefault(part, []).append((label, pattern))
        self.candidates = lru_cache(1 << 14)(self._candidates)

    def find(self, low: str) -> Iterator[tuple[Label, int, int]]:
        """Yields (label, start, end) of every phrase wherever it begins, also inside another."""
        for word in _WORD.finditer(low):
            place = word.start()
            for label, pattern in self.candidates(low[place : place + _LETTERS]):
                if match := pattern.match(low, place):
                    yield label, place, match.end()

    def _candidates(self, letters: str) -> list[tuple[Label, re.Pattern[str]]]:
        """The phrases that can begin with these letters."""
        key = _GAPS.sub(" ", letters)
        # a gap of several letters hides the letters after it, so every phrase that begins with the key is possible
        longer = self.longer.get(key, ()) if len(key) < len(letters) else ()
        entries = [entry for n in range(len(key) + 1) for entry in self.by_start.get(key[:n], ())]
        return [(label, _compiled(pattern)) for label, pattern in (*entries, *longer)]


class Places:
    """Spans [start, end) of phrases, sorted once, so that no query has to look at all of them."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._furthest = list(accumulate((end for _, end in ordered), max))  # end of all that begin no later
        self._ends = {end for _, end in ordered}

    def begin(self, first: int, last: int) -> bool:
        """Whether a span begins in [first, last)."""
        n = bisect_left(self._starts, first)
        return n < len(self._starts) and self._starts[n] < last

    def end_at(self, place: int) -> bool:
        return place in self._ends

    def hold(self, start: int, end: int) -> bool:
        """Whether a span covers [start, end)."""
        n = bisect_right(self._starts, start)
        return n > 0 and end <= self._furthest[n - 1]

    def hold_more(self, start: int, end: int) -> bool:
        """Whether a longer span covers [start, end)."""
        return self.hold(start - 1, end) or self.hold(start, end + 1)


@dataclass(frozen=True)
class Book:
    """All of cues.toml, compiled."""

    signs: Phrases  # labels: (trait, list)
    stances: Phrases  # labels: (level, "before" | "after")
    plots: Phrases  # labels: (trait, list)
    mild: frozenset[str]  # traits for which plain dislike of the content is enough
    context: dict[str, re.Pattern[str]]
    blank: Phrases

    def mask(self, text: str, names: Sequence[str]) -> str:
        """The text in lower case, with straight marks and with blanks for titles and idioms; all places stay."""
        text = text.translate(_STRAIGHT)
        low = text.lower()
        if len(low) != len(text):  # a few letters grow in lower case
            low = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        spans = [*_dated_spans(text), *_quoted_spans(text), *_capital_spans(text), *_name_spans(text, low, names)]
        spans += [m.span() for m in _LINK.finditer(text)]
        works = [match.span(1 if match[1] else 2) for match in _WORK.finditer(text)]
        low = _blanked(low, [*spans, *(span for span in works if not self._is_kind(low, span))])
        return _blanked(low, [(start, end) for _, start, end in self.blank.find(low)])

    def _is_kind(self, low: str, span: tuple[int, int]) -> bool:
        """Whether the capitalised word at `span` is a genre, as in "the Horror movies"."""
        start, end = span
        return any(part == "genre" for (_, part), offset, _ in self.signs.find(low[start : end + 10]) if not offset)


def _blanked(low: str, spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return low
    letters = list(low)
    for start, end in spans:
        letters[start:end] = BLANK * (end - start)
    return "".join(letters)


def titles(texts: Sequence[str]) -> list[str]:
    """The names of more than three letters that these texts write with a year, longest first."""
    names: set[str] = set()
    for text in texts:
        for start, end in _dated_spans(text):
            name = _YEAR.split(text[start:end])[0].strip(" ,.\"'“”")
            names.add(name)
            if name.count(" ") > 1 and _SENTENCE_START.search(text, max(0, start - 6), start):
                names.add(name.split(None, 1)[1])  # "Try Snake House (1999)"
    return sorted((name for name in names if len(name) > 3), key=lambda n: (-len(n), n))


@lru_cache(64)  # the turns of a conversation are read for its titles, and then one by one
def _dated_spans(text: str) -> list[tuple[int, int]]:
    """Spans of every "Title (Year)": back from the year over capitalised words, or over a few lower-case ones."""
    return [(_title_start(text, match.start()), match.end()) for match in _YEAR.finditer(text)]


def _title_start(text: str, end: int) -> int:
    """The place where the title that ends at `end` begins."""
    start = place = end
    for n in range(_LONGEST_TITLE):
        lead = text[max(0, place - 40) : place].rstrip()
        word = lead.rsplit(None, 1)[-1] if lead else ""
        if not word or (n and word[-1] in ".!?;:)]" and not re.fullmatch(r"(?:Mrs?|Dr|St|Ms|Vol)\.", word)):
            break
        word_start = max(0, place - 40) + len(lead) - len(word)
        bare = word.strip(",\"'“”(")
        if bare[:1].isupper() or bare[:1].isdigit():
            start = word_start
        elif (n and word.endswith(",")) or (bare.lower() not in _SMALL_WORDS and (start < end or _is_plain(bare, n))):
            break
        place = word_start
    return start if start < end else place


def _is_plain(word: str, back: int) -> bool:
    """Whether a lower-case word, `back` words before the last one, is not part of a title without capitals."""
    return back >= _LONGEST_PLAIN_TITLE or word.lower() in _NO_TITLE


def _quoted_spans(text: str) -> list[tuple[int, int]]:
    """Spans of quoted names (a capital at the start and on each word of five letters or more) and of quoted speech."""
    lines = [m.span() for m in _SPOKEN.finditer(text) if m[0].count(" ") > 1]
    return lines + [
        m.span()
        for m in _QUOTED.finditer(text)
        if m[1][:1].isupper() and all(w[:1].isupper() or len(w) < 5 for w in m[1].split())
    ]


def _capital_spans(text: str) -> list[tuple[int, int]]:
    """Spans of two or more capitalised words, without a sentence's first word, unless most words of the text are."""
    words = re.findall(r"\b[A-Za-z]\w*", text[:4_000])
    if sum(w[0].isupper() for w in words) > 0.6 * len(words) and len(words) > 4:
        return [m.span() for m in re.finditer(r"@\d+", text)]
    spans = []
    for match in _CAPITALS.finditer(text):
        start = match.start()
        if _SENTENCE_START.search(text, max(0, start - 6), start) and re.search(r"\s", match[0]):
            rest = match[0].split(None, 1)[1]
            if len(rest.split()) < 2:
                continue
            start = match.end() - len(rest)
        spans.append((start, match.end()))
    return spans


def _name_spans(text: str, low: str, names: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yields the spans of these names: several words in any case, a single word only in its own case."""
    for name, searched in ((name.lower(), low) if " " in name else (name, text) for name in names):
        start = searched.find(name)
        while start >= 0:
            yield start, start + len(name)
            start = searched.find(name, start + len(name))


# ---- from phrases to patterns


def traits() -> frozenset[str]:
    """Traits that have cues; the rules never propose any other."""
    return frozenset(tomllib.loads(FILE.read_text(encoding="utf-8"))["trait"])


@lru_cache(maxsize=1)
def load() -> Book:
    """cues.toml, compiled once per process."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    words = data["words"]

    def pattern(*lists: list[str]) -> re.Pattern[str]:
        body = "|".join(phrase(entry, words) for entries in lists for entry in entries)
        return re.compile(rf"(?:(?<!\w)|(?='))(?:{body})(?!\w)")

    context = data["context"]
    aversion = data["aversion"]
    before = {k: aversion[k] for k in ("strong", "request", "hate", "mild", "slight")}
    before |= {k: context[k] for k in ("fine", "like", "theirs")}
    after = {"strong": aversion["strong_after"], "mild": aversion["mild_after"], "like": context["likes_after"]}
    after["fine"] = context["fine_after"]
    stances = [((level, "before"), e) for level, entries in before.items() for e in entries]
    stances += [((level, "after"), e) for level, entries in after.items() for e in entries]
    signs = [((slug, k), e) for slug, row in data["trait"].items() for k in SEEKER for e in row.get(k, ())]
    plots = [((slug, k), e) for slug, row in data["trait"].items() for k in PLOT for e in row.get(k, ())]
    return Book(
        signs=Phrases(signs, words),
        stances=Phrases(stances, words),
        plots=Phrases(plots, words),
        mild=frozenset(slug for slug, row in data["trait"].items() if row.get("mild")),
        context={
            "person": _person(words),
            "past_form": pattern([context["past_form"]]),
            **{
                k: pattern(context[k])
                for k in ("over", "still", "past_always", "past_time", "reported", "along", "both", "away", "joke")
            },
        },
        blank=Phrases(((("", ""), e) for e in data["mask"]["blank"]), words),
    )


def _person(words: dict[str, str]) -> re.Pattern[str]:
    """The pattern of a person: the seeker (self), somebody else (other), "who" (which), or anybody (any)."""
    kin, whose = phrase(words["kin"], words), "my|our|his|her|the|an?|some|this|that|these|your|their|most"
    return re.compile(
        rf"(?<!\w)(?:(?P<other>{_NOT_ME}(?:{whose}) (?:\w+ ){{0,2}}?{kin}(?: of (?:mine|ours))?|she|he|him|her|"
        rf"(?<!\w )(?:{_FAMILY})(?! of (?:\w+|\d)))|"
        r"(?P<self>i|i'\w+|im|ive|id(?= (?:rather|like|love|prefer))|me|my|mine|we|we'\w+|us|our|myself)|"
        rf"(?P<which>who|whose)|(?P<any>{_YOU}|people|(?<!as ){_NO_PLEA}some(?:one|body)|any(?:one|body){_WHO_KNOWS}|"
        r"everyone|everybody|critics?|reviewers?|audiences?|viewers?|others))(?!\w)"
    )


def phrase(entry: str, words: dict[str, str]) -> str:
    """The regular expression of one entry, which is written as the head of cues.toml explains."""
    while _NAME.search(entry):
        entry = _NAME.sub(lambda match: words[match[1]], entry)
    entry = entry.strip().replace(" ... ", r"[\s,\-]+(?:[\w']+[\s\-,]+){0,4}?")
    entry = re.sub(r"(?<!\\)_", r"[\\s\\-]*", entry).replace("~", r"\w*")
    return entry.replace(" ", _GAP)


def starts(body: str, most: int) -> set[str]:
    """The prefixes, of `most` letters or fewer, with which a match of this expression can begin; "" is any text."""
    prefixes = {_GAPS.sub(" ", letters) for letters, _ in _prefixes(body, most)}
    return {prefix for prefix in prefixes if not any(prefix[:n] in prefixes for n in range(len(prefix)))}


def _prefixes(body: str, most: int) -> set[tuple[str, bool]]:
    """Returns pairs (prefix, whether the expression can end after it)."""
    return set().union(*(_sequence(part, most) for part in _split(body)))


@lru_cache(1 << 12)
def _sequence(part: str, most: int) -> set[tuple[str, bool]]:
    if not part:
        return {("", True)}
    if most and part.startswith(_GAP):
        return {(" " + more, ends) for more, ends in _sequence(part.removeprefix(_GAP).removeprefix("?"), most - 1)}
    if not most or part[0] in "\\[.":
        return {("", False)}
    end = next((n for n, letter, depth in _scan(part) if letter == ")" and not depth), 0) if part[0] == "(" else 0
    inner, rest = part[1:end].removeprefix("?:"), part[end + 1 :]
    if inner.startswith(("?!", "?=", "?<!", "?<=")):
        return _sequence(rest, most)
    first = _prefixes(inner, most) if end else {(part[0], True)}
    if repeat := _REPEAT.match(rest):
        rest = rest[repeat.end() :]
        first = {(letters, is_whole and repeat[0][0] == "?") for letters, is_whole in first}
        if not repeat[0].startswith(("+", "{1")):
            first.add(("", True))
    return {
        (letters + more, is_whole and ends)
        for letters, is_whole in first
        for more, ends in (_sequence(rest, most - len(letters)) if is_whole else {("", False)})
    }


def _split(body: str) -> list[str]:
    """The alternatives at the top level of an expression."""
    bars = [n for n, letter, depth in _scan(body) if letter == "|" and not depth]
    return [body[a + 1 : b] for a, b in pairwise([-1, *bars, len(body)])]


def _scan(body: str) -> Iterator[tuple[int, str, int]]:
    """Yields (place, letter, number of open brackets after it), without the insides of escapes and classes."""
    depth = n = 0
    while n < len(body):
        letter = body[n]
        depth += (letter == "(") - (letter == ")")
        yield n, letter, depth
        n = body.index("]", n + 2) if letter == "[" else n + (letter == "\\")
        n += 1
