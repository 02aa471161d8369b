"""How many faults a run of the tests injected: each campaign says its number, the last lines say them all and the sum.

A number counts when its test has passed: nothing lost, nothing twice, no broken state, no traceback.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.calm import calm

__all__ = ["calm", "injected", "pytest_terminal_summary"]

FAULTS = "faults: "  # the property of a test's report that counts them: it reaches the last lines from any process


@pytest.fixture
def injected(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """injected("kills of a command", 36), at the end of a test."""
    return lambda what, number: record_property(FAULTS + what, number)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = Counter[str]()
    for name, number in (one for report in terminalreporter.stats.get("passed", []) for one in report.user_properties):
        if name.startswith(FAULTS):
            told[name.removeprefix(FAULTS)] += number
    if told:
        terminalreporter.section("faults injected")
        for what, number in sorted(told.items()):
            terminalreporter.write_line(f"{number:>7,}  {what}")
        lost = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
        held = "all survived: no row lost or doubled, no traceback" if not lost else f"{lost} TESTS FAILED"
        terminalreporter.write_line(f"{told.total():>7,}  in all; {held}")
