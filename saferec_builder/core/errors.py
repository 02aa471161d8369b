"""What can go wrong at each boundary; the command line prints these in one line, everything else is a bug.

SafeRecError
+- UsageError      the person asked for something that cannot be: an unknown trait, a missing file, a taken version
+- SourceError     a file from outside is not what its adapter reads
+- StoreError      the workspace itself is damaged or of another schema
+- ProposerError   a model server refuses or does not keep the contract
+- ReviewError     a review tool or a returned review file does not fit what was pushed
+- ReleaseError    a check stops a release, or a release is not what its manifest says
+- HubError        the Hub refused, or does not hold what was sent
+- TrainingError   a release, model or answer file that training cannot use
"""

import json
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST = 1_500  # characters of a line


class SafeRecError(Exception):
    """Says where, what was found, what was expected and what to do next, in one line.

    Of a line without end, such as one that repeats what it found, the middle is left out.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= MOST else f"{text[: MOST // 2]} … {text[-MOST // 2 :]}"


class UsageError(SafeRecError):
    pass


class SourceError(SafeRecError):
    pass


class StoreError(SafeRecError):
    pass


class ProposerError(SafeRecError):
    pass


class ReviewError(SafeRecError):
    pass


class ReleaseError(SafeRecError):
    pass


class HubError(SafeRecError):
    pass


class TrainingError(SafeRecError):
    pass


class KeyTwice(ValueError):
    """A JSON object names a key twice: which of the two values counts, every program decides for itself."""


def near(word: str, known: Iterable[str]) -> str:
    """How a message ends that refuses a word: with the one that is spelt nearly so, if any, and all that there are."""
    names = list(known)
    close = get_close_matches(word.strip().lower().replace(" ", "_"), names, 1)
    return f"{f'did you mean {close[0]}? ' if close else ''}expected one of {', '.join(names)}"


def strict_json(text: str | bytes) -> Any:
    """`json.loads` for all JSON that is read here, but for the dumps of Reddit: no key may come twice in an object."""
    return json.loads(text, object_pairs_hook=_once_each)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise KeyTwice(f"the key {twice[:60]!r} comes twice in one object")
    return found


def fault_of(text: str | bytes) -> str | None:
    """Why `strict_json` refuses what pydantic's own reader has taken (of a key that comes twice it keeps the last)."""
    try:
        strict_json(text)
    except (ValueError, RecursionError) as fault:
        return str(fault)
    return None


def whole_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a small file or answer holds; None where it holds none, however it is damaged."""
    try:
        found = strict_json(text)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, brackets without end
        return None
    return found if isinstance(found, dict) else None


def is_utf8(text: str) -> bool:
    """Whether no half of a surrogate pair is in it, which no table, address or page could hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(text: str) -> str:
    """Outside text as a page or a terminal may show it, as long as before: what is not meant to be seen is �."""
    return "".join("\ufffd" if _strange(c) else c for c in text)


def _strange(char: str) -> bool:
    """Controls, halves of characters, and marks that turn the direction of what follows (joiners are letters' own)."""
    turns = char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return turns or (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t")
