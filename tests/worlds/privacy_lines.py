"""Lines labelled with personal data, and titles that are not names of people."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import DATA

LINES = DATA / "privacy.txt"
DISGUISED = DATA / "privacy_disguised.txt"  # other spellings, what Markdown and HTML make of them, and lookalikes
HANDLES = DATA / "handles.txt"  # handles alone, and what looks like one
STRANGERS = DATA / "privacy_strangers.jsonl"  # written by somebody who had seen no rule
APART = DATA / "privacy_apart.jsonl"  # by a second person; only the first of its two halves was read
THIRD = DATA / "privacy_third.jsonl"  # by a third person; read
FOURTH = DATA / "privacy_fourth.jsonl"  # by a fourth person; not read
FIFTH = DATA / "privacy_fifth.txt"  # by one more, of all kinds; not read
RARE = DATA / "names_rare.txt"  # names alone, half of them rare, by a sixth person; not read
MARK = re.compile(r"\{\{(\w+):(.*?)\}\}")


def labelled(path: Path = LINES) -> Iterator[tuple[str, list[tuple[int, int, str]]]]:
    """(text, [(start, end, kind)]) of each line; odd lines of LINES were not looked at while the rules were written."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text, position, spans = "", 0, list[tuple[int, int, str]]()
        line = re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line.replace("\\n", "\n"))
        for mark in MARK.finditer(line):
            text += line[position : mark.start()]
            spans.append((len(text), len(text) + len(mark[2]), mark[1]))
            text, position = text + mark[2], mark.end()
        yield text + line[position:], spans


EVERY = [text for path in (LINES, DISGUISED, HANDLES) for text, _ in labelled(path)]
NAMED = ("Joker", "Emma", "Matilda", "Elm Street", "Max Payne", "Tom Thumb")


def strangers(path=STRANGERS):
    """As `labelled`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["text"], [(span["start"], span["end"], span["kind"]) for span in row["spans"]]


def measured(lines, find):
    """Counters by kind: spans marked, of these covered to the last letter, spans found, of these on marked text.

    Of a link that is marked as a whole, it is enough to cover the part that names somebody.
    """
    marked, covered, reported, correct = Counter(), Counter(), Counter(), Counter()
    for text, spans in lines:
        detected = find(text)
        hidden = {i for a, b, _ in detected for i in range(a, b)}
        for start, end, kind in spans:
            marked[kind] += 1
            enough = any if kind == "url" and "." in text[start:end] and "/" in text[start:end] else all
            covered[kind] += enough(i in hidden for i in range(start, end) if text[i].isalnum())
        for start, end, kind in detected:
            reported[kind] += 1
            correct[kind] += any(start < b and a < end for a, b, _ in spans)
    return marked, covered, reported, correct
