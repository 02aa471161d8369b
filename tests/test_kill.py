"""Killed at any moment and run again, every command leaves the tables of an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import line

KILLS = 12 if os.environ.get("SAFEREC_SOAK") else 3  # per command


@pytest.mark.slow
def test_killing_any_command_changes_nothing(tmp_path: Path, injected: Callable[[str, int], None]) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    truth = line.prepare(calm, 120)
    line.prepare(disturbed, 120)
    _ = line.store.open_workspace(calm).secret
    shutil.copy(calm / ".secret", disturbed / ".secret")  # the same pseudonyms in both
    rng, killed = random.Random(11), 0
    for quiet, loud in zip(line.steps(calm), line.steps(disturbed), strict=True):
        if isinstance(quiet, tuple):
            line.fill(calm, quiet, truth)
            line.fill(disturbed, quiet, truth)
            continue
        assert isinstance(loud, list)
        start = time.perf_counter()
        line.run(calm, quiet)
        whole = time.perf_counter() - start
        for _ in range(KILLS):
            killed += _kill(disturbed, loud, rng.uniform(0.3, 1.0) * whole)
        line.run(disturbed, loud)
    ours, theirs = line.contents(disturbed), line.contents(calm)
    assert {name for name, frame in ours.items() if not frame.equals(theirs[name])} == set()
    assert line.files(disturbed / "releases") == line.files(calm / "releases")
    assert line.files(disturbed / "published") == line.files(calm / "published")
    assert killed >= 5 * KILLS  # most of the thirteen times KILLS met a living process
    injected("kills of a command", killed)


def _kill(folder: Path, words: list[str], after: float) -> bool:
    process = subprocess.Popen(
        [line.TOOL, *words, "-C", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
