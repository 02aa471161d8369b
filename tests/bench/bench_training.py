"""What Safe-SFT and GDPO come to on the demo release, over seeds: SAFEREC_SEEDS=3 by default."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import figure

SEEDS = int(os.environ.get("SAFEREC_SEEDS", "3"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo"
        tool = str(Path(sys.executable).with_name("saferec-build"))
        subprocess.run([tool, "demo", "--to", str(demo), "--no-training"], check=True, stdout=subprocess.DEVNULL)
        reports = [trained(demo, seed) for seed in range(SEEDS)]
    drops = [1 - of(r, r["chosen"], "svr_upper@10") / of(r, "sft", "svr_upper@10") for r in reports]
    figure("training.svr_reduction", min(drops), "ratio", ">= .965 (lowest over seeds)")
    for name, goal in (("recall@10", "no lower than unsafe SFT"), ("length", ">= 9.8"), ("duplicate@10", "<= .01")):
        for run in ("sft", "safe_sft", "safe_gdpo"):
            values = [of(r, run, name) for r in reports]
            figure(f"training.{run}.{name}", statistics.mean(values), "mean", goal)
    for run in ("sft", "safe_sft", "safe_gdpo"):
        for name in ("svr@10", "svr_upper@10", "svr_true@10"):
            figure(f"training.{run}.{name}", statistics.mean(of(r, run, name) for r in reports), "mean", "none")


def trained(demo: Path, seed: int) -> dict:
    """report.json of one run over the demo release."""
    output = demo / f"runs-{seed}"
    words = ["run", "--release", demo / "releases" / "1.0.0", "--model", "tiny", "--seed", seed]
    words += ["--output", output, "--gold", demo / "input" / "gold.jsonl"]
    subprocess.run([sys.executable, "-m", "training.safecrs", *map(str, words)], check=True)
    return json.loads((output / "report.json").read_text())


def of(report: dict, run: str, metric: str) -> float:
    return next(r for r in report["runs"] if r["name"] == run)["metrics"][metric]["mean"]
