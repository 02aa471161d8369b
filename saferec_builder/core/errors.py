"""The errors of each boundary, which the command line prints in one line; any other exception is a bug."""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST = 1_500  # characters of a message


class SafeRecError(Exception):
    """One line that says where the problem is, what was found, what was expected and what to do next.

    A message of more than MOST characters, for example one that quotes what was found, loses its middle.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= MOST else f"{text[: MOST // 2]} … {text[-MOST // 2 :]}"


class UsageError(SafeRecError):
    """The user asked for something impossible: an unknown trait, a missing file, a taken version."""


class SourceError(SafeRecError):
    """A file from outside is not what its adapter reads."""


class StoreError(SafeRecError):
    """The workspace itself is damaged or of another schema."""


class ProposerError(SafeRecError):
    """A model server refuses or does not keep the contract."""


class ReviewError(SafeRecError):
    """A review tool or a returned review file does not fit what was pushed."""


class ReleaseError(SafeRecError):
    """A check stops a release, or a release is not what its manifest says."""


class HubError(SafeRecError):
    """The Hub refused, or does not hold what was sent."""


class TrainingError(SafeRecError):
    """A release, model or answer file that training cannot use."""


class KeyTwice(ValueError):
    """A JSON object has the same key twice; programs differ in which of the two values they take."""


def near(word: str, allowed: Iterable[str]) -> str:
    """The end of a message that refuses `word`: the most similar of the allowed names, if any, and all of them."""
    names = list(allowed)
    close = get_close_matches(word.strip().lower().replace(" ", "_"), names, 1)
    return f"{f'did you mean {close[0]}? ' if close else ''}expected one of {', '.join(names)}"


def strict_json(text: str | bytes) -> Any:
    """`json.loads` that raises KeyTwice for a repeated key; all JSON but the dumps of Reddit is read with it."""
    return json.loads(text, object_pairs_hook=_fields_of)


def _fields_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, n in counts.items() if n > 1)
        raise KeyTwice(f"the key {repeated[:60]!r} comes twice in one object")
    return fields


def fault_of(text: str | bytes) -> str | None:
    """Why `strict_json` refuses a text that pydantic accepted (it keeps the last of repeated keys), or None."""
    try:
        strict_json(text)
    except (ValueError, RecursionError) as fault:
        return str(fault)
    return None


def whole_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a small file or answer; None where it holds anything else or is damaged."""
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or nested too deeply
        return None
    return value if isinstance(value, dict) else None


def is_utf8(text: str) -> bool:
    """Whether the text has no lone surrogate, which no table, address or page could hold."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def plain(text: str) -> str:
    """Outside text that is safe to show on a page or terminal: each unsafe character becomes �, so its length stays."""
    return "".join("\ufffd" if _is_unsafe(c) else c for c in text)


def line(text: str) -> str:
    """Text from outside as one line of a terminal, without control characters and line breaks."""
    return plain(" ".join(text.splitlines()))


def _is_unsafe(char: str) -> bool:
    """Whether it is a control, a lone surrogate, or a mark that turns text around (joiners are part of letters)."""
    turns_text = char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return turns_text or (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t")
