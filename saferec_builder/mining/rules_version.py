"""The version of a set of rules: a digest of their answers, patterns and word lists.

Texts that were read under another version are read again, which takes hours for Reddit's dumps. So a version is made of
the rules' answers on the texts of samples/, and of their patterns and word lists, because these may answer differently
on texts that are not there. Comments, moved files and renamed functions do not change it.

If you change a rule, add texts on which its answer changes. If you only add texts, or rewrite a pattern that matches
the same, add the new version to SAME, so that nothing is read again.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from saferec_builder.storage.schema import digest

_SAMPLES = Path(__file__).with_name("samples")

# version of the rules now -> version that the very same rules had when workspaces were mined with them
SAME: dict[str, str] = {}


def samples(name: str) -> dict[str, Any]:
    """Invented texts by purpose; the rules' answers on them make the version."""
    return tomllib.loads((_SAMPLES / f"{name}.toml").read_text(encoding="utf-8"))


def named(answers: object, *parts: Mapping[str, object]) -> str:
    """16 hex digits for rules that give these answers; `parts` are the variables of the modules that hold them."""
    values = [value for part in parts for name, value in part.items() if not name.startswith("__")]
    texts = {text for value in values for text in _texts(value)}  # one that is part of another counts in that
    version = digest(answers, sorted(text for text in texts if not any(text in t for t in texts if t != text)))
    return SAME.get(version, version)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, re.Pattern):
        yield f"{value.pattern}\n{int(value.flags)}"
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(item, str) for item in value):
            yield "\n".join(value if isinstance(value, list | tuple) else sorted(value))
        else:
            for item in value:
                yield from _texts(item)
