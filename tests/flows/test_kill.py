"""Every command that is killed at any moment and run again leaves the tables of an undisturbed run."""

import random
import signal
from pathlib import Path

import pytest

from tests.conftest import Injected
from tests.worlds import calm as world

KILLS = 12 if world.SOAK else 2  # per command


@pytest.mark.slow
def test_killing_any_command_changes_nothing(calm: list[world.Step], tmp_path: Path, injected: Injected) -> None:
    rng, killed = random.Random(11), 0
    for step in calm:
        folder = step.before(tmp_path / "ws")
        for _ in range(KILLS):
            process = world.start(step.words(folder))
            if world.far(process, rng.uniform(0.3, 1.0) * step.seconds):
                process.send_signal(signal.SIGKILL)
            killed += world.end(process).code == 128 + signal.SIGKILL
        step.completes(folder)
    assert killed >= 5 * KILLS  # most of the 13 * KILLS kills hit a living process
    injected("kills of a command", killed)
