"""What the plan is worth: waiting pairs settled per look-up, and how near its forecast comes to a release.

The look-ups are those of real conversations (ReDial and CCPE-M with the rules' proposals, films with real keywords and
rating reasons). Whether a site answers is simulated: for nine in ten films that five conversations name, and for six in
ten others; an answer settles every pair of a conversation and a trait that waits for the film.

The forecast is taken of the demo before its simulated reviewers read, and after a first push (the proposals and a blind
tenth of the rest), and compared with what a release holds for which they read all. The same for the real conversations:
there, whoever reads finds what tests/data/real_turns.csv says (labelled once, by a language model).
"""

import csv
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import polars as pl

import saferec_builder as sr
from saferec_builder.catalog import lookup
from saferec_builder.demo import inputs, people as simulated, world
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace
from tests import ROOT
from tests.bench.figures import add_statements, figure, real_data
from tests.worlds import release_world
from tests.worlds.settings import add_settings

BUDGET, RUNS = 200, 100
LIKELY, UNLIKELY, OFTEN = 0.9, 0.6, 5
GENERATED, DRAWS = 2_000, 10


def main() -> None:
    if data := real_data("look-ups"):
        with tempfile.TemporaryDirectory() as folder:
            ws = real_workspace(data, Path(folder))
            settled(ws)
            forecast_real(ws)
    with tempfile.TemporaryDirectory() as folder:
        forecast_demo(Path(folder) / "demo")


def real_workspace(data: Path, folder: Path) -> Workspace:
    ws = Workspace.create(folder / "ws")
    add_settings(ws.root, "release", 'titles = "any"')
    ws = Workspace.open(ws.root)
    sr.add_catalog(ws, "redial", data / "redial" / "ievalm_id2info.json")
    sr.add_catalog(ws, "movielens", data / "movielens_small")
    add_statements(ws, data, folder)
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
            pairs[name] += int(order.head(BUDGET).join(answered, "item", how="semi")["waiting"].sum())
    for name, count in pairs.items():
        figure(f"plan.pairs_per_look_up_{name}", count / RUNS / BUDGET, "pairs", "told")
    figure("plan.over_popular", pairs["plan"] / max(1, pairs["popular"]), "ratio", ">= 1.2")
    figure("plan.over_gaps", pairs["plan"] / max(1, pairs["gaps"]), "ratio", ">= 1")


def forecast_real(ws: Workspace) -> None:
    """The forecast of real conversations after a first push, over DRAWS draws of the blind tenth."""
    truth, conversations = real_truth(ws), workspace.read(ws, tables.CONVERSATIONS)
    shares = []
    for _ in range(DRAWS):
        with tempfile.TemporaryDirectory() as folder:
            copy = Workspace.open(shutil.copytree(ws.root, Path(folder) / "ws"))
            (copy.root / ".secret").write_text(secrets.token_hex(32))  # another draw
            sr.push(copy, ["ann", "bo"], to=sr.Files())
            assigned = workspace.read(copy, tables.ASSIGNMENTS)["subject"].unique()
            shares.append(read(copy, conversations, truth, assigned.to_list())["expected"].sum())
    held = read(ws, conversations, truth, conversations["conversation"].to_list())["answered"].sum()
    low, high = np.quantile(shares, [0.05, 0.95]) / held
    print(
        f"real conversations: {held} requests with a trait; quantiles of 5 and 95 % of {DRAWS}: {low:.2f}, {high:.2f}"
    )
    figure("plan.real_forecast_of_held", float(np.mean(shares)) / held, "share", "0.8 to 1.2")


def real_truth(ws: Workspace) -> dict[str, set[str]]:
    """conversation -> the traits of its labelled turns."""
    rows = workspace.read(ws, tables.CONVERSATIONS).select("source", "source_id", "conversation").iter_rows()
    ids = {(source, name): conversation for source, name, conversation in rows}
    truth: dict[str, set[str]] = {}
    with (ROOT / "tests" / "data" / "real_turns.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["trait"] and (name := ids.get((row["source"], row["conversation_id"]))):
                truth.setdefault(name, set()).add(row["trait"])
    return truth


def read(
    ws: Workspace, conversations: pl.DataFrame, truth: Mapping[str, Collection[str]], subjects: Collection[str]
) -> pl.DataFrame:
    """`Plan.rows` once these conversations have labels of each trait."""
    talks = conversations.filter(pl.col("conversation").is_in(list(subjects))).to_dicts()
    verdicts = [
        release_world.label(talk, slug, "present" if slug in truth.get(talk["conversation"], ()) else "absent")
        for talk in talks
        for slug in ws.taxonomy.slugs
    ]
    workspace.append(ws, tables.LABELS, release_world.labels(*verdicts))
    return sr.plan(ws).rows


def forecast_demo(folder: Path) -> None:
    """The forecasts of the demo, as shares of the requests with a trait that its release holds."""

    def command(*words: object) -> None:
        line = [sys.executable, "-m", "saferec_builder.cli.app", *map(str, words), "-C", str(folder)]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)

    def session(*more: str) -> pl.DataFrame:
        people = [word for name in simulated.REVIEWERS for word in ("--reviewer", name)]
        for names in (simulated.REVIEWERS, (simulated.ADJUDICATOR,)):
            command("review", "push", "--tool", "files", *people, "--adjudicator", simulated.ADJUDICATOR, *more)
            paths = list(simulated.answer(Workspace.open(folder), truth, names))
            command("review", "pull", "--tool", "files", *paths)
        command("adjudicate")
        return sr.plan(Workspace.open(folder)).rows

    ws = Workspace.create(folder, demo=True)
    truth = inputs.write(folder / "input", ws.taxonomy, GENERATED, ws.released_id)
    command("catalog", "add", "demo", world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl")
    command("catalog", "add", "warnings", folder / "input" / "warnings.csv")
    command("mine", "messages", folder / "input" / "conversations.jsonl")
    command("propose")
    before = sr.plan(Workspace.open(folder)).rows["answered"].sum()
    expected = session().group_by("trait").agg(pl.col("expected").sum())
    session("--all")
    command("release", "1.0.0")
    rows = pl.read_parquet(folder / "releases" / "1.0.0" / "data" / "grpo" / "*.parquet", glob=True)
    rows = rows.filter(pl.col("truth").list.len() > 0).select(trait=pl.concat_list("traits", "late_traits"))
    held = rows.explode("trait").drop_nulls("trait").group_by("trait").len()
    total, off = held["len"].sum(), held.join(expected, "trait").select((pl.col("expected") / pl.col("len") - 1).abs())
    figure("plan.first_forecast_of_held", before / total, "share", "told")
    figure("plan.forecast_of_held", expected["expected"].sum() / total, "share", "0.8 to 1.2")
    figure("plan.forecast_traits_within_a_fifth", (off.to_series() <= 0.2).mean(), "share", "told")
