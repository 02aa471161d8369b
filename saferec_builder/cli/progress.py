"""Progress of long steps on stderr: a bar, or a line at times if stderr is no terminal."""

import sys
from contextlib import ExitStack
from functools import partial
from typing import Self

import typer
from tqdm import tqdm

from saferec_builder.core.progress import Progress, innermost, lines


class _Drawn:
    """A bar on a terminal; while it is there, nothing else says that it is at work."""

    def __init__(self, name: str, unit: str, total: int) -> None:
        self._bar, self._open = tqdm(total=total, desc=name, unit=unit), ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(innermost())
        self._open.enter_context(self._bar)
        return self

    def __exit__(self, *fault: object) -> None:
        self._open.close()

    def update(self, n: int = 1, /) -> None:
        self._bar.update(n)


def bar(name: str, unit: str, at_once: int = 0) -> Progress:
    drawn = partial(_Drawn, name, unit)
    return drawn if sys.stderr.isatty() else lines(partial(typer.echo, err=True), name, unit, at_once)
