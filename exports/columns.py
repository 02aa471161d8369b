"""Reads the meaning of each column of a release from columns.toml, for croissant.json and docs/release-format.md."""

import tomllib
from functools import lru_cache
from pathlib import Path

EVERY = "every"  # the table of columns that several configs share


@lru_cache(maxsize=1)
def _meanings() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))


def meaning(config: str, column: str) -> str:
    """Returns one sentence without a full stop; raises KeyError if there is none."""
    meanings = _meanings()[config]
    return meanings[column] if column in meanings else _meanings()[EVERY][column]
