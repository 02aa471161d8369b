"""The labelled lines with personal data, and titles that are no names."""

import re

from tests import DATA

LINES = DATA / "privacy.txt"
DISGUISED = DATA / "privacy_disguised.txt"  # other spellings, what Markdown and HTML make of them, and lookalikes
MARK = re.compile(r"\{\{(\w+):(.*?)\}\}")


def labelled(path=LINES):
    """(text, [(start, end, kind)]) of each line; odd ones of LINES were not looked at while the rules were written."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text, spans, at = "", [], 0
        line = re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line.replace("\\n", "\n"))
        for mark in MARK.finditer(line):
            text += line[at : mark.start()]
            spans.append((len(text), len(text) + len(mark[2]), mark[1]))
            text, at = text + mark[2], mark.end()
        yield text + line[at:], spans


EVERY = [text for path in (LINES, DISGUISED) for text, _ in labelled(path)]
NAMED = ("Joker", "Emma", "Matilda", "Elm Street", "Max Payne", "Tom Thumb")
