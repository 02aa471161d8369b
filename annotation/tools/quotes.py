"""Finds where a quote stands in a conversation, also where a spreadsheet has changed its characters."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import product

from annotation.tools.tasks_and_answers import Turns
from saferec_builder.storage.evidence_check import SPEAKER
from saferec_builder.storage.schema import Span

LEAST = 8  # letters that name a place by themselves

_PLAIN = dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'") | dict.fromkeys("‐‑‒–—−", "-")
_PLAIN |= {"…": "...", "\u200b": "", "\ufeff": ""}


def locate(quote: str, turns: Turns, hints: Sequence[int] = ()) -> Span | None:
    """The quote's first place, in code points: hinted turns first, then those that hold evidence, then the others; in
    each as whole words first, then inside other words.

    Exactly, else with spaces, quotation marks, dashes and composed letters made alike, as spreadsheets change them;
    the span holds the text's own characters.
    """
    theirs = [n for n, turn in enumerate(turns) if turn["role"] in SPEAKER.values()]
    forms = dict.fromkeys([quote.strip(), quote.strip(" \t\n\"'“”‘’")])
    for order in ([n for n in hints if 0 <= n < len(turns)], theirs, range(len(turns))):
        for whole, words, find, n in product((True, False), filter(None, forms), (_exact, _alike), order):
            text = turns[n]["text"]
            for start, end in find(text, words):
                if not whole or _alone(text, start, end):
                    return {"turn": n, "start": start, "end": end, "quote": text[start:end]}
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


def nearest(quote: str, text: str, start: int) -> tuple[int, int] | None:
    """Where exactly these words stand nearest to that place; inside other words only where they stand nowhere else."""
    found = [*_exact(text, quote)]
    return min(found, key=lambda at: (not _alone(text, *at), abs(at[0] - start)), default=None)


def _alone(text: str, start: int, end: int) -> bool:
    """Whether no word goes on beyond what stands there."""
    return not any(0 < at < len(text) and _letter(text[at - 1]) and _letter(text[at]) for at in (start, end))


def _letter(char: str) -> bool:
    return char.isalnum() or unicodedata.combining(char) > 0


def _exact(text: str, quote: str) -> Iterator[tuple[int, int]]:
    start = text.find(quote)
    while start >= 0:
        yield start, start + len(quote)
        start = text.find(quote, start + 1)


def _alike(text: str, quote: str) -> Iterator[tuple[int, int]]:
    (plain, at), (words, _) = _plain(text), _plain(quote)
    for start, end in _exact(plain, words) if words else ():
        whole = (start == 0 or at[start - 1] != at[start]) and (end == len(at) or at[end] != at[end - 1])
        if whole:  # never half of a composed letter
            yield at[start], at[end - 1] + 1


def _plain(text: str) -> tuple[str, list[int]]:
    """(the text made alike, for each of its characters the index in `text` that it comes from)."""
    pairs: list[tuple[str, int]] = []
    for n, char in enumerate(text):
        for c in unicodedata.normalize("NFD", _PLAIN.get(char, char)):
            c = " " if c.isspace() else c
            if c != " " or (pairs and pairs[-1][0] != " "):
                pairs.append((c, n))
    return "".join(c for c, _ in pairs), [n for _, n in pairs]
