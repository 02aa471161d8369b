"""How a long step shows where it stands without printing: whoever calls it hands in what draws the bar."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

T = TypeVar("T")


class Bar(Protocol):
    """A progress bar, such as tqdm's."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *fault: object) -> object: ...
    def update(self, n: int = 1, /) -> object: ...


Progress = Callable[[int], Bar]  # how many steps there are -> their bar


class _Unseen:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1, /) -> None: ...


def shown(total: int, progress: Progress | None) -> Bar:
    """The bar of so many steps, for steps that are not alike; without `progress` one that nobody sees."""
    return progress(total) if progress else _Unseen()


def counted(steps: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """The steps one by one, each on the bar once it is done; without `progress` nothing is shown."""
    if progress is None:
        yield from steps
        return
    with progress(len(steps)) as bar:
        for step in steps:
            yield step
            bar.update()
