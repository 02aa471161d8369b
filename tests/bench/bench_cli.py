"""How long a person waits for `saferec-build --help`: seconds of wall."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figures import figure


def main() -> None:
    tool = str(Path(sys.executable).with_name("saferec-build"))
    figure("cli.help_seconds", wall([tool, "--help"]), "s", "< 0.5")


def wall(command: list[str], runs: int = 7) -> float:
    """Median wall seconds of a command."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
