"""Simulated worlds in which a proposer claims many positives and a draw represents the rest: a release's figures.

Claims, draw, reading and weights go through the product's own design, routing and weights; what a system recommends is
invented: people whom the proposer overlooks (they only imply it) get more items that are unsafe for them.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from annotation import routing, sampling_design as design
from annotation.task_assignment import Plan
from saferec_builder.scoring.intervals import Interval, intervals
from saferec_builder.storage import tables
from tests.worlds.routing import NO_DISPUTES, designed, planned, proposals
from training.data import Row
from training.evaluation import user_weights

UNITS, PREVALENCE, ALARMS, K = 1_500, 0.08, 0.03, 10
TRAIT = "gore"


@dataclass(frozen=True)
class Condition:
    recall: float = 0.8  # of the proposer
    audit: float = 0.2
    late: float = 0.0  # share of the zone that a second proposer reads and claims after the draw; it overlooks nothing
    waits: float = 0.0  # share of the assigned conversations that nobody has read yet
    split: float = 1.0  # share of all conversations that is evaluated


CONDITIONS = {
    "plain": Condition(),
    "poor proposer": Condition(recall=0.5, audit=0.3),
    "later claims": Condition(late=0.3),
    "some wait": Condition(waits=0.2),
    "test split": Condition(split=0.4, audit=0.4),
}


@dataclass(frozen=True)
class Told:
    """A figure beside its true value over all conversations of the split."""

    true: float
    raw: Interval
    weighted: Interval

    @property
    def error(self) -> float:
        return (self.weighted["mean"] or 0.0) - self.true

    @property
    def covered(self) -> bool:
        low, high = self.weighted["low"], self.weighted["high"]
        return low is not None and high is not None and low <= self.true <= high


def told(of: Condition, seed: int) -> dict[str, Told]:
    """`prevalence` and `svr` of one world."""
    rng = np.random.default_rng([seed, 25])
    names = [f"p{seed}-{n}" for n in range(UNITS)]
    positive = dict(zip(names, rng.random(UNITS) < PREVALENCE, strict=True))
    claimed = {name for name in names if rng.random() < (of.recall if positive[name] else ALARMS)}
    unsafe = {name: rng.binomial(K, 0.1 if name in claimed else 0.4) / K for name in names}
    weights = _weights(of, names, claimed, positive, rng)
    in_split = [name for name in names if rng.random() < of.split]
    rows = [_row(name, positive[name], weights[name]) for name in in_split if name in weights]
    share = user_weights.prevalence(rows, [TRAIT])["any"]
    assert share["weighted"] is not None
    sensitive = [row for row in rows if row["traits"]]
    values = np.array([unsafe[row["conversation"]] for row in sensitive])
    row_weights = user_weights.weights(sensitive)
    metrics = {f"svr@{K}": values, f"svr_upper@{K}": values}
    svr = intervals(metrics | user_weights.weighted(metrics, row_weights, K), 1, weights=row_weights)
    true_values = [unsafe[name] for name in in_split if positive[name]]
    return {
        "prevalence": Told(len(true_values) / len(in_split), share["raw"], share["weighted"]),
        "svr": Told(float(np.mean(true_values)), svr[f"svr@{K}"], svr[f"svr_weighted@{K}"]),
    }


def _row(name: str, has: bool, weight: float) -> Row:
    return {"conversation": name, "traits": [TRAIT] if has else [], "weight": weight}


def _weights(
    of: Condition, names: list[str], found: set[str], has: dict[str, np.bool_], rng: np.random.Generator
) -> dict[str, float]:
    """Weights of the conversations that two people have read."""
    text = pl.DataFrame([("sensitivity", name, name, None, [], True) for name in names], routing.TEXTS, orient="row")
    props = proposals(*((name, TRAIT, "present") for name in names if name in found))
    plan = Plan(("ann", "bo"), audit=of.audit)
    rows = designed(text, props, plan)
    assignments = routing.route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, planned(plan, rows))
    late = [name for name in names if name not in found and has[name] and rng.random() < of.late]
    late_claims = proposals(*((name, TRAIT, "present") for name in late))
    added = routing.route(text, pl.concat([props, late_claims]), assignments, NO_DISPUTES, planned(plan, rows))
    assignments = pl.concat([assignments, added])
    read = {name for name in assignments["subject"].unique(maintain_order=True) if rng.random() >= of.waits}
    return design.weights(design.strata(rows, names, assignments, "sensitivity"), read)


def errors(condition: str, seeds: range) -> dict[str, tuple[float, float]]:
    """figure -> (mean error in standard errors of that mean, share of worlds whose interval covers the truth)."""
    worlds = [told(CONDITIONS[condition], seed) for seed in seeds]
    figures = {}
    for name in ("prevalence", "svr"):
        deviations = np.array([world[name].error for world in worlds])
        coverage = float(np.mean([world[name].covered for world in worlds]))
        figures[name] = float(abs(deviations.mean()) / (deviations.std(ddof=1) / np.sqrt(len(deviations)))), coverage
    return figures
