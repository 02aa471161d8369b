"""How steps that take a while show where they stand, on stderr: a bar, or where it is no terminal a line at times."""

import sys
import time
from typing import Self

from tqdm import tqdm

from saferec_builder.core.progress import Bar, Progress

EVERY = 20.0  # seconds between two lines in a log


def bar(name: str, unit: str) -> Progress:
    def made(total: int) -> Bar:
        if not sys.stderr.isatty():
            return _Lines(name, unit, total)
        drawn: Bar = tqdm(total=total, desc=name, unit=unit)
        return drawn

    return made


class _Lines:
    """Nothing of what is done within EVERY seconds: a log that is read later needs no more than what took long."""

    def __init__(self, name: str, unit: str, total: int) -> None:
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1, /) -> None:
        self._done += n
        now = time.monotonic()
        if now - self._told >= EVERY and self._done < self._total:
            self._told = now
            of = f"{self._done:,} of {self._total:,} {self._unit}s"
            print(f"{self._name}: {of} after {now - self._began:.0f} s", file=sys.stderr, flush=True)
