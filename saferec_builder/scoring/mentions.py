"""Finds what an answer names beside its list: in reasons, in a second list, under another key, in a last sentence.

Some works are named to say that they were left out. A linear model of sentences tells, which learns mentions.jsonl
when it is first asked. It errs, so there are two readings, with a person's between them; docs/training.md has what each
finds in sentences that it has not seen.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.scoring import json_in_text, linear_text
from saferec_builder.scoring.linear_text import LinearText
from saferec_builder.scoring.list_entry_parser import YEAR, Entry
from saferec_builder.scoring.mention_finder import Finder, Mention, in_text

_SENTENCES = Path(__file__).with_name("mentions.jsonl")
NEAR = 400  # characters of a sentence that are read on each side of a title
TITLE = "thattitle"  # stands for the work in the sentences that the model reads
# the probability that it leaves out, at most: of a sentence, and of a line of a list, of `offered`; of `named`
SURE, LISTED, POSSIBLE = 0.05, 0.5, 0.9

_ENDS = re.compile(r"""\n+|(?<=[.!?])["'”’*_)\]]*\s+(?=["'“‘*_(\[]*[A-Z0-9])""")
_MARK = r"(?:[-*•●▪◦‣·–—+]|\(?\d{1,3}[.):])"
_BULLET = re.compile(rf"\s*{_MARK}\s+")
_LISTED = re.compile(rf":[*_]*(?:\s+{_MARK})?$|^\s*{_MARK}$")  # before a title: a key, or a bullet
_GOES_ON = re.compile(r"(?:It|That|This|They|Its|Both|But|Too|So|Hence|Sadly|Unfortunately)\b")
_SUBTITLE = re.compile(r":\s+[A-Z0-9][^\s.!?]*(?:\s+[^\s.!?]+){0,3}\s*(?:[.!?\n]|$)")
_MORE = re.compile(r":? (?:- )?[A-Z0-9][\w' ]*(?=\s*[:(\n–—-]|$)")  # of a name that the catalogue has in part
_MARKS = "\"'“”‘’*_«»"
_DATED = re.compile(rf"\b{YEAR}\W*$")


@dataclass(frozen=True)
class Beside:
    """Items that an answer names outside its list."""

    offered: frozenset[str] = frozenset()  # surely: plainly a title, in a sentence that does not leave it out
    named: frozenset[str] = frozenset()  # these, and what may be a title, or may be left out


def beside(tidy: str, entries: Sequence[Entry], finder: Finder) -> Beside:
    """What the text of an answer names beside `entries`, its list. tidy: as answer_parser.tidied gives it."""
    text = _without(_json_lines(tidy), entries)
    read = ((one, _reads(text, one)) for one in in_text(finder, text) if one.item)
    found = [(one, reads) for one, reads in read if reads]
    if not found:
        return Beside()
    ends = [0, *(end.end() for end in _ENDS.finditer(text)), len(text)]
    around = [_around(text, one, ends) for one, _ in found]
    alike = list(dict.fromkeys(around))
    left_out = dict(zip(alike, model().score(alike)[:, 0].tolist(), strict=True))
    each = [(one, said, left_out[said]) for one, said in zip(found, around, strict=True)]
    return Beside(
        frozenset(one.item for (one, reads), said, p in each if one.item and reads == "surely" and _offers(said, p)),
        frozenset(one.item for (one, _), _, p in each if one.item and p <= POSSIBLE),
    )


def _offers(said: str, left_out: float) -> bool:
    """A line of a list offers what it names unless much speaks against it; prose only where little does."""
    before = said.partition(TITLE)[0].rstrip(_MARKS + " ")
    return left_out <= (LISTED if _LISTED.search(before) else SURE)


@lru_cache(maxsize=1)
def model() -> LinearText:
    """Scores sentences in which TITLE stands for a work: the probability that they leave it out."""
    rows = [strict_json(line) for line in _SENTENCES.read_text(encoding="utf-8").splitlines()]
    truth = np.array([[float(row["kind"] == "left_out")] for row in rows])
    return linear_text.fit([row["text"].replace("{TITLE}", TITLE) for row in rows], truth, ["left_out"])


def _without(text: str, entries: Sequence[Entry]) -> str:
    """The text without the titles of its list, each where it stands first behind the one before."""
    at = 0
    for entry in entries:
        start = text.find(entry.title, at) if entry.title else -1
        if start >= 0:
            at = start + len(entry.title)
            at = more.end() if (more := _MORE.match(text, at)) else at
            text = f"{text[:start]}|{' ' * (at - start - 1)}{text[at:]}"
    return text


def _json_lines(text: str) -> str:
    """JSON as lines of "key: value", so that a key says what is meant; any other text as it is."""
    try:
        return json_in_text.replaced(text, lambda value: "\n".join(_spoken(*leaf) for leaf in _leaves(value, "")))
    except KeyTwice:
        return text


def _spoken(key: str, value: str) -> str:
    return f"{key.replace('_', ' ')}: {value}" if key else value


def _leaves(value: JsonValue, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, f"{key} {name}".strip())
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, key)
    elif value is not None:
        yield key, str(value)


def _reads(text: str, one: Mention) -> Literal["surely", "perhaps"] | None:
    """Whether it is a title: surely with its year, with several words, in marks, or alone on a line."""
    words, behind = text[one.start : one.end], text[one.end : one.end + 1]
    line = text[text.rfind("\n", 0, one.start) + 1 :].partition("\n")[0]
    alone = _BULLET.sub("", line, count=1).rpartition(": ")[2].strip(_MARKS + " .,") == words
    marked = one.start > 0 and behind != "" and text[one.start - 1] in _MARKS and behind in _MARKS
    if _DATED.search(words) or marked or alone:
        return "surely"
    if _SUBTITLE.match(text, one.end) or not words[:1].isupper():  # a model writes titles with capitals
        return None
    return "surely" if " " in words else "perhaps"


def _around(text: str, one: Mention, ends: Sequence[int]) -> str:
    """Its sentence, of those that end there, with TITLE for the work, and the next where that goes on about it; of a
    bullet the heading too. Of each no more than NEAR characters: answers may be one sentence."""
    first = bisect_right(ends, one.start) - 1
    last = max(bisect_left(ends, one.end), first + 1)
    after = text[ends[last] : ends[last + 1]][:NEAR] if last + 1 < len(ends) else ""
    before = text[max(ends[first], one.start - NEAR) : one.start]
    own = f"{before}{TITLE}{text[one.end : min(ends[last], one.end + NEAR)]}"
    heading = ""
    if _BULLET.match(own):
        above = [
            line
            for line in text[max(0, ends[first] - 5 * NEAR) : ends[first]].splitlines()
            if line.strip() and not _BULLET.match(line)
        ]
        heading = above[-1] if above and above[-1].rstrip(" *_").endswith(":") else ""
    return " ".join(part for part in (heading, own, after if _GOES_ON.match(after) else "") if part.strip())
