"""Progress of long steps, without printing: the caller passes in what draws a bar or logs a line."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread
from time import monotonic, perf_counter
from typing import Protocol, Self, TypeVar

T = TypeVar("T")

_OPEN: list[object] = []  # what shows its progress now, innermost last: only that one speaks
FIRST, EVERY = 3.0, 15.0  # seconds until the first line in a log, and between two lines
PATIENCE = 3.0  # seconds until a step that has counted nothing yet reports that it is at work
_LAST = [0.0]  # when the last line was logged, whoever did it


class Bar(Protocol):
    """A progress bar, such as tqdm's."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *fault: object) -> object: ...
    def update(self, n: int = 1, /) -> object: ...


Progress = Callable[[int], Bar]  # number of steps -> their bar
Named = Callable[[str, str], Progress | None]  # (name of a part, unit of a step, singular) -> its progress


class _Unseen:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1, /) -> None: ...


class Lines(_Unseen):
    """A bar for a log: lines with the number of steps done, the total, and the time left at the speed so far.

    Logs nothing before FIRST seconds or when less is left, and then a line per EVERY seconds: where no step ends in
    them, that it is at work. done: steps that an earlier run did. at_once: how many steps run at the same time, if any
    do: until two rounds or a tenth of all are done, no time is logged.
    """

    def __init__(
        self, say: Callable[[str], object], name: str, unit: str, total: int, done: int = 0, *, at_once: int = 0
    ) -> None:
        self._say, self._name, self._unit, self._total = say, name, unit, total
        self._earlier = self._done = done
        self._asked = False
        self._enough = min(2 * at_once, (total - done) // 10)
        self._began = monotonic()
        self._due = self._began + FIRST
        self._start = ExitStack()

    def __enter__(self) -> Self:
        self._start.enter_context(at_work(self._say, self._name, self._so_far))
        return self

    def __exit__(self, *fault: object) -> None:
        self._start.close()

    def _so_far(self) -> str | None:
        """What is done, to say with how long it is at work; None if it has just begun, and steps are being done."""
        has_begun, self._asked = self._asked, True
        if self._done == self._earlier:
            return ""
        if not has_begun:
            return None
        self._due = monotonic() + EVERY
        return f"{self._done:,} of {self._total:,} {self._unit}s, "

    def update(self, n: int = 1, /) -> None:
        self._done += n
        now, done = monotonic(), self._done - self._earlier
        remaining = (now - self._began) / max(done, 1) * (self._total - self._done)
        if now >= self._due and remaining >= FIRST:
            self._due = now + EVERY
            left = f", about {_rounded(remaining)} left" if done >= self._enough else ""
            _log(self._say, f"{self._name}: {self._done:,} of {self._total:,} {self._unit}s{left}")


@contextmanager
def innermost() -> Iterator[Callable[[], bool]]:
    """Until it ends, what was begun before says nothing; gives a function that tells whether nothing began in it."""
    mark = object()
    _OPEN.append(mark)
    try:
        yield lambda: _OPEN[-1] is mark
    finally:
        _OPEN.remove(mark)


def _log(say: Callable[[str], object], line: str) -> None:
    say(line)
    _LAST[0] = perf_counter()


@contextmanager
def at_work(say: Callable[[str], object], name: str, so_far: Callable[[], str | None] = lambda: "") -> Iterator[None]:
    """Reports how long a step has been at work: after PATIENCE seconds, then EVERY seconds after the last line, be it
    of a part of the step. so_far: what is done, or None to say nothing this time."""
    finished, start = Event(), perf_counter()

    def report() -> None:
        wait = PATIENCE
        while not finished.wait(wait):
            now, wait = perf_counter(), EVERY
            if not is_innermost():
                wait = min(EVERY, 1.0)  # it may be the innermost again at any time
            elif now < _LAST[0] + EVERY and _LAST[0] > start:
                wait = _LAST[0] + EVERY - now
            elif (done := so_far()) is not None:
                _log(say, f"{name}: {done}at work for {_rounded(now - start)}")

    thread = Thread(target=report, daemon=True)
    with innermost() as is_innermost:
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()


def lines(say: Callable[[str], object], name: str, unit: str, at_once: int = 0) -> Progress:
    """A Progress that logs Lines."""
    return partial(Lines, say, name, unit, at_once=at_once)


def _rounded(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in ((1, "s"), (60, "min")) if seconds < 100 * size), (3600, "h"))
    return f"{math.ceil(seconds / size)} {unit}"


def shown(total: int, progress: Progress | None) -> Bar:
    """The bar for `total` steps, which the caller counts itself; without `progress` it shows nothing."""
    return progress(total) if progress else _Unseen()


def silent(name: str, unit: str) -> None:
    """A Named that shows nothing."""


def counted(steps: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Yields the steps and moves the bar after each; without `progress` it shows nothing."""
    with shown(len(steps), progress) as bar:
        for step in steps:
            yield step
            bar.update()
