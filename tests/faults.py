"""How many faults a run of the tests injected: each campaign says its number, the last lines say them all and the sum.

A number counts when its test has passed: nothing lost, nothing twice, no broken state, no traceback.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.calm import calm

__all__ = ["calm", "injected", "pytest_terminal_summary"]

SURVIVED = pytest.StashKey[Counter[str]]()


@pytest.fixture
def injected(request: pytest.FixtureRequest) -> Iterator[Callable[[str, int], None]]:
    """injected("kills of a command", 36), at the end of a test."""
    mine = Counter[str]()
    yield lambda what, number: mine.update({what: number})
    request.config.stash.setdefault(SURVIVED, Counter()).update(mine)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = terminalreporter.config.stash.get(SURVIVED, Counter[str]())
    if told:
        terminalreporter.section("faults injected")
        for what, number in sorted(told.items()):
            terminalreporter.write_line(f"{number:>7,}  {what}")
        lost = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
        held = "all survived: no row lost or doubled, no traceback" if not lost else f"{lost} TESTS FAILED"
        terminalreporter.write_line(f"{told.total():>7,}  in all; {held}")
