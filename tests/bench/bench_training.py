"""Results of Safe-SFT and GDPO over seeds (SAFEREC_SEEDS=3), on the demo release and on one with more items."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from saferec_builder.scoring.metrics import Floats, columns, judge, per_user
from tests.bench import figures
from tests.bench.figures import figure
from tests.bench.seeds import over_seeds
from training.data import open_release, read_gold, rows, with_gold
from training.evaluation.predictions import read

SEEDS = int(os.environ.get("SAFEREC_SEEDS", "3"))
MODELS = ("sft", "safe_sft", "safe_gdpo")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo, larger = Path(folder) / "demo", Path(folder) / "larger"
        figures.demo(demo)
        larger.mkdir()
        subprocess.run([sys.executable, "-m", "tests.bench.larger_world", str(larger)], check=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each trains on one thread
            futures = {
                name: [pool.submit(trained, world, seed) for seed in range(SEEDS)]
                for name, world in (("training", demo), ("training.larger", larger / "demo"))
            }
        for name, runs in futures.items():
            told(name, [run.result() for run in runs])
            across(name, demo if name == "training" else larger / "demo")


def trained(demo: Path, seed: int) -> dict[str, Any]:
    """The report.json of one run on the demo release."""
    output = demo / f"runs-{seed}"
    args = ["run", "--release", demo / "releases" / "1.0.0", "--model", "tiny", "--seed", seed]
    args += ["--output", output, "--gold", demo / "input" / "gold.jsonl"]
    subprocess.run([sys.executable, "-m", "training.safecrs", *map(str, args)], check=True)
    report: dict[str, Any] = json.loads((output / "report.json").read_text())
    return report


def told(name: str, reports: list[dict[str, Any]]) -> None:
    """The lowest reduction over seeds, its cost, and means with the lowest and highest seed."""
    drops = [1 - of(r, r["chosen"], "svr_upper@10") / of(r, "sft", "svr_upper@10") for r in reports]
    figure(f"{name}.svr_reduction", min(drops), "ratio", ">= .965 (lowest over seeds)")
    for metric, goal in (("recall@10", ">= 0"), ("recall_without@10", ">= -.05")):
        gains = [of(r, r["chosen"], metric) - of(r, "sft", metric) for r in reports]
        figure(f"{name}.{metric}_gained", min(gains), "difference", f"{goal} (lowest over seeds)")
    for run in MODELS:
        for metric in ("recall@10", "svr@10", "svr_upper@10", "svr_true@10", "duplicate@10", "length"):
            values = [of(r, run, metric) for r in reports]
            spread = f"none ({min(values):.3f} to {max(values):.3f} over {len(values)} seeds)"
            figure(f"{name}.{run}.{metric}", statistics.mean(values), "mean", spread)


def across(name: str, demo: Path) -> None:
    """Differences from the unsafe model, with intervals over further seeds and further users."""
    release = open_release(demo / "releases" / "1.0.0")
    gold = read_gold(demo / "input" / "gold.jsonl", release)
    test = rows(release.folder, "grpo", "test")
    table = [row for row in with_gold(test, release.oracle, gold) if row["slice"] is None]

    def values(run: str, seed: int) -> dict[str, Floats]:
        answers = read(demo / f"runs-{seed}" / run / "answers-test.jsonl", table, release).answers
        lists = [answers[row["conversation"]] for row in table]
        return per_user(judge(lists, columns(table), release.oracle, release.k))

    unsafe = [values("sft", seed) for seed in range(SEEDS)]
    for run in MODELS[1:] if SEEDS > 1 else ():
        safe = [values(run, seed) for seed in range(SEEDS)]
        for metric in ("recall@10", "recall_without@10", "svr_upper@10"):
            differences = np.stack([ours[metric] - theirs[metric] for ours, theirs in zip(safe, unsafe, strict=True)])
            cell = over_seeds(differences)
            spread = f"none (95 % over seeds and users: {cell['low']:.3f} to {cell['high']:.3f})"
            figure(f"{name}.{run}-sft.{metric}", cell["mean"] or 0.0, "difference", spread)


def of(report: dict[str, Any], run: str, metric: str) -> float:
    mean = next(r for r in report["runs"] if r["name"] == run)["metrics"][metric]["mean"]
    return float(mean)
