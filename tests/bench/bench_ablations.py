"""What each part of Safe-SFT and Safe-GDPO adds on the demo release: SAFEREC_SEEDS=3, in build/ablations by default.

Every model of a seed starts from the same untrained one. A stage that is finished is not trained again, so that a run
that was broken off goes on; ONLY the figures on the test split are made anew. build/ablations/ablations.json has
them all, with intervals over users for each seed.
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
SFT: Mapping[str, tuple[str, Sequence[str]]] = {  # run -> its config and what is changed in it
    "unsafe": ("sft_raw", ()),
    "filtered": ("sft", ("saferec.refill=false",)),
    "refilled": ("sft", ()),
    "student": ("student", ()),
}
TENFOLD = "saferec.lam=10"
FREE = ("saferec.mask=false", "saferec.new_tokens=16")
GDPO: Mapping[str, tuple[str, Sequence[str]]] = {  # run -> the model that it starts from and what is changed
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
    home = ROOT / "build" / "ablations"
    demo = home / "demo"
    if not (demo / "releases" / "1.0.0").is_dir():
        figures.demo(demo)
    folder, gold = demo / "releases" / "1.0.0", demo / "input" / "gold.jsonl"
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes below: seeds train side by side
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        begun = [pool.submit(ablations, folder, home / f"seed-{seed}", seed, gold) for seed in range(SEEDS)]
        reports = [one.result() for one in begun]
    (home / "ablations.json").write_text(json.dumps(reports, indent=1))
    print(table(reports))
    means = {name: _means(reports, name) for name in (*GDPO, "student")}
    for name in ("unsafe_gdpo_10", "unsafe_grpo_10"):
        figure(f"training.{name}.svr_upper", means[name]["svr_upper"], "mean", "to be matched by the other")
    gap = means["unsafe_gdpo_10"]["recall"] - means["unsafe_grpo_10"]["recall"]
    figure("training.gdpo_over_grpo_tenfold", gap, "recall", ">= .10 at matched SVR")
    for name in ("recall", "recall_without"):  # over Safe-GDPO as `run` trains it
        gain = means["student"][name] - means["refilled_rank"][name]
        figure(f"training.student_{name}_gain", gain, "mean difference", ">= .05")
    figure("training.student_svr_upper", means["student"]["svr_upper"], "mean", "<= .01")


def ablations(
    folder: Path, output: Path, seed: int, gold: Path | None = None, changes: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The report of one seed; changes = {"sft" | "gdpo": what to change in every run of the kind}."""
    from training import comparison, pipeline as line, settings
    from training.data import open_release, read_gold
    from training.run_folders import Run

    changes = changes or {}
    release = open_release(folder)
    run = Run(release, output, seed, read_gold(gold, release) if gold else None)
    start = line.start(run, "tiny", settings.read("sft"))
    models: dict[str, str] = {}
    for name, (config, own) in SFT.items():
        found = settings.read(config, [*own, *changes.get("sft", ())])
        models[name] = str(line.train_sft(run, name, start, found))
    for name, (origin, own) in GDPO.items():
        found = settings.read("gdpo", ["saferec.credit=sequence", *own, *changes.get("gdpo", ())])
        models[name] = str(line.train_gdpo(run, name, models[origin], found))
    masked, free = settings.read("sft"), settings.read("sft", FREE)
    loose = {name: model for name, model in models.items() if FREE[0] in GDPO.get(name, ("", ()))[1]}
    kept = comparison.report(run, {n: m for n, m in models.items() if n not in loose}, None, masked)
    loose |= {f"{name}_drawn_free": models[name] for name in ("unsafe", "refilled")}  # trained as above
    freely = comparison.report(Run(release, output / "free", seed, run.gold), loose, None, free)
    return {**kept, "runs": kept["runs"] + [one for one in freely["runs"] if one["name"] in loose]}


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """The mean over seeds of each run's means; beneath, the lowest and highest seed."""
    lines = ["".ljust(24) + "".join(name.rjust(16) for name in (*SHOWN, "length"))]
    for one in reports[0]["runs"]:
        every = [_one(report, one["name"]) for report in reports]
        cells = [[values[name] for values in every] for name in (*SHOWN, "length")]
        lines.append(one["name"].ljust(24) + "".join(f"{statistics.mean(c):.3f}".rjust(16) for c in cells))
        lines.append("".ljust(24) + "".join(f"{min(c):.3f}-{max(c):.3f}".rjust(16) for c in cells))
    return "\n".join(lines)


def _means(reports: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    every = [_one(report, name) for report in reports]
    return {metric: statistics.mean(values[metric] for values in every) for metric in every[0]}


def _one(report: Mapping[str, Any], name: str) -> dict[str, float]:
    metrics = next(run for run in report["runs"] if run["name"] == name)["metrics"]
    found = {metric: metrics[f"{metric}@{report['k']}"]["mean"] for metric in SHOWN}
    return {metric: value or 0.0 for metric, value in (found | {"length": metrics["length"]["mean"]}).items()}
