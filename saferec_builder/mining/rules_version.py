"""The name of a set of rules, made of what they say and of what they rest on, wherever in the code they stand.

What went through rules of another name is read again, which takes hours for Reddit's dumps. So a name holds what the
rules answer on the texts of samples/, and their patterns and word lists, which may answer otherwise on a text that is
not there. A comment, a file that moved or a function of another name changes nothing.

Whoever changes a rule adds texts on which it answers otherwise. Whoever only adds texts, or writes a pattern otherwise
that finds the same, puts the new name into SAME: nobody reads anything again for that.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from saferec_builder.storage.schema import digest

_SAMPLES = Path(__file__).with_name("samples")

# name that rules have now -> name that the very same rules had when workspaces were mined with them
SAME = {
    "8872c9aa4341fc86": "ab4db975678e99c6",  # the rules for distress and for letters
}


def samples(name: str) -> dict[str, Any]:
    """Invented texts, by what they are for, on which rules are asked for their answers."""
    return tomllib.loads((_SAMPLES / f"{name}.toml").read_text(encoding="utf-8"))


def named(answers: object, *parts: Mapping[str, object]) -> str:
    """16 hex digits for rules that give these answers; `parts` are the variables of the modules that hold them."""
    made = digest(answers, _data(parts))
    return SAME.get(made, made)


def _data(parts: Iterable[Mapping[str, object]]) -> list[str]:
    """Every pattern, text and list of words once, wherever it stands; a piece of a pattern counts in the pattern."""
    values = [value for part in parts for name, value in part.items() if not name.startswith("__")]
    found = {text for value in values for text in _texts(value)}
    return sorted(text for text in found if not any(text in other for other in found if other != text))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, re.Pattern):
        yield f"{value.pattern}\n{int(value.flags)}"
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(one, str) for one in value):
            yield "\n".join(value if isinstance(value, list | tuple) else sorted(value))
        else:
            for one in value:
                yield from _texts(one)
