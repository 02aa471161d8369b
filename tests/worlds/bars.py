"""What a program may hand in to show progress."""

from collections.abc import Callable


class Bar:
    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *fault: object) -> None: ...

    def update(self, n: int = 1) -> None:
        self.done += n


def drawn(bars: list[Bar]) -> Callable[[int], Bar]:
    """Each bar that is asked for is noted in `bars`."""

    def progress(total: int) -> Bar:
        bars.append(Bar(total))
        return bars[-1]

    return progress
