"""Finds JSON in an answer: alone, fenced, between sentences, one object per line, or cut off before its end."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue

# an unclosed string ends with its line; because every quote opens a string, the search stays linear
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[\[\]{}]')
# text before JSON on its line: nothing, a fence, "Here they are:", or the rest of truncated JSON; no bullet
_BEFORE = re.compile(r"[\s\[{,]*(?:```\w*\s*)?(?:[A-Za-z\"][^\n]*[:=][\s\[{,]*)?")
LEAD = 200  # at most so many characters before it
_NEXT = re.compile(r"[, \t]*")
_LINK = re.compile(r"[^\S\n]*\(")  # "[...](address)"
_CLOSES = {"]": "[", "}": "{"}


class Found(NamedTuple):
    """An array or object, and its position in the text."""

    start: int
    end: int
    value: JsonValue


class _Span(NamedTuple):
    start: int
    end: int
    within: "list[_Span]"


def found(text: str) -> list[Found]:
    """The arrays and objects of a text in order, none inside another. Raises KeyTwice."""
    return list(_read(text, _spans(text), 0)) if '"' in text else []


def replaced(text: str, by: Callable[[JsonValue], str]) -> str:
    """The text with each array and object replaced by the result of `by`. Raises KeyTwice."""
    parts, end = [], 0
    for match in found(text):
        parts += [text[end : match.start], by(match.value)]
        end = match.end
    return "".join([*parts, text[end:]])


def _spans(text: str) -> list[_Span]:
    """The outermost spans between matching brackets, each with the spans within it."""
    opened: list[tuple[int, list[_Span]]] = [(-1, [])]
    for token in _TOKEN.finditer(text):
        bracket = token[0]
        if bracket in "[{":
            opened.append((token.start(), []))
        elif bracket in _CLOSES and len(opened) > 1 and text[opened[-1][0]] == _CLOSES[bracket]:
            start, within = opened.pop()
            opened[-1][1].append(_Span(start, token.end(), within))
    return [span for _, within in opened for span in within]


def _read(text: str, spans: Iterable[_Span], depth: int) -> Iterator[Found]:
    """The spans that are JSON; for one that is not (a comment, an extra comma), those within it."""
    end = 0
    for span in spans:
        line = text.rfind("\n", 0, span.start) + 1
        may_begin = _NEXT.fullmatch(text, end, span.start) or (
            span.start - line <= LEAD and _BEFORE.fullmatch(text, line, span.start)
        )
        if not (depth or may_begin) or _LINK.match(text, span.end):
            continue
        end = span.end
        try:
            yield Found(span.start, span.end, strict_json(text[span.start : span.end]))
        except KeyTwice:
            raise
        except (ValueError, RecursionError):
            if not depth:
                yield from _read(text, span.within, 1)
