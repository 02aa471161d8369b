"""Reads the meaning of each column of a release from columns.toml, for croissant.json and docs/release-format.md."""

import tomllib
from pathlib import Path

EVERY = "every"  # the table of columns that several configs share
_MEANINGS = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))


def meaning(config: str, column: str) -> str:
    """Returns one sentence without a full stop; raises KeyError if there is none."""
    meanings: dict[str, str] = _MEANINGS[EVERY] | _MEANINGS[config]
    return meanings[column]
