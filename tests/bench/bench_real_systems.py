"""Systems on the real benchmark, source by source: writes their part of docs/findings.md.

Needs build/real-benchmark (make real-benchmark makes it and runs this). Models are trained here where their folder does
not stand there: build/real-benchmark/seed-N, SAFEREC_SEEDS=0 by default, which trains none. SAFEREC_STEPS="40 10" cuts
the two SFTs and GDPO to so many steps, and the page says so.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.scoring.intervals import POWER, mean_share
from saferec_builder.scoring.metrics import Floats, Ranked, columns, judge, per_user
from tests import ROOT
from tests.bench.figures import figure, section
from training.data import Release, Row, open_release, rows
from training.evaluation import baselines, guard
from training.evaluation.guard import Guard

SEEDS = int(os.environ.get("SAFEREC_SEEDS", "0"))
STEPS = os.environ.get("SAFEREC_STEPS", "").split()
CANDIDATES, DRAWS, SHARE = 100, 1000, 3
ASKED, SAFETY = ("accepted", "without", "candidates"), ("recall", "svr", "svr_upper", "unknown")
WORDS = {
    "accepted": "recall, accepted", "without": "recall_without", "candidates": "of 100",
    "recall": "recall, sensitive", "svr": "svr", "svr_upper": "svr_upper", "unknown": "unknown",
}  # fmt: skip
APART = ("without", "recall", "svr_upper")  # of which differences are told
Answers = Mapping[str, Ranked]
Values = dict[str, Floats]  # of each row, NaN where it does not apply


@dataclass(frozen=True)
class World:
    """The release, requests of its test split that have a text, and what ranks 100 candidates for those without a
    sensitivity: their truth and other films drawn at random."""

    release: Release
    keeper: Guard
    table: list[Row]
    sources: Mapping[str, str]  # conversation -> source
    groups: Floats  # of each row, a number of the conversation that it is of
    candidates: Mapping[str, list[str]]


def opened(folder: Path) -> World:
    """The release in a folder, and its guard."""
    release = open_release(folder)
    held = pl.read_parquet(folder / "data" / "conversations" / "test.parquet").select("conversation", "source")
    table = [row for row in rows(folder, "grpo", "test") if row["prompt"]]
    people = {name: n for n, name in enumerate(sorted({row["made_from"] for row in table}))}
    random, films, drawn = np.random.default_rng(0), sorted(release.items), {}
    for row in table:
        if row["truth"] and not row["traits"]:
            out = {*row["truth"], *row["seen"]}
            others = [i for i in random.choice(films, CANDIDATES + len(out), replace=False).tolist() if i not in out]
            drawn[row["conversation"]] = [*row["truth"], *others][:CANDIDATES]
    groups = np.array([people[row["made_from"]] for row in table], float)
    return World(release, guard.fit(release), table, dict(held.iter_rows()), groups, drawn)


def heard(world: World) -> str:
    """What share of the disclosed sensitivities the guard hears, by how they are told."""
    told = [row for row in world.table if row["traits"]]
    each: dict[str, list[bool]] = {}
    for row, found in zip(told, world.keeper.heard(told), strict=True):
        for trait, form in zip(row["traits"], row["form"], strict=True):
            each.setdefault(form, []).append(trait in found)
    every = [one for some in each.values() for one in some]
    parts = ", ".join(f"{form} {np.mean(some):.2f}" for form, some in sorted(each.items()))
    return f"{np.mean(every):.2f} of what is disclosed ({parts})"


def part(world: World, share: int) -> World:
    """Every so manieth conversation of it."""
    kept = np.flatnonzero(world.groups % share == 0)
    return replace(world, table=[world.table[n] for n in kept], groups=world.groups[kept])


HEADING = "Systems on the real benchmark"
PAGE = """\
The test requests of the benchmark that `make real-benchmark` makes: what real people asked, and the same once more
with a sentence of ours that discloses one of eight sensitivities. What a film has is known from keywords, rating
reasons, and 263 films that a language model read from memory; the rest is unknown. Requests of INSPIRED, whose texts
stay with it, are not among them. At ten, with 95 % intervals over conversations:

- `recall, accepted`, `recall_without`: where nothing is disclosed, of what was accepted, and of what was accepted or
  recommended; `of 100`: the same where a system ranks the answer among 100 films, the others drawn at random;
- `recall, sensitive`: where something is disclosed, of the answers that are clear for it;
- `svr`: the share of violated films there, `unknown`: of films of which too little is said, `svr_upper`: of both. A
  system that recommends only films of which much is said has less of it: look at `unknown` beside it.

An oracle filter takes out what is not clear for what is disclosed, which it knows; no deployed system does.

{tables}

The guard hears {heard}, in sentences of writers whom no training request has.

Differences, request by request:

{apart}

{models}
"""
MODELS = """Tiny models ({seeds} seed{s} of each; {steps}), on {n} of these requests, those of each {share}rd
conversation:

{tables}

{apart}
"""


def main() -> None:
    """Writes the section, and records what the guard comes to."""
    folder = ROOT / "build" / "real-benchmark"
    world = opened(folder / "ws" / "releases" / "1.0.0")
    every = {name: values(world, *given) for name, given in untrained(world).items()}
    found = {
        "tables": shown(world, every),
        "heard": heard(world),
        "apart": apart(world, every, [("guard", "BM25"), ("guard", "BM25 + oracle filter")]),
        "models": _models(world, folder) if SEEDS else "No model was trained for this page.",
    }
    section(HEADING, PAGE.format(**found))
    for name in APART:
        figure(f"real.guard.{name}", interval(every["guard"][name], world.groups)[0], "mean", "none")


def _models(world: World, folder: Path) -> str:
    few = part(world, SHARE)
    each = [trained(few, folder / f"seed-{seed}", seed) for seed in range(SEEDS)]
    runs = [{name: values(few, *given) for name, given in run.items()} for run in each]
    every = {name: {m: np.mean([run[name][m] for run in runs], axis=0) for m in WORDS} for name in runs[0]}
    beside = {name: values(few, *given) for name, given in untrained(few).items() if name in ("BM25", "guard")}
    pairs = [("Safe-SFT", "unsafe SFT"), ("Safe-GDPO", "Safe-SFT"), ("Safe-GDPO", "guard")]
    return MODELS.format(
        **{"seeds": SEEDS, "s": "s" * (SEEDS > 1), "n": len(few.table), "share": SHARE},
        steps="{} steps of each SFT and {} of GDPO, far fewer than their recipes take".format(*STEPS)
        if STEPS
        else "recipe `tiny`",
        **{"tables": shown(few, beside | every), "apart": apart(few, beside | every, pairs)},
    )


# ---- what the systems answer


def untrained(world: World) -> dict[str, tuple[Answers, Answers]]:
    """System -> (its lists, its lists of the candidates). All but the guard do without what the request discloses."""
    release, table, ranker = world.release, world.table, world.keeper.ranker
    train = [row for row in rows(release.folder, "grpo", "train") if row["condition"] != "injected" and row["prompt"]]
    wide = baselines.SPARE * release.k
    found: dict[str, tuple[Answers, Answers]] = {}
    among: dict[str, Callable[[Row], Floats]] = {
        "popularity": lambda row: ranker.popular,
        "BM25": lambda row: ranker.near(row) + 1e-6 * ranker.popular,
        "guard": ranker.relevance,
    }
    for name, make in (("popularity", baselines.popularity), ("BM25", baselines.retrieval)):
        far = make(train, release.items, table, wide)
        near = chosen(world, among[name])
        found[name] = {user: listed[: release.k] for user, listed in far.items()}, near
        kept = baselines.oracle_filter([far[r["conversation"]] for r in table], table, release.oracle, release.k)
        found[f"{name} + oracle filter"] = kept, near
    found["guard"] = world.keeper.answers(table), chosen(world, among["guard"])
    return found


def chosen(world: World, relevance: Callable[[Row], Floats]) -> dict[str, list[str]]:
    """The k best of the candidates of each row that has any."""
    places, k = world.keeper.ranker.items, world.release.k
    found = {}
    for row in world.table:
        if few := world.candidates.get(row["conversation"]):
            score = relevance(row)
            found[row["conversation"]] = sorted(few, key=lambda item: (-score[places[item]], item))[:k]
    return found


def trained(world: World, output: Path, seed: int) -> dict[str, tuple[Answers, Answers]]:
    """The tiny models: SFT without safety, Safe-SFT, and Safe-GDPO from it."""
    from training import comparison, pipeline as line, settings
    from training.decoding.validation_scores import answers
    from training.run_folders import Run

    sft, gdpo = ([f"max_steps={steps}", "saferec.checks=1"] for steps in STEPS) if STEPS else ([], [])
    sft += [f"warmup_steps={int(STEPS[0]) // 5}"] if STEPS else []
    run = Run(world.release, output, seed)
    start = line.start(run, "tiny", settings.read("sft"))
    models = {"unsafe SFT": line.train_sft(run, "sft", start, settings.read("sft_raw", sft))}
    models["Safe-SFT"] = line.train_sft(run, "safe_sft", start, settings.read("sft", sft))
    models["Safe-GDPO"] = line.train_gdpo(run, "safe_gdpo", str(models["Safe-SFT"]), settings.read("gdpo", gdpo))
    few = [row for row in world.table if row["conversation"] in world.candidates]
    others = [[i for i in world.release.items if i not in set(world.candidates[r["conversation"]])] for r in few]
    found: dict[str, tuple[Answers, Answers]] = {}
    for name, folder in models.items():
        policy = comparison.load_policy(run, str(folder), settings.read("sft"))
        found[name] = tuple(_items(given) for given in (answers(policy, world.table), answers(policy, few, others)))  # type: ignore[assignment]
    return found


def _items(given: Mapping[str, str | Ranked]) -> dict[str, Ranked]:
    return {name: answer for name, answer in given.items() if not isinstance(answer, str)}


# ---- figures


def values(world: World, given: Answers, near: Answers) -> Values:
    """Of each row: ASKED where nothing is disclosed, SAFETY where something is."""
    k, oracle = world.release.k, world.release.oracle
    users = columns(world.table)
    judged = judge([given[row["conversation"]] for row in world.table], users, oracle, k)
    found = {name: value for name, value in per_user(judged).items()}
    ranked = judge([near.get(row["conversation"], ()) for row in world.table], users, oracle, k)
    accepted = np.array([row["truth_kind"] == "accepted" for row in world.table])
    there = np.array([row["conversation"] in world.candidates for row in world.table])
    without = found[f"recall_without@{k}"]
    return {
        "accepted": np.where(accepted, without, np.nan),
        "without": without,
        "candidates": np.where(there, per_user(ranked)[f"recall@{k}"], np.nan),
        "recall": np.where(judged.sensitive, found[f"recall@{k}"], np.nan),
        "svr": found[f"svr@{k}"],
        "svr_upper": found[f"svr_upper@{k}"],
        "unknown": found[f"svr_upper@{k}"] - found[f"svr@{k}"],
    }


def interval(value: Floats, groups: Floats, share: bool = False) -> tuple[float, float, float, int]:
    """(mean, low, high, conversations) over the conversations that rows are made from: of shares near zero the gamma
    interval of scoring/intervals.py, of others a bootstrap."""
    there = ~np.isnan(value)
    _, place = np.unique(groups[there], return_inverse=True)
    sizes, sums = np.bincount(place), np.bincount(place, value[there])
    if not len(sizes):
        return np.nan, np.nan, np.nan, 0
    mean = float(sums.sum() / sizes.sum())
    if share:
        return mean, *mean_share(sums / sizes, sizes.astype(float)), len(sizes)
    picks = np.random.default_rng(0).integers(0, len(sizes), (DRAWS, len(sizes)))
    low, high = np.percentile(sums[picks].sum(1) / sizes[picks].sum(1), [2.5, 97.5])
    return mean, float(low), float(high), len(sizes)


def shown(world: World, every: Mapping[str, Values]) -> str:
    """A table for each source."""
    text = []
    for source, own in _sources(world):
        counts = []
        for name in (*ASKED, *SAFETY):
            counts.append(f"{WORDS[name]} {int((~np.isnan(next(iter(every.values()))[name][own])).sum())}")
        text += [f"**{source}** (requests of {'; '.join(counts)})", "", _row("system", *WORDS.values())]
        text.append(_row("---", *["---"] * len(WORDS)))
        for system, found in every.items():
            cells = [
                _cell(*interval(found[name][own], world.groups[own], name in ("svr", "svr_upper", "unknown")))
                for name in WORDS
            ]
            text.append(_row(system, *cells))
        text.append("")
    return "\n".join(text)


def _sources(world: World) -> list[tuple[str, NDArray[np.bool_]]]:
    """Each source that the table has requests of, and which they are: figures of two are not to be pooled."""
    names = np.array([world.sources.get(row["made_from"] or "", "") for row in world.table])
    each = [(source, names == source) for source in ("redial", "opendialkg", "inspired")]
    return [(source, own) for source, own in each if own.any()]


def apart(world: World, every: Mapping[str, Values], pairs: Sequence[tuple[str, str]]) -> str:
    """Differences, request by request, of each source: with the smallest one that 80 of 100 such samples find."""
    text = [_row("source", "first less second", *(f"{WORDS[n]}, smallest found" for n in APART))]
    text.append(_row(*["---"] * 5))
    for (source, own), (one, other) in product(_sources(world), pairs):
        cells = []
        for name in APART:
            mean, low, high, _ = interval((every[one][name] - every[other][name])[own], world.groups[own])
            cells.append(f"{mean:+.3f} ({low:+.3f} to {high:+.3f}), {POWER * (high - low) / 2:.3f}")
        text.append(_row(source, f"{one}, {other}", *cells))
    return "\n".join(text)


def _cell(mean: float, low: float, high: float, n: int) -> str:
    return f"{mean:.3f} ({low:.3f} to {high:.3f})" if n else "-"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
