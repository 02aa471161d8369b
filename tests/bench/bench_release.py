"""Costs of a release: writing against a bare pyarrow write of the same rows, each check, the total, and memory.

ROWS conversations (SAFEREC_BENCH_ROWS, default 1,000,000) of about 640 bytes of request over 7,000 films, each labelled
for one trait. The release runs in its own process, whose peak memory is read at its end.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.figures import figure

ROWS = int(os.environ.get("SAFEREC_BENCH_ROWS", "1000000"))


def main() -> None:
    from tests.bench import release_costs

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        release_costs.fill(root, ROWS)
        process = subprocess.run(
            [sys.executable, "-m", "tests.bench.bench_release", str(root)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        costs = json.loads(process.stdout.splitlines()[-1])
        bare = release_costs.bare(root / "releases" / "1.0.0", root / "bare")
    figure("release.write_over_pyarrow", costs["write"] / bare, "ratio", "<= 1.5")
    figure("release.whole_over_pyarrow", costs["whole"] / bare, "ratio", "<= 10")
    figure("release.peak_memory", costs["memory"], "GB", "< 3")
    for name, seconds in costs["checks"].items():
        figure(f"release.{name}_per_1M", seconds / ROWS * 1e6, "CPU-s", "printed")
    with tempfile.TemporaryDirectory() as folder:
        release_costs.reupload(Path(folder), min(ROWS, 400_000))


def measured(root: Path) -> dict[str, Any]:
    """CPU seconds of a whole release in this process, of its parts, and its peak memory."""
    from exports import assemble, build_rows, checks, release, target_lists as targets
    from saferec_builder import catalog
    from saferec_builder.mining import splits
    from saferec_builder.storage.workspace import Workspace

    seconds: dict[str, float] = {}

    def timed(module: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def run(*words: Any, **more: Any) -> Any:
            start = time.process_time()
            try:
                return real(*words, **more)
            finally:
                seconds[name] = seconds.get(name, 0.0) + time.process_time() - start

        setattr(module, name, run)

    for name in ("check_labels", "check_leaks", "without_repeated_answers", "check_personal", "small_groups"):
        timed(checks, name)
    for module, name in ((build_rows, "build"), (targets, "candidates"), (targets, "fill"), (splits, "assign")):
        timed(module, name)
    for name in ("merge", "link"):
        timed(catalog, name)
    start = time.process_time()
    ws = Workspace.open(root)
    assembled = assemble.assemble(ws, assemble.Options("1.0.0"))
    assembled_at = time.process_time()
    release._freeze(ws, assembled)
    end = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"whole": end - start, "write": end - assembled_at, "memory": memory, "checks": seconds}


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]))))
