"""What the plan is worth: waiting pairs settled per look-up, and how near its forecast comes to a release.

The look-ups are those of real conversations (ReDial and CCPE-M with the rules' proposals, films with real keywords and
rating reasons). Whether a site answers is simulated: for nine in ten films that five conversations name, and for six in
ten others; an answer settles every pair of a conversation and a trait that waits for the film. The forecast is taken of
the demo before its simulated reviewers read, and compared with what its release then holds.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import saferec_builder as sr
from saferec_builder.catalog import lookup
from saferec_builder.demo import walkthrough
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import STATEMENTS, figure, real_data, unpacked

BUDGET, RUNS = 200, 100
LIKELY, UNLIKELY, OFTEN = 0.9, 0.6, 5
GENERATED = 2_000


def main() -> None:
    if data := real_data("look-ups"):
        with tempfile.TemporaryDirectory() as folder:
            settled(real_workspace(data, Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        forecast(Path(folder) / "demo")


def real_workspace(data: Path, folder: Path) -> Workspace:
    ws = Workspace.create(folder / "ws")
    toml = ws.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[release]\n", '[release]\ntitles = "any"\n', 1))
    ws = Workspace.open(ws.root)
    sr.add_catalog(ws, "redial", data / "redial" / "ievalm_id2info.json")
    sr.add_catalog(ws, "movielens", data / "movielens_small")
    for source, name in STATEMENTS.items():
        sr.add_catalog(ws, source, unpacked(data / name, folder))
    sr.mine(ws, "redial", sorted((data / "redial").glob("*_data.jsonl")))
    sr.mine(ws, "ccpe", data / "ccpe" / "ccpe_dialogues.csv")
    sr.propose(ws)
    return ws


def settled(ws: Workspace) -> None:
    """Pairs settled per look-up by the plan, by the order of `catalog gaps`, by popularity, and at best."""
    gaps = lookup.gaps(ws).items
    popular = gaps.sort("conversations", descending=True, maintain_order=True)
    orders = {"plan": sr.plan(ws, budget=BUDGET).lookups, "gaps": gaps, "popular": popular}
    rng, pairs = np.random.default_rng(7), dict.fromkeys([*orders, "clairvoyant"], 0)
    chance = np.where(gaps["conversations"] >= OFTEN, LIKELY, UNLIKELY)
    for _ in range(RUNS):
        answered = gaps.filter(pl.Series(rng.random(gaps.height) < chance))
        for name, order in (orders | {"clairvoyant": answered.sort("waiting", descending=True)}).items():
            pairs[name] += order.head(BUDGET).join(answered, "item", how="semi")["waiting"].sum()
    for name, count in pairs.items():
        figure(f"plan.pairs_per_look_up_{name}", count / RUNS / BUDGET, "pairs", "told")
    figure("plan.over_popular", pairs["plan"] / max(1, pairs["popular"]), "ratio", ">= 1.2")
    figure("plan.over_gaps", pairs["plan"] / max(1, pairs["gaps"]), "ratio", ">= 1")


def forecast(folder: Path) -> None:
    """Requests with a trait that were forecast, as a share of those that the release holds, over all traits."""
    plans: list[sr.Plan] = []

    def command(*words: object) -> None:
        if words[:2] == ("review", "push") and not plans:
            plans.append(sr.plan(Workspace.open(folder)))
        line = [sys.executable, "-m", "saferec_builder.cli.app", *map(str, words), "-C", str(folder)]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)

    demo = walkthrough.run(folder, command, lambda line: None, generated=GENERATED, training=False)
    rows = pl.read_parquet(demo.release / "data" / "grpo" / "*.parquet", glob=True)
    rows = rows.filter(pl.col("truth").list.len() > 0).select(trait=pl.concat_list("traits", "late_traits"))
    held = rows.explode("trait").drop_nulls("trait")["trait"].value_counts()
    figure("plan.forecast_of_held", plans[0].rows["answered"].sum() / held["count"].sum(), "share", "0.8 to 1.2")


if __name__ == "__main__":
    main()
