"""Counts of the rows of a command: in = out + dropped, out = added + skipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from saferec_builder.core.json_value import JsonValue


@dataclass(frozen=True)
class Counts:
    """The rows that a command added, skipped and dropped (by reason), and the command's own figures."""

    command: str
    added: int = 0
    skipped: int = 0  # already there, nothing was done for them
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> rows
    figures: Mapping[str, JsonValue] = field(default_factory=dict)
    # reason or figure -> an example: its place, what was found; a list has several, and what to do about them
    examples: Mapping[str, str | list[str]] = field(default_factory=dict)

    @property
    def out(self) -> int:
        return self.added + self.skipped

    @property
    def came(self) -> int:
        return self.out + sum(self.dropped.values())


def many(n: int, singular: str, plural: str) -> str:
    """The number with the form that fits it: `1 task waits`, `2,000 tasks wait`."""
    return f"{n:,} {singular if n == 1 else plural}"
