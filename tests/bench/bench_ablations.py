"""Ablations on the demo release: what each part of Safe-SFT and Safe-GDPO adds. SAFEREC_SEEDS is 3 by default.

All models of a seed start from the same untrained one. A finished stage is not trained again, so an interrupted run
continues; ONLY the figures on the test split are computed again. build/ablations/ablations.json has them all, with
intervals over users for each seed.
"""

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.bench import figures
from tests.bench.figures import figure

SEEDS = int(os.environ.get("SAFEREC_SEEDS", "3"))
SHOWN = ("recall", "recall_without", "ndcg", "svr", "svr_upper", "duplicate")
SFT: Mapping[str, tuple[str, Sequence[str]]] = {  # run -> its config and overrides
    "unsafe": ("sft_raw", ()),
    "filtered": ("sft", ("saferec.refill=false",)),
    "refilled": ("sft", ()),
    "student": ("student", ()),
}
TENFOLD = "saferec.lam=10"
FREE = ("saferec.mask=false", "saferec.new_tokens=16")
GDPO: Mapping[str, tuple[str, Sequence[str]]] = {  # run -> the model that it starts from, and overrides
    "filtered_gdpo": ("filtered", ()),
    "refilled_gdpo": ("refilled", ()),
    "refilled_rank": ("refilled", ("saferec.credit=rank",)),
    "unsafe_gdpo": ("unsafe", ()),
    "unsafe_grpo": ("unsafe", ("saferec.mode=grpo",)),
    "unsafe_gdpo_10": ("unsafe", (TENFOLD,)),
    "unsafe_grpo_10": ("unsafe", (TENFOLD, "saferec.mode=grpo")),
    "refilled_no_count": ("refilled", ("reward_weights=[1, 1, 0]",)),
    "refilled_no_safety": ("refilled", ("reward_weights=[1, 0, 1]",)),
    "refilled_paper": ("refilled", ("saferec.rewards=paper",)),
    "refilled_free": ("refilled", FREE),
    "refilled_paper_free": ("refilled", ("saferec.rewards=paper", *FREE)),
}


def main() -> None:
    build = ROOT / "build" / "ablations"
    demo = build / "demo"
    if not (demo / "releases" / "1.0.0").is_dir():
        figures.demo(demo)
    folder, gold = demo / "releases" / "1.0.0", demo / "input" / "gold.jsonl"
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes below: seeds train in parallel
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = [pool.submit(ablations, folder, build / f"seed-{seed}", seed, gold) for seed in range(SEEDS)]
        reports = [job.result() for job in jobs]
    (build / "ablations.json").write_text(json.dumps(reports, indent=1))
    print(table(reports))
    means = {name: _means(reports, name) for name in (*GDPO, "student")}
    for name in ("unsafe_gdpo_10", "unsafe_grpo_10"):
        figure(f"training.{name}.svr_upper", means[name]["svr_upper"], "mean", "to be matched by the other")
    gap = means["unsafe_gdpo_10"]["recall"] - means["unsafe_grpo_10"]["recall"]
    figure("training.gdpo_over_grpo_tenfold", gap, "recall", ">= .10 at matched SVR")
    for name in ("recall", "recall_without"):  # compared with Safe-GDPO as `run` trains it
        gain = means["student"][name] - means["refilled_rank"][name]
        figure(f"training.student_{name}_gain", gain, "mean difference", ">= .05")
    figure("training.student_svr_upper", means["student"]["svr_upper"], "mean", "<= .01")


def ablations(
    folder: Path, output: Path, seed: int, gold: Path | None = None, changes: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The report of one seed; changes = {"sft" | "gdpo": overrides for every run of the kind}."""
    from training import comparison, pipeline as line, settings
    from training.data import open_release, read_gold
    from training.run_folders import Run

    changes = changes or {}
    release = open_release(folder)
    run = Run(release, output, seed, read_gold(gold, release) if gold else None)
    start = line.start(run, "tiny", settings.read("sft"))
    models: dict[str, str] = {}
    for name, (config, overrides) in SFT.items():
        loaded = settings.read(config, [*overrides, *changes.get("sft", ())])
        models[name] = str(line.train_sft(run, name, start, loaded))
    for name, (origin, overrides) in GDPO.items():
        loaded = settings.read("gdpo", ["saferec.credit=sequence", *overrides, *changes.get("gdpo", ())])
        models[name] = str(line.train_gdpo(run, name, models[origin], loaded))
    masked, free = settings.read("sft"), settings.read("sft", FREE)
    loose = {name: model for name, model in models.items() if FREE[0] in GDPO.get(name, ("", ()))[1]}
    report = comparison.report(run, {n: m for n, m in models.items() if n not in loose}, None, masked)
    loose |= {f"{name}_drawn_free": models[name] for name in ("unsafe", "refilled")}  # the models trained above
    free_report = comparison.report(Run(release, output / "free", seed, run.gold), loose, None, free)
    return {**report, "runs": report["runs"] + [entry for entry in free_report["runs"] if entry["name"] in loose]}


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """The mean over seeds of each run's means; below it, the lowest and highest seed."""
    lines = ["".ljust(24) + "".join(name.rjust(16) for name in (*SHOWN, "length"))]
    for run in reports[0]["runs"]:
        by_seed = [_one(report, run["name"]) for report in reports]
        cells = [[values[name] for values in by_seed] for name in (*SHOWN, "length")]
        lines.append(run["name"].ljust(24) + "".join(f"{statistics.mean(c):.3f}".rjust(16) for c in cells))
        lines.append("".ljust(24) + "".join(f"{min(c):.3f}-{max(c):.3f}".rjust(16) for c in cells))
    return "\n".join(lines)


def _means(reports: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    by_seed = [_one(report, name) for report in reports]
    return {metric: statistics.mean(values[metric] for values in by_seed) for metric in by_seed[0]}


def _one(report: Mapping[str, Any], name: str) -> dict[str, float]:
    metrics = next(run for run in report["runs"] if run["name"] == name)["metrics"]
    means = {metric: metrics[f"{metric}@{report['k']}"]["mean"] for metric in SHOWN}
    return {metric: value or 0.0 for metric, value in (means | {"length": metrics["length"]["mean"]}).items()}
