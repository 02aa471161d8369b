"""Progress bars as a program may pass them in, and a clock on which each step takes long."""

import itertools
from collections.abc import Callable
from functools import partial
from threading import TIMEOUT_MAX

import pytest

from saferec_builder.core import progress as lines


class Bar:
    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.steps: list[int] = []  # size of each update

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1) -> None:
        self.done += n
        self.steps.append(n)


def drawn(bars: list[Bar]) -> Callable[[int], Bar]:
    """A function that makes a bar and adds it to `bars`."""

    def progress(total: int) -> Bar:
        bars.append(Bar(total))
        return bars[-1]

    return progress


def steps_take(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock that the progress lines of a log use is `seconds` after the one before. What tells by
    the real clock that a step is at work says nothing: on a busy machine it would come between these lines."""
    monkeypatch.setattr(lines, "PATIENCE", TIMEOUT_MAX)
    monkeypatch.setattr(lines, "monotonic", partial(next, itertools.count(0.0, seconds)))
