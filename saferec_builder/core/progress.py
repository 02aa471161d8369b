"""How a long step says how far it is without printing: the caller hands in what draws a bar."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Bar(Protocol):
    """What tqdm's bars are, as far as a step needs to know."""

    def update(self, n: int = 1) -> object: ...

    def close(self) -> object: ...


Progress = Callable[[int], Bar]  # how many steps there are -> their bar


def counted(steps: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """The steps one by one, each on the bar once it is done; without `progress` nothing is shown."""
    if progress is None:
        yield from steps
        return
    bar = progress(len(steps))
    try:
        for step in steps:
            yield step
            bar.update()
    finally:
        bar.close()
