"""Simulated votes with known truth, judged by the vote model and by the former rule, the share of yes.

3,000 works; each topic of the embedded traits is true of a share of them between .02 and .4, and has votes with the
probability `coverage`, of 1 + Geometric(1/20) people who err in both directions with the same probability:
independently, or alike (rho .1). A trait is truly broken if any of its topics is true. Each figure is over all traits,
and the worst over the kinds of voters and coverages.

On real data (SAFEREC_REAL_DATA): the oracle's verdicts on the titles that four models recommended, and on pairs of a
work and a trait that a language model read (tests/data/evidence_truth.csv; its README says how).
"""

import csv
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from saferec_builder import catalog
from saferec_builder.catalog import adding, verdicts
from saferec_builder.core import oracle as violations, taxonomy, titles, vote_model
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle
from saferec_builder.scoring.intervals import clopper_pearson
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace
from tests import DATA
from tests.bench.figures import add_statements, figure, json_lines, real_data

WORKS = 3_000
TRAITS = taxonomy.load()
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """Numbers of (work, trait) pairs for one kind of voters and coverage, and the share clear per trait."""

    error: float
    coverage: float
    unknown: int  # among works with votes on the core topics
    before: int  # the same, by the share of yes
    violated: int
    broken: int  # of the violated
    clear: int
    core_true: int  # of the clear
    clear_shares: Floats


def main() -> None:
    results = [simulated(*kind) for kind in product((0.05, 0.15, 0.3), (0.0, 0.1), (0.3, 0.6, 0.9))]
    for error, name in ((0.05, "5"), (0.15, "15")):
        ratio = max(result.unknown / result.before for result in results if result.error == error)
        figure(f"evidence.unknown_ratio_{name}", ratio, "ratio", "<= 0.5")
    false = max(result.core_true / max(result.clear, 1) for result in results)
    figure("evidence.false_clear_core", false, "share", "<= 0.015")
    usual = min(result.broken / max(result.violated, 1) for result in results if result.error < 0.3)
    figure("evidence.precision_violated", usual, "share", ">= 0.97")
    # if voters err that often, a thousand works are needed to estimate it: 0.3 x 3,000 are fewer
    rough = min(
        result.broken / max(result.violated, 1) for result in results if result.error == 0.3 and result.coverage > 0.3
    )
    figure("evidence.precision_violated_30", rough, "share", ">= 0.95")
    shares = [result.clear_shares for result in results if result.coverage == 0.9 and result.error < 0.3]
    figure("evidence.traits_a_fifth_clear", min(int((share >= 0.2).sum()) for share in shares), "traits", ">= 10")
    if data := real_data("real titles"):
        with tempfile.TemporaryDirectory() as folder:
            real = catalogued(data, Path(folder))
        recommended(data, real)
        as_read(real)


TRUTH = DATA / "evidence_truth.csv"


@dataclass(frozen=True)
class Real:
    """Films of MovieLens-20M with their keywords and rating reasons, and games with their descriptors."""

    items: pl.DataFrame
    links: dict[str, str]
    said: pl.DataFrame
    oracle: Oracle


def catalogued(data: Path, folder: Path) -> Real:
    ws = Workspace.create(folder / "ws")
    adding.add_catalog(ws, "movielens", [data / "movielens27k"])
    adding.add_catalog(ws, "esrb", [data / "esrb" / "kaggle_video_games_esrb_rating.csv"])
    add_statements(ws, data, folder)
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    statements = verdicts.statements(items, links, workspace.read(ws, tables.WARNINGS))
    return Real(items, dict(links.iter_rows()), statements, verdicts.risks_of(items, statements, ws.taxonomy)[0])


def recommended(data: Path, real: Real) -> None:
    """Verdicts on the titles of four models' lists that link to MovieLens-20M, by keywords and rating reasons only."""
    index, rows = catalog.index(real.items), list(json_lines(data / "llm_recs_inspired" / "recs.jsonl.gz"))
    for trait in ("gore", "substance_use", "sexual_violence"):
        counts: dict[str, Counter[str]] = {}
        for row in rows:
            items = (titles.find(index, *titles.split_year(name), "film").item for name in row["titles"])
            words = (violations.verdict(real.oracle, item, [trait]) for item in items if item)
            counts.setdefault(row["model"], Counter()).update(words)
        worst = max(count["unknown"] / count.total() for count in counts.values())
        figure(f"evidence.{trait}_unknown_of_linked", worst, "share", "<= 0.65" if trait == "gore" else "none")


def as_read(real: Real) -> None:
    """Current verdicts against both readings; a pair on which the readings differ counts as unsure."""
    rows = list(csv.DictReader(TRUTH.open(encoding="utf-8")))
    kappa = cohen_kappa_score(*([row[reading] for row in rows] for reading in ("first", "second")))
    figure("evidence.truth_kappa", kappa, "", f"{len(rows)} pairs")
    read: dict[tuple[str, str], Counter[str]] = {}
    rules: dict[str, Counter[str]] = {}
    for row in rows:
        item, trait = real.links.get(row["work"]), TRAITS[row["trait"]]  # None: a row that the reader left out
        word, true = violations.verdict(real.oracle, item, [trait.slug]), row["first"]
        true = true if true == row["second"] else "unsure"
        kind = "game" if row["work"].startswith("esrb:") else "film"
        for key in ((kind, word), (trait.slug, word)):
            read.setdefault(key, Counter())[true] += 1
        class_rows = verdicts.class_statements(real.said.filter(item=item or ""), trait.core)
        class_rows = class_rows.filter(pl.col("precision") > 0)
        for rule in set(class_rows.select(pl.when(kind="reason").then("key").otherwise("asked"))["key"]):
            rules.setdefault(rule, Counter())[true] += 1
    for (group, word), counts in sorted(read.items()):
        print(f"  {group:<20}{word:<10}{dict(counts)}")
    for rule, counts in sorted(rules.items()):
        figure(f"evidence.rule: {rule}", _yes(counts), f"{counts['yes']}+{counts['no']}+{counts['unsure']}?", ">= 0.97")
    for kind in ("film", "game"):
        figure(f"evidence.read_violated_{kind}", _yes(read[kind, "violated"]), "share", ">= 0.90")
    clear = read["game", "clear"]  # no film is clear: no bound on false clear is claimed for films
    figure("evidence.read_false_clear_game", _yes(clear), f"of {clear['yes'] + clear['no']}", "told")
    high = clopper_pearson(clear["yes"], clear["yes"] + clear["no"])[1]
    figure("evidence.read_false_clear_game_upper", high, "share", "told")
    code_counts = {slug: np.bincount(real.oracle.codes[:-1, n], minlength=3) for slug, n in real.oracle.traits.items()}
    for slug, (unknown, clear_items, broken) in code_counts.items():
        print(f"  {slug:<20}{broken:>6} violated {clear_items:>6} clear {unknown:>6} unknown")


def _yes(found: Counter[str]) -> float:
    return found["yes"] / max(1, found["yes"] + found["no"])


def simulated(error: float, rho: float, coverage: float) -> Told:
    rng = np.random.default_rng(11)
    names, shape = TRAITS.topics, (WORKS, len(TRAITS.topics))
    truth = rng.random(shape) < np.exp(rng.uniform(np.log(0.02), np.log(0.4), shape[1]))
    n = np.where(rng.random(shape) < coverage, 1 + rng.geometric(1 / 20, shape), 0)
    mean, k = np.where(truth, 1 - error, error), 1 / rho - 1 if rho else None
    yes = rng.binomial(n, mean if k is None else rng.beta(mean * k, (1 - mean) * k))
    share = np.where(n > 0, violations.p_yes(yes, n - yes), np.nan)
    counts = {t: vote_model.votes(yes[v, c], (n - yes)[v, c]) for c, t in enumerate(names) if (v := n[:, c] > 0).any()}
    models = vote_model.learn(counts)
    p = np.column_stack([vote_model.posterior(models[t], yes[:, c], (n - yes)[:, c]) for c, t in enumerate(names)])
    sums, shares = np.zeros(6, int), []
    for trait in TRAITS.traits:
        counts_of = _counted(trait, truth, share, p)
        sums += counts_of
        shares.append(counts_of[4] / WORKS)
    return Told(error, coverage, *map(int, sums), clear_shares=np.array(shares))


def _counted(trait: taxonomy.Trait, truth: NDArray[np.bool_], share: Floats, p: Floats) -> NDArray[np.int64]:
    """unknown, before, violated, broken, clear and core_true of Told, for one trait."""
    topics = [TRAITS.topics.index(t) for t in trait.topics]
    core = [TRAITS.topics.index(t) for t in trait.core]
    nothing = np.full((WORKS, 5), np.nan)
    _, codes = violations.judge(trait, TRAITS.topics, p, nothing, nothing[:, 0])
    voted = ~np.isnan(share[:, core]).any(axis=1)
    yes, no = (share[:, topics] >= 0.9).any(axis=1), (share[:, core] <= 0.1).all(axis=1)
    settled = yes | (no & ~(share[:, topics] > 0.5).any(axis=1))
    broken, wrong = truth[:, topics].any(axis=1), truth[:, core].any(axis=1)
    violated, clear = codes == VIOLATED, codes == CLEAR
    masks = (voted & (codes == UNKNOWN), voted & ~settled, violated, violated & broken, clear, clear & wrong)
    return np.array([flags.sum() for flags in masks])
