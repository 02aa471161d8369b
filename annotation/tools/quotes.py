"""Finds where a quote stands in a conversation, also where a spreadsheet has changed its characters."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import product

from annotation.tools.tasks_and_answers import Turns
from saferec_builder.storage.evidence_check import SPEAKER
from saferec_builder.storage.schema import Span

LEAST = 8  # letters that name a place by themselves

_PLAIN = dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'") | dict.fromkeys("‐‑‒–—−", "-")
_PLAIN |= {"…": "...", "\u200b": "", "\ufeff": ""}


def locate(quote: str, turns: Turns, hints: Sequence[int] = ()) -> Span | None:
    """The quote's first place, in code points: hinted turns first, then those that hold evidence, then the others.

    Exactly, else with spaces, quotation marks, dashes and composed letters made alike, as spreadsheets change them;
    the span holds the text's own characters.
    """
    theirs = [n for n, turn in enumerate(turns) if turn["role"] in SPEAKER.values()]
    forms = dict.fromkeys([quote.strip(), quote.strip(" \t\n\"'“”‘’")])
    for order in ([n for n in hints if 0 <= n < len(turns)], theirs, range(len(turns))):
        for words, find, n in product(filter(None, forms), (_exact, _alike), order):
            if place := find(turns[n]["text"], words):
                start, end = place
                return {"turn": n, "start": start, "end": end, "quote": turns[n]["text"][start:end]}
    return None


def only(quote: str, turns: Turns) -> Span | None:
    """Where these words stand once, and once only, in what people said whose words count; any white space is like any
    other, since a page shows it so. Shorter than LEAST they name no place."""
    words = quote.split()
    if len(" ".join(words)) < LEAST:
        return None
    form = re.compile(r"\s+".join(map(re.escape, words)))
    said = [(n, turn["text"]) for n, turn in enumerate(turns) if turn["role"] in SPEAKER.values()]
    found: list[Span] = [
        {"turn": n, "start": at.start(), "end": at.end(), "quote": at[0]}
        for n, text in said
        for at in form.finditer(text)
    ]
    return found[0] if len(found) == 1 else None


def _exact(text: str, quote: str) -> tuple[int, int] | None:
    start = text.find(quote)
    return (start, start + len(quote)) if start >= 0 else None


def _alike(text: str, quote: str) -> tuple[int, int] | None:
    (plain, at), (words, _) = _plain(text), _plain(quote)
    start = plain.find(words) if words else -1
    while start >= 0:
        end = start + len(words)
        whole = (start == 0 or at[start - 1] != at[start]) and (end == len(at) or at[end] != at[end - 1])
        if whole:  # never half of a composed letter
            return at[start], at[end - 1] + 1
        start = plain.find(words, start + 1)
    return None


def _plain(text: str) -> tuple[str, list[int]]:
    """(the text made alike, for each of its characters the index in `text` that it comes from)."""
    pairs: list[tuple[str, int]] = []
    for n, char in enumerate(text):
        for c in unicodedata.normalize("NFD", _PLAIN.get(char, char)):
            c = " " if c.isspace() else c
            if c != " " or (pairs and pairs[-1][0] != " "):
                pairs.append((c, n))
    return "".join(c for c, _ in pairs), [n for _, n in pairs]
