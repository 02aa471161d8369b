"""Splits a text into words in their normal form, with their positions, to match titles."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from saferec_builder.core import titles

_WORD = re.compile(r"#?[^\W_]+(?:['’`´][^\W_]+)*|&|(?<=\s)\+(?=\s)")
_TYPED = tuple(zip("’‘“”…–—", "'" + 6 * " ", strict=True))  # marks that phones use instead of plain ones
_LOOK, _SPACE = 0, 32  # marks that may be part of a word, and others
_FOLDED = bytes(
    _LOOK if chr(n) in "#&+`" else ord(chr(n).lower()) if n < 128 and chr(n).isalnum() else _SPACE for n in range(256)
)


@dataclass(frozen=True)
class Text:
    """Words in their normal form; build with `as_words`."""

    raw: str
    words: list[str]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The position of each word: computed only where a title is possible."""
        raw = self.raw
        return [word.span() for word in _WORD.finditer(raw) if raw.isascii() or _plain(word[0])]

    @cached_property
    def lower(self) -> bool:
        """The writer uses no capitals, except perhaps for "I" and the first letter: then case says nothing."""
        return not any(self.raw[s].isupper() and self.words[n] != "i" for n, (s, _) in enumerate(self.spans) if n)

    @cached_property
    def upper(self) -> bool:
        return self.raw.isupper()


def as_words(text: str) -> Text:
    words = _at_once(text)
    if words is None:
        words = [plain for plain in map(_plain, _WORD.findall(text)) if plain]
    return Text(text, titles.counted(words))


def _at_once(text: str) -> list[str] | None:
    """The words of a text in plain letters, many times as fast as word by word; None if it needs a closer look."""
    if not text.isascii():
        for mark, plain in _TYPED:
            text = text.replace(mark, plain)
    if "''" in text or not text.isascii():
        return None
    folded = text.encode().translate(_FOLDED, b"'")
    return None if _LOOK in folded else folded.decode().split()


@lru_cache(maxsize=65536)
def _plain(word: str) -> str:
    if word in ("&", "+"):
        return "and"
    return word.lower().replace("'", "").replace("`", "") if word.isascii() else titles.normal(word)
