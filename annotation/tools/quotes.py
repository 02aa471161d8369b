"""Finds the place of a quote in a conversation, even if a spreadsheet has changed its characters; joins quotes."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import itemgetter

from annotation.tools.tasks_and_answers import Turns
from saferec_builder.storage.evidence_check import SPEAKER
from saferec_builder.storage.schema import Span

LEAST = 8  # characters that a quote needs to identify a place without a hint

_SUBSTITUTES = dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'") | dict.fromkeys("‐‑‒–—−", "-")
_SUBSTITUTES |= {"…": "...", "\u200b": "", "\ufeff": ""}


def locate(quote: str, turns: Turns, hints: Sequence[int] = ()) -> Span | None:
    """The quote's first place, in code points: in the hinted turns, then in turns that may hold evidence, then in all;
    in each group as whole words first, then inside other words.

    The match is exact, or else ignores differences in spaces, quotation marks, dashes, capitals and composed letters,
    which spreadsheets change; the span holds the text's own characters.
    """
    speakers = [n for n, turn in enumerate(turns) if turn["role"] in SPEAKER.values()]
    variants = dict.fromkeys([quote.strip(), quote.strip(" \t\n\"'“”‘’")])
    for group in ([n for n in hints if 0 <= n < len(turns)], speakers, range(len(turns))):
        for whole_words, words, find, n in product((True, False), filter(None, variants), (_exact, _loose), group):
            text = turns[n]["text"]
            for start, end in find(text, words):
                if not whole_words or _is_whole(text, start, end):
                    return {"turn": n, "start": start, "end": end, "quote": text[start:end]}
    return None


def only(quote: str, turns: Turns) -> Span | None:
    """The place of these words if they occur exactly once in the turns that may hold evidence, else None; all white
    space counts as equal, since a page shows it so. Words shorter than LEAST give None."""
    words = quote.split()
    if len(" ".join(words)) < LEAST:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    texts = [(n, turn["text"]) for n, turn in enumerate(turns) if turn["role"] in SPEAKER.values()]
    spans: list[Span] = [
        {"turn": n, "start": match.start(), "end": match.end(), "quote": match[0]}
        for n, text in texts
        for match in pattern.finditer(text)
    ]
    return spans[0] if len(spans) == 1 else None


def merged(spans: Iterable[Span]) -> list[str]:
    """The quotes as a person reads them, in the order of the text: those that overlap are one. Evidence stays as it
    is."""
    pieces: list[Span] = []
    for span in sorted(spans, key=itemgetter("turn", "start")):
        last = pieces[-1] if pieces else None
        if last and last["turn"] == span["turn"] and span["start"] < last["end"]:
            rest = span["quote"][last["end"] - span["start"] :]
            pieces[-1] = last | {"end": max(last["end"], span["end"]), "quote": last["quote"] + rest}
        else:
            pieces.append(span)
    return [piece["quote"] for piece in pieces]


def nearest(quote: str, text: str, start: int) -> tuple[int, int] | None:
    """The exact match nearest to `start`; one inside other words only if there is no other."""
    matches = [*_exact(text, quote)]
    return min(matches, key=lambda place: (not _is_whole(text, *place), abs(place[0] - start)), default=None)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word continues across either end of the range."""
    return not any(0 < i < len(text) and _is_letter(text[i - 1]) and _is_letter(text[i]) for i in (start, end))


def _is_letter(char: str) -> bool:
    return char.isalnum() or unicodedata.combining(char) > 0


def _exact(text: str, quote: str) -> Iterator[tuple[int, int]]:
    start = text.find(quote)
    while start >= 0:
        yield start, start + len(quote)
        start = text.find(quote, start + 1)


def _loose(text: str, quote: str) -> Iterator[tuple[int, int]]:
    (normalized, pos), (words, _) = _normalize(text), _normalize(quote)
    for start, end in _exact(normalized, words) if words else ():
        fits = (start == 0 or pos[start - 1] != pos[start]) and (end == len(pos) or pos[end] != pos[end - 1])
        if fits:  # not a part of a composed letter
            yield pos[start], pos[end - 1] + 1


def _normalize(text: str) -> tuple[str, list[int]]:
    """(the normalized text, the index in `text` from which each of its characters comes)."""
    pairs: list[tuple[str, int]] = []
    for n, char in enumerate(text):
        for c in unicodedata.normalize("NFD", _SUBSTITUTES.get(char, char)).lower():
            c = " " if c.isspace() else c
            if c not in " -" or c != (pairs[-1][0] if pairs else " "):  # a run of either is one
                pairs.append((c, n))
    return "".join(c for c, _ in pairs), [n for _, n in pairs]
