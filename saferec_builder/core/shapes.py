"""What stood in a file where something else was expected, without a word of it: it may be what somebody said, in the
wrong column."""

import re
from collections.abc import Iterable


def shape(text: str) -> str:
    """What a value looks like: letters as x, digits as 9."""
    return re.sub(r"\d", "9", re.sub(r"[^\W\d_]", "x", text))[:40]


def seen(text: str) -> str:
    """`found 'xxx 99'`, and how to read it: it looks like what the file holds, and is not."""
    return f"found something like {shape(text)!r} (x: a letter, 9: a digit)"


def field_names(names: Iterable[str]) -> str:
    """The names of an object's fields; those that no field would have are only counted."""
    found = [*names]
    known = [name for name in found if re.fullmatch(r"[A-Za-z_][\w.-]{0,29}", name)]
    others = [f"{n} more"] if (n := len(found) - len(known)) else []
    return ", ".join([*known, *others])
