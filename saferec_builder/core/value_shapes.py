"""Describes a wrong value of a file without quoting it: it may be somebody's words in the wrong column."""

import re
from collections.abc import Iterable


def shape(text: str) -> str:
    """The shape of a value: letters become x, digits become 9."""
    return re.sub(r"\d", "9", re.sub(r"[^\W\d_]", "x", text))[:40]


def seen(text: str) -> str:
    """The part of a message that shows the shape of a found value, and explains it."""
    return f"found something like {shape(text)!r} (x: a letter, 9: a digit)"


def field_names(names: Iterable[str]) -> str:
    """The names of an object's fields; names that look like text are only counted."""
    fields = [*names]
    plain = [name for name in fields if re.fullmatch(r"[A-Za-z_][\w.-]{0,29}", name)]
    others = [f"{n} more"] if (n := len(fields) - len(plain)) else []
    return ", ".join([*plain, *others])
