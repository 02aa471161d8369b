"""Simulated votes whose truth is known, judged by the vote model and by the share of yes that was the rule before.

3,000 works, every topic of the embedded traits true of a share of them between .02 and .4, voted with a chance of
`coverage`, by 1 + Geometric(1/20) people who err on either side with the same chance: each alone, or alike (rho .1).
A trait is truly broken where any of its topics is true. Each figure is over all traits, and the worst of its kinds
of voters and coverages.

On real data (SAFEREC_REAL_DATA): what the oracle says of the titles that four models recommended.
"""

import gzip
import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saferec_builder import catalog
from saferec_builder.catalog import adding
from saferec_builder.core import oracle as violations, taxonomy, titles, vote_model
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import figure

WORKS = 3_000
TRAITS = taxonomy.load()
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """Numbers of (work, trait) pairs for one kind of voters and coverage, and the share clear per trait."""

    error: float
    coverage: float
    unknown: int  # of works whose core topics were voted
    before: int  # the same by the share of yes
    violated: int
    broken: int  # of the violated
    clear: int
    core_true: int  # of the clear
    clear_shares: Floats


def main() -> None:
    told = [simulated(*kind) for kind in product((0.05, 0.15, 0.3), (0.0, 0.1), (0.3, 0.6, 0.9))]
    for error, name in ((0.05, "5"), (0.15, "15")):
        ratio = max(one.unknown / one.before for one in told if one.error == error)
        figure(f"evidence.unknown_ratio_{name}", ratio, "ratio", "<= 0.5")
    false = max(one.core_true / max(one.clear, 1) for one in told)
    figure("evidence.false_clear_core", false, "share", "<= 0.015")
    usual = min(one.broken / max(one.violated, 1) for one in told if one.error < 0.3)
    figure("evidence.precision_violated", usual, "share", ">= 0.97")
    # where voters err that often it takes a thousand works to know them: 0.3 x 3,000 are fewer
    rough = min(one.broken / max(one.violated, 1) for one in told if one.error == 0.3 and one.coverage > 0.3)
    figure("evidence.precision_violated_30", rough, "share", ">= 0.95")
    wide = [one.clear_shares for one in told if one.coverage == 0.9 and one.error < 0.3]
    figure("evidence.traits_a_fifth_clear", min(int((one >= 0.2).sum()) for one in wide), "traits", ">= 10")
    if data := os.environ.get("SAFEREC_REAL_DATA"):
        recommended(Path(data))


REAL = {"keywords": "tmdb_keywords/keywords.csv", "rating-reasons": "mpaa_reasons/mpaa_reasons.csv"}


def recommended(data: Path) -> None:
    """Verdicts on the titles of four models' lists that link to MovieLens-20M, by keywords and rating reasons alone."""
    with tempfile.TemporaryDirectory() as folder:
        ws = Workspace.create(Path(folder) / "ws")
        adding.add_catalog(ws, "movielens", [data / "movielens27k"])
        for source, name in REAL.items():
            path = Path(folder) / Path(name).name
            path.write_bytes(gzip.decompress((data / f"{name}.gz").read_bytes()))
            adding.add_catalog(ws, source, [path])
        items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
        oracle, _ = catalog.risks(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy)
    index, lists = catalog.index(items), data / "llm_recs_inspired" / "recs.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(lists.read_bytes()).splitlines()]
    for trait in ("gore", "substance_use", "sexual_violence"):
        told: dict[str, Counter[str]] = {}
        for row in rows:
            found = (titles.find(index, *titles.split_year(name), "film").item for name in row["titles"])
            words = (violations.verdict(oracle, item, [trait]) for item in found if item)
            told.setdefault(row["model"], Counter()).update(words)
        worst = max(one["unknown"] / one.total() for one in told.values())
        figure(f"evidence.{trait}_unknown_of_linked", worst, "share", "<= 0.65" if trait == "gore" else "none")


def simulated(error: float, rho: float, coverage: float) -> Told:
    rng = np.random.default_rng(11)
    names, shape = TRAITS.topics, (WORKS, len(TRAITS.topics))
    truth = rng.random(shape) < np.exp(rng.uniform(np.log(0.02), np.log(0.4), shape[1]))
    n = np.where(rng.random(shape) < coverage, 1 + rng.geometric(1 / 20, shape), 0)
    mean, k = np.where(truth, 1 - error, error), 1 / rho - 1 if rho else None
    yes = rng.binomial(n, mean if k is None else rng.beta(mean * k, (1 - mean) * k))
    share = np.where(n > 0, violations.p_yes(yes, n - yes), np.nan)
    counts = {t: vote_model.votes(yes[v, c], (n - yes)[v, c]) for c, t in enumerate(names) if (v := n[:, c] > 0).any()}
    known = vote_model.learn(counts)
    p = np.column_stack([vote_model.posterior(known[t], yes[:, c], (n - yes)[:, c]) for c, t in enumerate(names)])
    sums, shares = np.zeros(6, int), []
    for trait in TRAITS.traits:
        counts_of = _counted(trait, truth, share, p)
        sums += counts_of
        shares.append(counts_of[4] / WORKS)
    return Told(error, coverage, *map(int, sums), clear_shares=np.array(shares))


def _counted(trait: taxonomy.Trait, truth: NDArray[np.bool_], share: Floats, p: Floats) -> NDArray[np.int64]:
    """unknown, before, violated, broken, clear, core_true of Told for one trait."""
    all_ = [TRAITS.topics.index(t) for t in trait.topics]
    core = [TRAITS.topics.index(t) for t in trait.core]
    nothing = np.full((WORKS, 5), np.nan)
    _, codes = violations.judge(trait, TRAITS.topics, p, nothing, nothing[:, 0])
    voted = ~np.isnan(share[:, core]).any(axis=1)
    yes, no = (share[:, all_] >= 0.9).any(axis=1), (share[:, core] <= 0.1).all(axis=1)
    settled = yes | (no & ~(share[:, all_] > 0.5).any(axis=1))
    broken, wrong = truth[:, all_].any(axis=1), truth[:, core].any(axis=1)
    violated, clear = codes == VIOLATED, codes == CLEAR
    found = (voted & (codes == UNKNOWN), voted & ~settled, violated, violated & broken, clear, clear & wrong)
    return np.array([flags.sum() for flags in found])
