"""Counts the faults that a test run injected: each campaign reports its number, the last lines print all and the sum.

A number counts if its test passed: nothing lost, nothing twice, no broken state, no traceback.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.calm import calm

__all__ = ["calm", "injected", "pytest_terminal_summary"]

FAULTS = "faults: "  # prefix of the counts in a report's properties: they reach the summary from any process


@pytest.fixture
def injected(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Reports faults at the end of a test: injected("kills of a command", 36)."""
    return lambda what, number: record_property(FAULTS + what, number)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts = Counter[str]()
    for name, number in (
        entry for report in terminalreporter.stats.get("passed", []) for entry in report.user_properties
    ):
        if name.startswith(FAULTS):
            counts[name.removeprefix(FAULTS)] += number
    if counts:
        terminalreporter.section("faults injected")
        for campaign, number in sorted(counts.items()):
            terminalreporter.write_line(f"{number:>7,}  {campaign}")
        lost = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
        outcome = "all survived: no row lost or doubled, no traceback" if not lost else f"{lost} TESTS FAILED"
        terminalreporter.write_line(f"{counts.total():>7,}  in all; {outcome}")
