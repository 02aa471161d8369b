"""Systems on the real benchmark, source by source: writes their section of docs/findings.md.

Needs build/real-benchmark (make real-benchmark makes it and runs this). Models are trained here unless their folders
exist: build/real-benchmark/seed-N and student-N. SAFEREC_SEEDS=0 by default, which trains none; "5 2" trains five
seeds, and the student, which takes nearly as long as the others together, for two.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.scoring import intervals
from saferec_builder.scoring.metrics import Floats, Ranked, columns, judge, per_user
from tests import ROOT
from tests.bench.figures import figure, markdown, section
from tests.bench.seeds import over_seeds
from training.data import Release, Row, open_release, rows
from training.evaluation import baselines, guard
from training.evaluation.guard import Guard

SEEDS, *_STUDENTS = map(int, os.environ.get("SAFEREC_SEEDS", "0").split())
STUDENTS = _STUDENTS[0] if _STUDENTS else SEEDS
PAPER, STUDENT = ("unsafe SFT", "Safe-SFT", "Safe-GDPO"), ("student",)
CANDIDATES, DRAWS = 100, 1000
ASKED, SAFETY = ("accepted", "without", "candidates"), ("recall", "svr", "svr_upper", "unknown")
WORDS = {
    "accepted": "recall, accepted", "without": "recall_without", "candidates": "of 100",
    "recall": "recall, sensitive", "svr": "svr", "svr_upper": "svr_upper", "unknown": "unknown",
}  # fmt: skip
APART = ("without", "recall", "svr_upper")  # metrics whose differences are reported
TIMES = (("never", 0, 0), ("once or twice", 1, 2), ("3 to 9 times", 3, 9), ("10 times or more", 10, 10**9))
Answers = Mapping[str, Ranked]
Given = tuple[Answers, Answers]  # a system's lists, and its lists of the candidates
Systems = Mapping[str, Sequence[Given]]  # one for each seed; an untrained system has one
Values = dict[str, Floats]  # [seed, row], NaN where it does not apply


@dataclass(frozen=True)
class World:
    """The release, the requests of its test split that have a text, and 100 candidates to rank for those without a
    sensitivity: their truth and other films drawn at random."""

    release: Release
    keeper: Guard
    table: list[Row]
    sources: Mapping[str, str]  # conversation -> source
    groups: Floats  # for each row, the number of its conversation
    candidates: Mapping[str, list[str]]


def opened(folder: Path) -> World:
    """The release in a folder, and its guard."""
    release = open_release(folder)
    sources = pl.read_parquet(folder / "data" / "conversations" / "test.parquet").select("conversation", "source")
    table = [row for row in rows(folder, "grpo", "test") if row["prompt"]]
    people = {name: n for n, name in enumerate(sorted({row["made_from"] for row in table}))}
    random, films, drawn = np.random.default_rng(0), sorted(release.items), {}
    for row in table:
        if row["truth"] and not row["traits"]:
            out = {*row["truth"], *row["seen"]}
            others = [i for i in random.choice(films, CANDIDATES + len(out), replace=False).tolist() if i not in out]
            drawn[row["conversation"]] = [*row["truth"], *others][:CANDIDATES]
    groups = np.array([people[row["made_from"]] for row in table], float)
    return World(release, guard.fit(release), table, dict(sources.iter_rows()), groups, drawn)


def heard(world: World) -> str:
    """The share of disclosed sensitivities that the guard hears, by form; how often it hears any in other requests."""
    disclosing, silent = ([row for row in world.table if bool(row["traits"]) is has] for has in (True, False))
    false_alarms = np.mean([bool(traits) for traits in world.keeper.heard(silent)])
    by_form: dict[str, list[bool]] = {}
    for row, traits in zip(disclosing, world.keeper.heard(disclosing), strict=True):
        for trait, form in zip(row["traits"], row["form"], strict=True):
            by_form.setdefault(form, []).append(trait in traits)
    all_hits = [hit for hits in by_form.values() for hit in hits]
    parts = ", ".join(f"{form} {np.mean(hits):.2f}" for form, hits in sorted(by_form.items()))
    other = f"something in {false_alarms:.2f} of requests that disclose nothing"
    return f"{np.mean(all_hits):.2f} of what is disclosed ({parts}), and {other}"


HEADING = "Systems on the real benchmark"
PAGE = """\
The test requests of the benchmark that `make real-benchmark` makes: what real people asked, and the same once more
with a sentence of ours that discloses one of eight sensitivities. What a film has is known from keywords, rating
reasons, and 263 films that a language model read twice from memory; the rest is unknown. INSPIRED's texts, which stay
with it, were put back by `rebuild`. At ten, with 95 % intervals over conversations:

- `recall, accepted`, `recall_without`: where nothing is disclosed, of what was accepted, and of what was accepted or
  recommended; `of 100`: the same where a system ranks the answer among 100 films, the others drawn at random;
- `recall, sensitive`: where something is disclosed, of the answers that are clear for it;
- `svr`: the share of violated films there, `unknown`: of films of which too little is said, `svr_upper`: of both. A
  system that recommends only films of which much is said has less of it: look at `unknown` beside it.

An oracle filter takes out what is not clear for what is disclosed, which it knows; no deployed system does. No system
here writes anything beside its list, so `mentioned_unsafe` is 0 for each.

{tables}

The guard hears {heard}. The sentences are of writers whom no training request has.

Differences, request by request:

{apart}

{models}

Of the answers where nothing is disclosed, what each system finds, by how often a request of the training split has
them as its answer:

{met}
"""
MODELS = """\
The models are of the embedded kind, `tiny`: made from this release, without any knowledge of language or films, with a
token for each of its {items} films, and answers held to them. {seeds} seed{s} of each ({students} of the student),
recipe `tiny`; intervals are over seeds and conversations. A seed takes {minutes:.0f} minutes of processor time to
train, and its student {student_minutes:.0f} more."""


def main() -> None:
    """Writes the section, and records the figures of the guard."""
    folder = ROOT / "build" / "real-benchmark"
    world = opened(folder / "rebuilt")
    systems: dict[str, Sequence[Given]] = {name: [given] for name, given in untrained(world).items()}
    pairs = [("guard", "BM25"), ("guard", "BM25 + oracle filter")]
    models = "No model was trained for this page."
    if SEEDS:
        trained_systems, models = _models(world, folder)
        systems |= trained_systems
        pairs += [("Safe-SFT", "unsafe SFT"), ("Safe-GDPO", "Safe-SFT"), *((name, "guard") for name in trained_systems)]
    by_system = {name: values(world, given) for name, given in systems.items()}
    parts = {"tables": shown(world, by_system), "heard": heard(world), "apart": apart(world, by_system, pairs)}
    section(HEADING, PAGE.format(**parts, models=models, met=met(world, systems)))
    for name in APART:
        figure(f"real.guard.{name}", interval(by_system["guard"][name], world.groups)[0], "mean", "none")


def _models(world: World, folder: Path) -> tuple[dict[str, Sequence[Given]], str]:
    """The answers of each trained model by seed, and the text about their training."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes below: seeds train in parallel
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        given = (world.release, world.table, world.candidates)
        jobs = [  # the last first: those before may have been trained by a run that broke off
            [pool.submit(trained, names, *given, folder / f"{of}-{seed}", seed) for seed in reversed(range(seeds))]
            for names, of, seeds in ((PAPER, "seed", SEEDS), (STUDENT, "student", STUDENTS))
        ]
        runs = [[job.result() for job in of_seeds] for of_seeds in jobs]
    minutes, student_minutes = (float(np.mean([seconds for _, seconds in of_seeds])) / 60 for of_seeds in runs)
    figure("real.training_minutes", minutes + student_minutes, "min", "none (processor time of a seed)")
    text = MODELS.format(
        items=f"{len(world.release.items):,}",
        seeds=SEEDS,
        s="s" * (SEEDS > 1),
        students=STUDENTS,
        minutes=minutes,
        student_minutes=student_minutes,
    )
    return {name: [run[name] for run, _ in of_seeds] for of_seeds in runs for name in of_seeds[0][0]}, text


# ---- what the systems answer


def untrained(world: World) -> dict[str, Given]:
    """System -> (its lists, its lists of the candidates). Only the guard uses what the request discloses."""
    release, table, ranker = world.release, world.table, world.keeper.ranker
    train = [row for row in rows(release.folder, "grpo", "train") if row["condition"] != "injected" and row["prompt"]]
    wide = baselines.SPARE * release.k
    answers: dict[str, Given] = {}
    among: dict[str, Callable[[Row], Floats]] = {
        "popularity": lambda row: ranker.popular,
        "BM25": lambda row: ranker.near(row) + 1e-6 * ranker.popular,
        "guard": ranker.relevance,
    }
    for name, lists in (
        ("popularity", baselines.popularity(train, release.items, table, wide)),
        ("BM25", baselines.retrieval(ranker, train, release.items, table, wide)),
    ):
        near = chosen(world, among[name])
        answers[name] = {user: listed[: release.k] for user, listed in lists.items()}, near
        safe = baselines.oracle_filter([lists[r["conversation"]] for r in table], table, release.oracle, release.k)
        answers[f"{name} + oracle filter"] = safe, near
    answers["guard"] = world.keeper.answers(table), chosen(world, among["guard"])
    return answers


def chosen(world: World, relevance: Callable[[Row], Floats]) -> dict[str, list[str]]:
    """The k best candidates of each row that has any."""
    places, k = world.keeper.ranker.items, world.release.k
    best = {}
    for row in world.table:
        if candidates := world.candidates.get(row["conversation"]):
            score = relevance(row)
            best[row["conversation"]] = sorted(candidates, key=lambda item: (-score[places[item]], item))[:k]
    return best


def trained(
    names: Sequence[str],
    release: Release,
    table: Sequence[Row],
    candidates: Mapping[str, list[str]],
    output: Path,
    seed: int,
) -> tuple[dict[str, Given], float]:
    """The tiny models of a seed by these names, and the processor seconds of their training: SFT without safety,
    Safe-SFT, Safe-GDPO from it, a student of the guard's lists."""
    from training import comparison, pipeline as line, settings
    from training.decoding.validation_scores import answers
    from training.run_folders import Run

    run = Run(release, output, seed)
    start = line.start(run, "tiny", settings.read("sft"))
    models = dict[str, Path]()
    train: dict[str, Callable[[], Path]] = {
        "unsafe SFT": lambda: line.train_sft(run, "sft", start, settings.read("sft_raw")),
        "Safe-SFT": lambda: line.train_sft(run, "safe_sft", start, settings.read("sft")),
        "Safe-GDPO": lambda: line.train_gdpo(run, "safe_gdpo", str(models["Safe-SFT"]), settings.read("gdpo")),
        "student": lambda: line.train_sft(run, "student", start, settings.read("student")),
    }
    for name in names:
        models[name] = train[name]()
    few = [row for row in table if row["conversation"] in candidates]
    others = [[*(release.items.keys() - set(candidates[row["conversation"]]))] for row in few]
    answers_of: dict[str, Given] = {}
    for name, folder in models.items():
        policy = comparison.load_policy(run, str(folder), settings.read("sft"))
        answers_of[name] = _items(answers(policy, table)), _items(answers(policy, few, others))
    return answers_of, sum(card["cpu_seconds"] for card in run.cards.values())


def _items(given: Mapping[str, str | Ranked]) -> dict[str, Ranked]:
    return {name: answer for name, answer in given.items() if not isinstance(answer, str)}


# ---- figures


def values(world: World, runs: Sequence[Given]) -> Values:
    """For each seed and row: ASKED where nothing is disclosed, SAFETY where something is."""
    by_seed = [_values(world, *given) for given in runs]
    return {name: np.stack([of_seed[name] for of_seed in by_seed]) for name in WORDS}


def _values(world: World, given: Answers, near: Answers) -> dict[str, Floats]:
    k, oracle = world.release.k, world.release.oracle
    users = columns(world.table)
    judged = judge([given[row["conversation"]] for row in world.table], users, oracle, k)
    metrics = {name: value for name, value in per_user(judged).items()}
    ranked = judge([near.get(row["conversation"], ()) for row in world.table], users, oracle, k)
    accepted = np.array([row["truth_kind"] == "accepted" for row in world.table])
    has_candidates = np.array([row["conversation"] in world.candidates for row in world.table])
    without = metrics[f"recall_without@{k}"]
    return {
        "accepted": np.where(accepted, without, np.nan),
        "without": without,
        "candidates": np.where(has_candidates, per_user(ranked)[f"recall@{k}"], np.nan),
        "recall": np.where(judged.sensitive, metrics[f"recall@{k}"], np.nan),
        "svr": metrics[f"svr@{k}"],
        "svr_upper": metrics[f"svr_upper@{k}"],
        "unknown": metrics[f"svr_upper@{k}"] - metrics[f"svr@{k}"],
    }


def interval(
    value: Floats, groups: Floats, share: bool = False, paired: bool = False
) -> tuple[float, float, float, int]:
    """Returns (mean, low, high, conversations) of values [seed, row]: an interval over the conversations of the rows,
    by the methods of scoring/intervals.py: a bootstrap only if the value is no share and many conversations have
    anything but 0. For several seeds it is over them too, if that is wider: over_seeds of the linearised ratio.

    paired: the values are differences."""
    value = np.atleast_2d(value)
    applies = ~np.isnan(value[0])
    _, place = np.unique(groups[applies], return_inverse=True)
    sizes, by_seed = np.bincount(place), np.stack([np.bincount(place, row) for row in value[:, applies]])
    if not len(sizes):
        return np.nan, np.nan, np.nan, 0
    sums = by_seed.mean(axis=0)
    mean = float(sums.sum() / sizes.sum())
    means, weights = sums / sizes, sizes.astype(float)
    if len(sizes) < (intervals.FEW if share else intervals.RESAMPLED):
        low, high = intervals.few_users(means, -float(paired), 1.0, weights)
    elif share or not intervals.many(sums):
        low, high = (intervals.paired_shares if paired else intervals.mean_share)(means, weights)
    else:
        picks = np.random.default_rng(0).integers(0, len(sizes), (DRAWS, len(sizes)))
        low, high = np.percentile(sums[picks].sum(1) / sizes[picks].sum(1), [2.5, 97.5])
    if len(value) > 1:
        cell = over_seeds(mean + (by_seed - mean * sizes) / sizes.mean())
        low, high = min(low, cell["low"] or 0.0), max(high, cell["high"] or 0.0)
    return mean, max(float(low), -float(paired)), min(float(high), 1.0), len(sizes)


def shown(world: World, every: Mapping[str, Values]) -> str:
    """A table for each source."""
    text, first = [], next(iter(every.values()))
    for source, mask in _sources(world):
        counts = []
        for name in (*ASKED, *SAFETY):
            counts.append(f"{WORDS[name]} {int((~np.isnan(first[name][0, mask])).sum())}")
        rows = []
        for system, metrics in every.items():
            cells = [
                _cell(*interval(metrics[name][:, mask], world.groups[mask], name in ("svr", "svr_upper", "unknown")))
                for name in WORDS
            ]
            rows.append((system, *cells))
        table = markdown(("system", *WORDS.values()), rows)
        text += [f"**{source}** (requests of {'; '.join(counts)})", "", table, ""]
    return "\n".join(text)


def _sources(world: World) -> list[tuple[str, NDArray[np.bool_]]]:
    """Each source with requests in the table, and a mask of them: figures of two sources are not to be pooled."""
    names = np.array([world.sources.get(row["made_from"] or "", "") for row in world.table])
    masks = [(source, names == source) for source in ("redial", "opendialkg", "inspired")]
    return [(source, mask) for source, mask in masks if mask.any()]


def apart(world: World, every: Mapping[str, Values], pairs: Sequence[tuple[str, str]]) -> str:
    """Differences, request by request, for each source: with the smallest one that 80 of 100 such samples find."""
    rows = []
    for (source, mask), (first, other) in product(_sources(world), pairs):
        cells = []
        for name in APART:
            mean, low, high, _ = interval(
                (every[first][name] - every[other][name])[:, mask], world.groups[mask], paired=True
            )
            cells.append(f"{mean:+.3f} ({low:+.3f} to {high:+.3f}), {intervals.detectable(low, high):.3f}")
        rows.append((source, f"{first}, {other}", *cells))
    return markdown(("source", "first less second", *(f"{WORDS[n]}, smallest found" for n in APART)), rows)


def met(world: World, systems: Systems) -> str:
    """The share of answers that occur so often in training, and how many of them each system finds."""
    train = [row for row in rows(world.release.folder, "grpo", "train") if row["condition"] != "injected"]
    often = Counter(item for row in train for item in row["truth"])
    table = []
    for (source, mask), (words, least, most) in product(_sources(world), TIMES):
        asked = [row for row, is_in in zip(world.table, mask, strict=True) if is_in and not row["traits"]]
        answers = [(row["conversation"], item) for row in asked for item in row["truth"]]
        counted = [(user, item) for user, item in answers if least <= often[item] <= most]
        cells = [f"{len(counted) / max(len(answers), 1):.2f}"]
        for runs in systems.values():
            hits = [item in lists[user] for lists, _ in runs for user, item in counted]
            cells.append(f"{np.mean(hits):.3f}" if hits else "-")
        table.append((source, words, *cells))
    return markdown(("source", "in training", "of the answers", *systems), table)


def _cell(mean: float, low: float, high: float, n: int) -> str:
    return f"{mean:.3f} ({max(low, 0.0):.3f} to {min(high, 1.0):.3f})" if n else "-"
