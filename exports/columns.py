"""What each column of a release means: columns.toml, for croissant.json and docs/release-format.md."""

import tomllib
from functools import lru_cache
from pathlib import Path

EVERY = "every"  # the table of what several configs share


@lru_cache(maxsize=1)
def _written() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))


def meaning(config: str, column: str) -> str:
    """One sentence without a full stop; KeyError where nobody has written one."""
    own = _written()[config]
    return own[column] if column in own else _written()[EVERY][column]
