"""Finds JSON in an answer: alone, fenced, between sentences, one object a line, or cut off before its end."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue

# a string without an end ends with its line: that any quote begins one keeps the search linear
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[\[\]{}]')
# before it on its line: nothing, a fence, "Here they are:", or what is left of JSON that was cut off; no bullet
_BEFORE = re.compile(r"[\s\[{,]*(?:```\w*\s*)?(?:[A-Za-z\"][^\n]*[:=][\s\[{,]*)?")
LEAD = 200  # characters of that
_NEXT = re.compile(r"[, \t]*")
_LINK = re.compile(r"[^\S\n]*\(")  # "[...](address)"
_CLOSES = {"]": "[", "}": "{"}


class Found(NamedTuple):
    """An array or object, and where it stands in the text."""

    start: int
    end: int
    value: JsonValue


class _Span(NamedTuple):
    start: int
    end: int
    within: "list[_Span]"


def found(text: str) -> list[Found]:
    """The arrays and objects of a text in their order, none within another. Raises KeyTwice."""
    return list(_read(text, _spans(text), 0)) if '"' in text else []


def replaced(text: str, by: Callable[[JsonValue], str]) -> str:
    """The text with something else in the place of each array and object. Raises KeyTwice."""
    parts, at = [], 0
    for one in found(text):
        parts += [text[at : one.start], by(one.value)]
        at = one.end
    return "".join([*parts, text[at:]])


def _spans(text: str) -> list[_Span]:
    """What stands between brackets that belong together, the outermost of it."""
    opened: list[tuple[int, list[_Span]]] = [(-1, [])]
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "[{":
            opened.append((token.start(), []))
        elif sign in _CLOSES and len(opened) > 1 and text[opened[-1][0]] == _CLOSES[sign]:
            start, within = opened.pop()
            opened[-1][1].append(_Span(start, token.end(), within))
    return [span for _, within in opened for span in within]


def _read(text: str, spans: Iterable[_Span], depth: int) -> Iterator[Found]:
    """Those that are JSON; of one that is not (a comment, a comma too many) what stands in it."""
    end = 0
    for span in spans:
        line = text.rfind("\n", 0, span.start) + 1
        begins = _NEXT.fullmatch(text, end, span.start) or (
            span.start - line <= LEAD and _BEFORE.fullmatch(text, line, span.start)
        )
        if not (depth or begins) or _LINK.match(text, span.end):
            continue
        end = span.end
        try:
            yield Found(span.start, span.end, strict_json(text[span.start : span.end]))
        except KeyTwice:
            raise
        except (ValueError, RecursionError):
            if not depth:
                yield from _read(text, span.within, 1)
