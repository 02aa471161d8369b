"""A plain spelling of a text for the search, and the way back: matches are masked at their place in the original.

Full-width and other compatible forms become plain letters, digits and marks; letters with combining marks become one
letter; runs of blanks of any kind become one blank; invisible characters (zero-width characters, soft hyphens,
direction marks) and the backslashes of Markdown are dropped; HTML's character names become the characters. Most texts
have none of these and are skipped with one search.
"""

import html
import re
import unicodedata
from bisect import bisect_right

import polars as pl

_UNSEEN = (
    "\x80-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_ABOVE = "\u0300-\u034e\u0350-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # on the letter before them
_BLANK = "\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_LINE = "\x85\u2028\u2029"
_WIDE = (
    "\u2024\uff01-\uff5e\ufe50-\ufe6b\ufb00-\ufb06\u24b6-\u24e9\U0001d400-\U0001d7ff\U0001f130-\U0001f149"
    # digits of other scripts
    "\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f\u0ae6-\u0aef\u0b66-\u0b6f\u0be6-\u0bef"
    "\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f\u0e50-\u0e59\u0ed0-\u0ed9\u1040-\u1049\u17e0-\u17e9"
)
_DASH = "\u2010-\u2015\u2212"
_STOP = "\u3002\uff61"
_QUOTE = "\u02bc\u00b4\u2018\u201b\u2032"
_ESCAPED = r"\\[!-/:-@\[-`{-~]"  # Markdown's backslash before a mark
_ENTITY = r"&(?:amp;)?(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});"

# for both engines: every text with something to fold matches this
HINT = rf"[{_UNSEEN}{_ABOVE}{_BLANK}{_LINE}{_WIDE}{_DASH}{_STOP}{_QUOTE}]|  |{_ESCAPED}|{_ENTITY}"
_HINT = re.compile(HINT)
_ASCII = ("  ", "\t", "\\", "&")  # every ASCII text with something to fold has one of them
_ODD = re.compile(
    rf"(?P<letter>[^{_UNSEEN}{_ABOVE}\n][{_UNSEEN}]*[{_ABOVE}][{_UNSEEN}{_ABOVE}]*|[{_WIDE}])"
    rf"|(?P<unseen>[{_UNSEEN}{_ABOVE}]+|{_ESCAPED[:2]}(?={_ESCAPED[2:]}))"
    rf"|(?P<blank>[ {_BLANK}](?:[{_UNSEEN}]*(?:[ {_BLANK}]|&nbsp;))+|[{_BLANK}])"
    rf"|(?P<line>[{_LINE}])"
    rf"|(?P<dash>[\u2010\u2011]|(?<=[\d)])[{_DASH}](?=\d))"
    rf"|(?P<stop>(?<=[a-zA-Z\d])[{_STOP}](?=[a-zA-Z]))"
    rf"|(?P<quote>(?<=[^\W\d_])[{_QUOTE}](?=[^\W\d_]))"
    rf"|(?P<entity>{_ENTITY})"
)
_PLAIN = {"unseen": "", "blank": " ", "line": "\n", "dash": "-", "stop": ".", "quote": "'"}
_DROPPED = re.compile(f"[{_UNSEEN}{_ABOVE}]")


class Folded:
    """A text in its plain spelling; `span` maps a span of it to the original text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._from: list[int] = []  # starts of changed pieces in the plain spelling,
        self._pieces: list[tuple[int, int, int]] = []  # their end in it, and start and end in the original
        if (not text.isascii() or any(mark in text for mark in _ASCII)) and _HINT.search(text):
            self._fold(text)

    def _fold(self, text: str) -> None:
        parts, last_end, size = list[str](), 0, 0
        for match in _ODD.finditer(text):
            plain = _plain(match)
            parts += (text[last_end : match.start()], plain)
            size += match.start() - last_end
            self._from.append(size)
            size += len(plain)
            self._pieces.append((size, *match.span()))
            last_end = match.end()
        self.text = "".join((*parts, text[last_end:]))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same span in the original: whole pieces, without invisible characters around them."""
        return self._back(start)[0], self._back(end - 1)[1]

    def _back(self, place: int) -> tuple[int, int]:
        """(start, end) in the original of the character at this place."""
        n = bisect_right(self._from, place) - 1
        if n < 0:
            return place, place + 1
        end, first, last = self._pieces[n]
        return (first, last) if place < end else (last + place - end, last + place - end + 1)


def fold_all(texts: pl.Series) -> pl.Series:
    """The plain spelling of many texts; texts without anything to fold are skipped at the speed of a search."""
    suspects = texts.str.len_bytes() != texts.str.len_chars()
    for mark in _ASCII:
        suspects |= texts.str.contains(mark, literal=True)
    places = suspects.arg_true()
    rows = places.filter(texts.gather(places).str.contains(HINT))
    return texts if rows.is_empty() else texts.clone().scatter(rows, [Folded(t).text for t in texts.gather(rows)])


def _plain(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "entity":
        decoded = html.unescape(html.unescape(match[0]))
        return decoded if decoded == match[0] else _ODD.sub(_plain, decoded)
    return _letter(match[0]) if kind == "letter" else _PLAIN[kind]


def _letter(written: str) -> str:
    """One letter, digit or mark with its combining marks; marks that fit no letter are dropped."""
    visible = _DROPPED.sub(lambda match: match[0] if unicodedata.combining(match[0]) else "", written)
    plain = unicodedata.normalize("NFKC" if re.match(f"[{_WIDE}]", visible) else "NFC", visible)
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)
    return _DROPPED.sub("", digits)
