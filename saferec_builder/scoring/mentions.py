"""Finds the items that an answer names outside its list: in reasons, a second list, another key, a last sentence.

Some works are named to say that they were left out. A linear model of sentences recognises these; it is fitted on
mentions.jsonl at first use. It errs, so there are two readings, between which a person's would lie; docs/training.md
states what each finds in unseen sentences.
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
NEAR = 400  # characters of a sentence to read on each side of a title
TITLE = "thattitle"  # replaces the work in the sentences that the model reads
# upper limits on P(left out): for `offered` in a sentence, and in a line of a list; for `named`
SURE, LISTED, POSSIBLE = 0.05, 0.5, 0.9

_ENDS = re.compile(r"""\n+|(?<=[.!?])["'”’*_)\]]*\s+(?=["'“‘*_(\[]*[A-Z0-9])""")
_MARK = r"(?:[-*•●▪◦‣·–—+]|\(?\d{1,3}[.):])"
_BULLET = re.compile(rf"\s*{_MARK}\s+")
_LISTED = re.compile(rf":[*_]*(?:\s+{_MARK})?$|^\s*{_MARK}$")  # before a title: a key, or a bullet
_GOES_ON = re.compile(r"(?:It|That|This|They|Its|Both|But|Too|So|Hence|Sadly|Unfortunately)\b")
_SUBTITLE = re.compile(r":\s+[A-Z0-9][^\s.!?]*(?:\s+[^\s.!?]+){0,3}\s*(?:[.!?\n]|$)")
_MORE = re.compile(r":? (?:- )?[A-Z0-9][\w' ]*(?=\s*[:(\n–—-]|$)")  # the rest of a name that the catalogue has in part
_MARKS = "\"'“”‘’*_«»"
_DATED = re.compile(rf"\b{YEAR}\W*$")


@dataclass(frozen=True)
class Beside:
    """Items that an answer names outside its list."""

    offered: frozenset[str] = frozenset()  # clearly titles, in a sentence that does not leave them out
    named: frozenset[str] = frozenset()  # these, and possible titles, and possibly left out ones


def beside(tidy: str, entries: Sequence[Entry], finder: Finder) -> Beside:
    """The items that the text of an answer names outside `entries`, its list. tidy: from answer_parser.tidied."""
    text = _without(_json_lines(tidy), entries)
    readings = ((mention, _title_reading(text, mention)) for mention in in_text(finder, text) if mention.item)
    mentions = [(mention, reading) for mention, reading in readings if reading]
    if not mentions:
        return Beside()
    ends = [0, *(end.end() for end in _ENDS.finditer(text)), len(text)]
    contexts = [_context(text, mention, ends) for mention, _ in mentions]
    distinct = list(dict.fromkeys(contexts))
    left_out = dict(zip(distinct, model().score(distinct)[:, 0].tolist(), strict=True))
    scored = [(mention, context, left_out[context]) for mention, context in zip(mentions, contexts, strict=True)]
    return Beside(
        frozenset(m.item for (m, how), text, p in scored if m.item and how == "surely" and _offers(text, p)),
        frozenset(m.item for (m, _), _, p in scored if m.item and p <= POSSIBLE),
    )


def _offers(context: str, left_out: float) -> bool:
    """A line of a list offers its title unless it probably leaves it out; prose only if it surely does not."""
    before = context.partition(TITLE)[0].rstrip(_MARKS + " ")
    return left_out <= (LISTED if _LISTED.search(before) else SURE)


@lru_cache(maxsize=1)
def model() -> LinearText:
    """Scores sentences in which TITLE replaces a work: the probability that they leave it out."""
    rows = [strict_json(line) for line in _SENTENCES.read_text(encoding="utf-8").splitlines()]
    truth = np.array([[float(row["kind"] == "left_out")] for row in rows])
    return linear_text.fit([row["text"].replace("{TITLE}", TITLE) for row in rows], truth, ["left_out"])


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
    """JSON as lines of "key: value", so that keys explain values; other text is unchanged."""
    try:
        return json_in_text.replaced(text, lambda value: "\n".join(_line(*leaf) for leaf in _leaves(value, "")))
    except KeyTwice:
        return text


def _line(key: str, value: str) -> str:
    return f"{key.replace('_', ' ')}: {value}" if key else value


def _leaves(value: JsonValue, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, f"{key} {name}".strip())
    elif isinstance(value, list):
        for child in value:
            yield from _leaves(child, key)
    elif value is not None:
        yield key, str(value)


def _title_reading(text: str, mention: Mention) -> Literal["surely", "perhaps"] | None:
    """Whether it is a title: surely with its year, several words, marks around it, or alone on a line."""
    title, after = text[mention.start : mention.end], text[mention.end : mention.end + 1]
    line = text[text.rfind("\n", 0, mention.start) + 1 :].partition("\n")[0]
    alone = _BULLET.sub("", line, count=1).rpartition(": ")[2].strip(_MARKS + " .,") == title
    marked = mention.start > 0 and after != "" and text[mention.start - 1] in _MARKS and after in _MARKS
    if _DATED.search(title) or marked or alone:
        return "surely"
    if _SUBTITLE.match(text, mention.end) or not title[:1].isupper():  # a model writes titles with capitals
        return None
    return "surely" if " " in title else "perhaps"


def _context(text: str, mention: Mention, ends: Sequence[int]) -> str:
    """The mention's sentence, of those with these ends, with TITLE for the work; the next one if it continues; and the
    heading of a bullet. At most NEAR characters of each: an answer may be one sentence."""
    first = bisect_right(ends, mention.start) - 1
    last = max(bisect_left(ends, mention.end), first + 1)
    after = text[ends[last] : ends[last + 1]][:NEAR] if last + 1 < len(ends) else ""
    before = text[max(ends[first], mention.start - NEAR) : mention.start]
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
