"""How a long run shows where it stands: whoever calls it hands in what draws the bar."""

from collections.abc import Callable
from typing import Protocol, Self


class Bar(Protocol):
    """A progress bar, such as tqdm's."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *fault: object) -> object: ...
    def update(self, n: int, /) -> object: ...


Progress = Callable[[int], Bar]  # how many there are to do -> its bar
