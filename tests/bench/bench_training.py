"""What Safe-SFT and GDPO come to, over seeds (SAFEREC_SEEDS=3), on the demo release and on one with more items."""

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

from saferec_builder.scoring.intervals import over_seeds
from saferec_builder.scoring.metrics import Floats, columns, judge, per_user
from tests.bench import figures
from tests.bench.figures import figure
from training.data import open_release, read_gold, rows, with_gold
from training.evaluation.predictions import read

SEEDS = int(os.environ.get("SAFEREC_SEEDS", "3"))
MODELS = ("sft", "safe_sft", "safe_gdpo")
Reports = list[dict[str, Any]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo, larger = Path(folder) / "demo", Path(folder) / "larger"
        figures.demo(demo)
        larger.mkdir()
        subprocess.run([sys.executable, "-m", "tests.bench.larger_world", str(larger)], check=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each trains on one thread
            every = {
                name: [pool.submit(trained, home, seed) for seed in range(SEEDS)]
                for name, home in (("training", demo), ("training.larger", larger / "demo"))
            }
        for name, runs in every.items():
            told(name, [run.result() for run in runs])
            across(name, demo if name == "training" else larger / "demo")


def trained(demo: Path, seed: int) -> dict[str, Any]:
    """report.json of one run over the demo release."""
    output = demo / f"runs-{seed}"
    words = ["run", "--release", demo / "releases" / "1.0.0", "--model", "tiny", "--seed", seed]
    words += ["--output", output, "--gold", demo / "input" / "gold.jsonl"]
    subprocess.run([sys.executable, "-m", "training.safecrs", *map(str, words)], check=True)
    found: dict[str, Any] = json.loads((output / "report.json").read_text())
    return found


def told(name: str, reports: Reports) -> None:
    """The lowest reduction over seeds, what it costs, and means with the lowest and highest seed."""
    drops = [1 - of(r, r["chosen"], "svr_upper@10") / of(r, "sft", "svr_upper@10") for r in reports]
    figure(f"{name}.svr_reduction", min(drops), "ratio", ">= .965 (lowest over seeds)")
    for metric, goal in (("recall@10", ">= 0"), ("recall_without@10", ">= -.05")):
        gains = [of(r, r["chosen"], metric) - of(r, "sft", metric) for r in reports]
        figure(f"{name}.{metric}_gained", min(gains), "difference", f"{goal} (lowest over seeds)")
    for run in MODELS:
        for metric in ("recall@10", "svr@10", "svr_upper@10", "svr_true@10", "duplicate@10", "length"):
            values = [of(r, run, metric) for r in reports]
            span = f"none ({min(values):.3f} to {max(values):.3f} over {len(values)} seeds)"
            figure(f"{name}.{run}.{metric}", statistics.mean(values), "mean", span)


def across(name: str, demo: Path) -> None:
    """Differences to the unsafe model, with intervals over further seeds and further users."""
    release = open_release(demo / "releases" / "1.0.0")
    gold = read_gold(demo / "input" / "gold.jsonl", release)
    test = rows(release.folder, "grpo", "test")
    table = [row for row in with_gold(test, release.oracle, gold) if row["slice"] is None]

    def values(run: str, seed: int) -> dict[str, Floats]:
        found = read(demo / f"runs-{seed}" / run / "answers-test.jsonl", table, release).answers
        lists = [found[row["conversation"]] for row in table]
        return per_user(judge(lists, columns(table), release.oracle, release.k))

    unsafe = [values("sft", seed) for seed in range(SEEDS)]
    for run in MODELS[1:] if SEEDS > 1 else ():
        safe = [values(run, seed) for seed in range(SEEDS)]
        for metric in ("recall@10", "recall_without@10", "svr_upper@10"):
            apart = np.stack([one[metric] - other[metric] for one, other in zip(safe, unsafe, strict=True)])
            cell = over_seeds(apart)
            span = f"none (95 % over seeds and users: {cell['low']:.3f} to {cell['high']:.3f})"
            figure(f"{name}.{run}-sft.{metric}", cell["mean"] or 0.0, "difference", span)


def of(report: dict[str, Any], run: str, metric: str) -> float:
    found = next(r for r in report["runs"] if r["name"] == run)["metrics"][metric]["mean"]
    return float(found)
