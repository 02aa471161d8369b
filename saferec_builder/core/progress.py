"""How a long step shows where it stands without printing: whoever calls it hands in what draws the bar, or says it."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread
from time import monotonic, perf_counter
from typing import Protocol, Self, TypeVar

T = TypeVar("T")

FIRST, EVERY = 3.0, 20.0  # seconds until the first line in a log, and between two lines
PATIENCE = 3.0  # seconds until a step of which nothing is done or counted says that it is at work


class Bar(Protocol):
    """A progress bar, such as tqdm's."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *fault: object) -> object: ...
    def update(self, n: int = 1, /) -> object: ...


Progress = Callable[[int], Bar]  # how many steps there are -> their bar
Named = Callable[[str, str], Progress | None]  # a part's name, what its steps are (one of them) -> how it is shown


class _Unseen:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1, /) -> None: ...


class Lines(_Unseen):
    """A bar for a log: of how many steps how many are done, and the time left as the steps so far took it.

    Nothing is said before FIRST seconds, nor when less is left, and then a line each EVERY seconds at most. done: steps
    that an earlier run did. Until the first of them is done, it says that it is at work.
    """

    def __init__(self, say: Callable[[str], object], name: str, unit: str, total: int, done: int = 0) -> None:
        self._say, self._name, self._unit, self._total = say, name, unit, total
        self._before = self._done = done
        self._began = monotonic()
        self._due = self._began + FIRST
        self._first = ExitStack()

    def __enter__(self) -> Self:
        self._first.enter_context(at_work(self._say, self._name))
        return self

    def __exit__(self, *fault: object) -> None:
        self._first.close()

    def update(self, n: int = 1, /) -> None:
        self._first.close()
        self._done += n
        now, done = monotonic(), self._done - self._before
        left = (now - self._began) / max(done, 1) * (self._total - self._done)
        if now >= self._due and left >= FIRST:
            self._due = now + EVERY
            of = f"{self._done:,} of {self._total:,} {self._unit}s"
            self._say(f"{self._name}: {of}, about {_rounded(left)} left")


@contextmanager
def at_work(say: Callable[[str], object], name: str) -> Iterator[None]:
    """Says of a step that counts nothing how long it has been at work: after PATIENCE seconds, then each EVERY."""
    over, began = Event(), perf_counter()

    def tell() -> None:
        wait = PATIENCE
        while not over.wait(wait):
            say(f"{name}: at work for {_rounded(perf_counter() - began)}")
            wait = EVERY

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def lines(say: Callable[[str], object], name: str, unit: str) -> Progress:
    """Shows steps as Lines."""
    return partial(Lines, say, name, unit)


def _rounded(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in ((1, "s"), (60, "min")) if seconds < 100 * size), (3600, "h"))
    return f"{math.ceil(seconds / size)} {unit}"


def shown(total: int, progress: Progress | None) -> Bar:
    """The bar of so many steps, for steps that are not alike; without `progress` one that nobody sees."""
    return progress(total) if progress else _Unseen()


def silent(name: str, unit: str) -> None:
    """A part that nobody is shown."""


def counted(steps: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """The steps one by one, each on the bar once it is done; without `progress` nothing is shown."""
    if progress is None:
        yield from steps
        return
    with progress(len(steps)) as bar:
        for step in steps:
            yield step
            bar.update()
