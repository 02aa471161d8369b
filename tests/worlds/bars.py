"""What a program may hand in to show progress; and a clock by which steps take long."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from saferec_builder.core import progress as lines


class Bar:
    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.steps: list[int] = []  # done at once

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1) -> None:
        self.done += n
        self.steps.append(n)


def drawn(bars: list[Bar]) -> Callable[[int], Bar]:
    """Each bar that is asked for is noted in `bars`."""

    def progress(total: int) -> Bar:
        bars.append(Bar(total))
        return bars[-1]

    return progress


def steps_take(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock that lines in a log go by is so much later than the one before."""
    monkeypatch.setattr(lines, "monotonic", partial(next, itertools.count(0.0, seconds)))
