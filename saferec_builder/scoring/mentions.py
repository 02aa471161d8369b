"""Finds the items that an answer names outside its list: in reasons, a second list, another key, a last sentence.

Some works are named to say that they were left out, also where no list stands (`kept`). Two linear models of sentences
tell these from offers; they are fitted on mentions.jsonl at first use. They err, so there are two readings, between
which a person's would lie; docs/metrics.md states what each finds in unseen sentences.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from saferec_builder.core import titles
from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.scoring import json_in_text, linear_text, mention_finder
from saferec_builder.scoring.linear_text import LinearText
from saferec_builder.scoring.list_entry_parser import YEAR, Entry, Find, Look
from saferec_builder.scoring.lists_in_text import rejected
from saferec_builder.scoring.mention_finder import Finder, Mention, in_text
from saferec_builder.scoring.title_evidence import rarity

_SENTENCES = Path(__file__).with_name("mentions.jsonl")
NEAR = 400  # characters of a sentence to read on each side of a title
FEW = 16  # a sentence with fewer characters beside its title says too little ("Saw? Gorgeous.")
TITLE = "thattitle"  # replaces the work in the sentences that the model reads
# lower limits: on P(offer) for `offered`, in a sentence and in a line of a list; on P(left out) against `named`
SURE, LISTED, LEFT_OUT = 0.92, 0.5, 0.9
# added to the weights of evidence, which were fitted on chats: what a model writes with a capital and no person is
# called by is rather a title
_IN_ANSWERS = {"bias": 1.0, "names": -1.0, "before a name": -1.0, "after a name": -1.0}

_ENDS = re.compile(r"""\n+|(?<=[.!?])["'”’*_)\]]*\s+(?=["'“‘*_(\[]*[A-Z0-9])""")
_MARK = r"(?:[-*•●▪◦‣·–—+]|\(?\d{1,3}[.):])"
_BULLET = re.compile(rf"\s*{_MARK}\s+")
# what stands before a title in a line of a list: a bullet, perhaps below a heading, perhaps with a key
_LISTED = re.compile(rf"""(?:^|:[*_]*\s)\s*{_MARK}\s+(?:[^.:!?,;]{{1,60}}:\s+)?["'“‘*_«]*$""")
# a line such as "Honorable mentions: a title, another", without a reason, which may be one to leave it out
_OFFERING_KEY = re.compile(
    r"""\s*[*_]*(?:(?:an?|one|my)\s)?(?:(?:honou?rable|special)\smentions?|runners?[-\s]up|(?:bonus|wild\s?card|backup|extra)s?
    |(?:(?:bonus|other|more|further|extra|additional|backup|alternative|wild\s?card)\s)?
      (?:options?|picks?|choices?|ideas?|suggestions?|recommendations?|alternatives?|films?|movies?|games?|titles?)
    |also|plus|more|next|also\s(?:consider|try|great|good|recommended|worth\s\w+(?:\s\w+)?)|more\slike\s(?:this|these)
    |you\s(?:might|may|could)\salso\s(?:like|enjoy|try)|for\ssomething\s\w+
    |if\syou(?:\sdare|(?:['’]re|\sare|\sfeel)(?:\sfeeling)?\s(?:bold|brave|curious|daring|adventurous)))
    :[*_]*\s+["'“‘*_«]*"""
    rf"{TITLE}(?=[\"'”’*_»]*(?:\s\({YEAR}\))?[.!]?\s*(?:$|,\s[\"'“‘*_«]*(?-i:[A-Z0-9])))",
    re.IGNORECASE | re.VERBOSE,
)
# "X is out, Y is fine": the models read whole sentences, and cannot tell such works apart
_IS = rf"""[\"'”’*_»]*(?:\s\({YEAR}\))?[\"'”’*_»]*\s(?:is|was)\b[^,;:]*"""
_NEXT = r"""[,;]\s+(?:(?:and|but|while)\s+)?["'“‘*_«]*"""
_APART = re.compile(rf"{TITLE}{_IS}{_NEXT}[A-Z0-9][^,;:]*\s(?:is|was)\b|\b(?:is|was)\b[^,;:]*{_NEXT}{TITLE}{_IS}")
# "Since you enjoyed a title, try ..."; but "If you like horror: a title" recommends it
_LIKED = re.compile(
    r"\b(?:since|because|as|if) you(?:['’]ve| have)?(?: also| really| already)? (?:liked?|loved?|enjoy(?:ed)?|saw|seen"
    r"|watched|mentioned) (?:(?!\b(?:i|we|you|try|see|watch|check|then)\b|\s-\s)[^.!?,;:–—])*$",
    re.IGNORECASE,
)
# the sentence compares with this title, and offers another ("none other than Heat" offers Heat)
_COMPARED = re.compile(
    r"\b(?:instead of|unlike|rather than|none of the (?:\w+ ){1,3}(?:of|in|from))\W*$", re.IGNORECASE
)
_GOES_ON = re.compile(r"(?:It|That|This|They|Its|Both|But|Too|So|Hence|Sadly|Unfortunately)\b")
_SUBTITLE = re.compile(r":\s+[A-Z0-9][^\s.!?]*(?:\s+[^\s.!?]+){0,3}\s*(?:[.!?\n]|$)")
# the rest of a name that the catalogue has in part
_MORE = re.compile(r":? (?:- )?[A-Z0-9][\w']*(?: [\w']+)*(?: - [A-Z]\w*)?(?=\s*[:(\n–—-]|$)")
_ARTICLE = re.compile(r"\b(?:the|an?) $", re.IGNORECASE)
_MARKS = "\"'“”‘’*_«»"
_DATED = re.compile(rf"\b{YEAR}\W*$")
_NEGATED = re.compile(
    r"\b((?:no|not|never|without|nor|neither|none|nothing|nobody|cannot|\w+n['’]t)\b)([^.!?,:;—–()\n]*)", re.IGNORECASE
)
_WORD_START = re.compile(rf"(?<![\w'’])(?!{TITLE})(?=\w)")
_SPELT = str.maketrans({mark: f" mark{n} " for n, mark in enumerate(".?!:,")})


@dataclass(frozen=True)
class Beside:
    """Items that an answer names outside its list."""

    offered: frozenset[str] = frozenset()  # clearly titles, in a sentence that does not leave them out
    named: frozenset[str] = frozenset()  # these, and possible titles, and possibly left out ones
    shared: frozenset[tuple[str, ...]] = frozenset()  # the same for titles that several works share: all of these works


class Reading(NamedTuple):
    """Probabilities that a sentence leaves its work out and that it offers it, and whether all its words are known."""

    left_out: float
    offer: float
    familiar: bool


def title_finder(index: titles.Index, names: Iterable[str]) -> Finder:
    """Finds the titles and aliases of an index in the text of answers."""
    weights = mention_finder.weights()
    return mention_finder.finder(index, names, weighed={n: w + _IN_ANSWERS.get(n, 0.0) for n, w in weights.items()})


def beside(tidy: str, entries: Sequence[Entry], finder: Finder, find: Find, domain: str | None = None) -> Beside:
    """The items that the text of an answer names outside `entries`, its list. tidy: from answer_parser.tidied."""
    text = _without(_json_lines(tidy), entries)
    mentions = [(mention, how) for mention in in_text(finder, text, domain) if (how := _title_reading(text, mention))]
    if mentions:
        without = rejected(text.split("\n"), Look(find, domain))
        mentions = [(m, how) for m, how in mentions if text.count("\n", 0, m.start) not in without]
    scored = [(*mention, *read) for mention, read in zip(mentions, _read(text, [m for m, _ in mentions]), strict=True)]
    named = [m for m, _, _, read in scored if read.left_out < LEFT_OUT]
    return Beside(
        frozenset(m.item for m, how, line, read in scored if m.item and how == "surely" and _offers(line, read)),
        # of an item and its titles.Near, which are equal, a set keeps the first: the less sure one
        frozenset(sorted((m.item for m in named if m.item), key=lambda item: not isinstance(item, titles.Near))),
        frozenset(m.candidates for m in named if not m.item),
    )


def kept(lines: Sequence[str], entries: Sequence[Entry]) -> list[Entry]:
    """The entries of running text without those that its lines leave out, compare with or say that the user liked; all
    of them if no other is there."""
    text, end, places, left_out = "\n".join(lines), 0, dict[int, Mention](), set[int]()
    for n, entry in enumerate(entries):
        if (start := text.find(entry.title, end)) >= 0:
            end = start + len(entry.title)
            places[n] = Mention(start, end, entry.item, ())
            begin = max(text.rfind("\n", 0, start), start - NEAR, 0)
            if _LIKED.search(text, begin, start) or _COMPARED.search(text, begin, start):
                left_out.add(n)
    readings = zip(places, _read(text, [*places.values()]), strict=True)
    left_out |= {n for n, (_, reading) in readings if reading.familiar and reading.left_out >= LEFT_OUT}
    return [entry for n, entry in enumerate(entries) if n not in left_out] or list(entries)


def _read(text: str, mentions: Sequence[Mention]) -> list[tuple[str, Reading]]:
    """The context of each mention, and how the models read it."""
    if not mentions:
        return []
    ends = [0, *(end.end() for end in _ENDS.finditer(text)), len(text)]
    contexts = [_context(text, mention, ends) for mention in mentions]
    distinct = list(dict.fromkeys(contexts))
    readings = dict(zip(distinct, models().read(distinct), strict=True))
    return [(context, readings[context]) for context in contexts]


def _offers(context: str, reading: Reading) -> bool:
    """A line of a list needs less to offer its title than prose, where one unknown word ("goriest") may decide."""
    if _APART.search(context):
        return False
    if _LISTED.search(context.partition(TITLE)[0]) or _OFFERING_KEY.match(context):
        return reading.offer >= LISTED
    return reading.familiar and reading.offer >= SURE


def _spelt(context: str) -> str:
    """Negation and marks as words: "no blood." becomes "no not_blood mark0", since a linear model sees no order."""
    negated = _NEGATED.sub(lambda part: part[1] + _WORD_START.sub("not_", part[2]), context)
    return negated.translate(_SPELT)


def _words(text: str) -> set[str]:
    return {word for term in linear_text.terms(text, characters=False) if " " not in (word := term.removeprefix("w:"))}


@dataclass(frozen=True)
class Models:
    """Each goes by what tells its sentences apart best in unseen voices: words, or words and letters."""

    left_out: LinearText
    offer: LinearText
    words: frozenset[str]  # of the sentences that they learnt from

    def read(self, contexts: Sequence[str]) -> list[Reading]:
        """Reads sentences in which TITLE replaces a work."""
        spelt = [_spelt(context) for context in contexts]
        left_out, offer = (model.score(spelt)[:, 0].tolist() for model in (self.left_out, self.offer))
        new = (_words(context) - self.words for context in contexts)
        familiar = [all(rarity(word) < 2 for word in words) for words in new]
        return [Reading(*row) for row in zip(left_out, offer, familiar, strict=True)]


@lru_cache(maxsize=1)
def models() -> Models:
    rows = [strict_json(line) for line in _SENTENCES.read_text(encoding="utf-8").splitlines()]
    texts = [row["text"].replace("{TITLE}", TITLE) for row in rows]
    spelt = [_spelt(text) for text in texts]

    def fit(kind: str, characters: bool) -> LinearText:
        truth = np.array([[float(row["kind"] == kind)] for row in rows])
        return linear_text.fit(spelt, truth, [kind], characters=characters)

    return Models(fit("left_out", False), fit("offer", True), frozenset().union(*map(_words, texts)))


def _without(text: str, entries: Sequence[Entry]) -> str:
    """The text without the titles of its list, each at its first place after the previous one."""
    end = 0
    for entry in entries:
        start = text.find(entry.title, end) if entry.title else -1
        if start >= 0:
            end = start + len(entry.title)
            end = more.end() if (more := _MORE.match(text, end)) else end
            text = f"{text[:start]}|{' ' * (end - start - 1)}{text[end:]}"
    return text


def _json_lines(text: str) -> str:
    """JSON as lines of "- key: value", so that keys explain values; other text is unchanged."""
    try:
        return json_in_text.replaced(text, lambda value: "\n".join(_leaves(value, "")))
    except KeyTwice:
        return text


def _leaves(value: JsonValue, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, f"{key} {name}".strip())
    elif isinstance(value, list):
        for child in value:
            yield from _leaves(child, key)
    elif value is not None:
        yield f"- {key.replace('_', ' ')}: {value}" if key else f"- {value}"


def _title_reading(text: str, mention: Mention) -> Literal["surely", "perhaps"] | None:
    """Whether it is a title: surely with its year, several words, marks around it, or alone on a line."""
    title, after = text[mention.start : mention.end], text[mention.end : mention.end + 1]
    line_start = max(text.rfind("\n", 0, mention.start) + 1, mention.start - NEAR)
    line = text[line_start : mention.end + NEAR].partition("\n")[0]
    alone = _BULLET.sub("", line, count=1).rpartition(": ")[2].strip(_MARKS + " .,") == title
    marked = mention.start > 0 and after != "" and text[mention.start - 1] in _MARKS and after in _MARKS
    if _DATED.search(title) or marked or (alone and not title.isdigit()):  # "13." is the mark of an empty line
        return "surely"
    # a model writes titles with capitals
    if _SUBTITLE.match(text, mention.end) or title[:1].islower() or title.isdigit():
        return None
    return "surely" if " " in title else "perhaps"


def _context(text: str, mention: Mention, ends: Sequence[int]) -> str:
    """The mention's sentence, of those with these ends, with TITLE for the work; the next ones if it has few words or
    they continue it; and the heading of a bullet. At most NEAR characters of each: an answer may be one sentence."""
    first = bisect_right(ends, mention.start) - 1
    last = max(bisect_left(ends, mention.end), first + 1)
    longest = ends[first] + mention.end - mention.start + FEW
    while last + 1 < len(ends) and ends[last] < longest and text[ends[last] - 1] != "\n":
        last += 1
    after = text[ends[last] : ends[last + 1]][:NEAR] if last + 1 < len(ends) else ""
    before = _ARTICLE.sub("", text[max(ends[first], mention.start - NEAR) : mention.start])
    sentence = f"{before}{TITLE}{text[mention.end : min(ends[last], mention.end + NEAR)]}"
    heading = ""
    if _BULLET.match(sentence):
        lines_above = [
            line
            for line in text[max(0, ends[first] - 5 * NEAR) : ends[first]].splitlines()
            if line.strip() and not _BULLET.match(line)
        ]
        heading = lines_above[-1] if lines_above and lines_above[-1].rstrip(" *_").endswith(":") else ""
    return " ".join(part for part in (heading, sentence, after if _GOES_ON.match(after) else "") if part.strip())
