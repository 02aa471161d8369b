"""Worlds in which a proposer claims much of what is there and a draw speaks for the rest: what a release says of all.

Who is claimed, drawn, read and weighed goes through the product's own design, routing and weights; what a system
recommends is invented: people whom the proposer overlooks (they only imply it) get more that is unsafe for them.
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
from training.evaluation import population

UNITS, PREVALENCE, ALARMS, K = 1_500, 0.08, 0.03, 10
TRAIT = "gore"


@dataclass(frozen=True)
class Condition:
    recall: float = 0.8  # of the proposer
    audit: float = 0.2
    late: float = 0.0  # share of the zone that a second proposer reads and claims after the draw; it overlooks nothing
    waits: float = 0.0  # share of what was given to people that nobody has read yet
    split: float = 1.0  # the share of all that is evaluated


CONDITIONS = {
    "plain": Condition(),
    "poor proposer": Condition(recall=0.5, audit=0.3),
    "later claims": Condition(late=0.3),
    "some wait": Condition(waits=0.2),
    "test split": Condition(split=0.4, audit=0.4),
}


@dataclass(frozen=True)
class Told:
    """A figure beside what is true of all conversations of the split."""

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
    has = dict(zip(names, rng.random(UNITS) < PREVALENCE, strict=True))
    found = {c for c in names if rng.random() < (of.recall if has[c] else ALARMS)}
    unsafe = {c: rng.binomial(K, 0.1 if c in found else 0.4) / K for c in names}
    weights = _weights(of, names, found, has, rng)
    asked = [c for c in names if rng.random() < of.split]
    table = [_row(c, has[c], weights[c]) for c in asked if c in weights]
    share = population.prevalence(table, [TRAIT])["any"]
    assert share["weighted"] is not None
    people = [row for row in table if row["traits"]]
    values = np.array([unsafe[row["conversation"]] for row in people])
    drawn = population.weights(people)
    both = {f"svr@{K}": values, f"svr_upper@{K}": values}
    svr = intervals(both | population.weighted(both, drawn, K), 1, weights=drawn)
    true = [unsafe[c] for c in asked if has[c]]
    return {
        "prevalence": Told(len(true) / len(asked), share["raw"], share["weighted"]),
        "svr": Told(float(np.mean(true)), svr[f"svr@{K}"], svr[f"svr_weighted@{K}"]),
    }


def _row(name: str, has: bool, weight: float) -> Row:
    return {"conversation": name, "traits": [TRAIT] if has else [], "weight": weight}


def _weights(
    of: Condition, names: list[str], found: set[str], has: dict[str, np.bool_], rng: np.random.Generator
) -> dict[str, float]:
    """Of what two people have read."""
    text = pl.DataFrame([("sensitivity", c, c, None, [], True) for c in names], routing.TEXTS, orient="row")
    props = proposals(*((c, TRAIT, "present") for c in names if c in found))
    said = Plan(("ann", "bo"), audit=of.audit)
    rows = designed(text, props, said)
    given = routing.route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, planned(said, rows))
    later = [c for c in names if c not in found and has[c] and rng.random() < of.late]
    more = proposals(*((c, TRAIT, "present") for c in later))
    again = routing.route(text, pl.concat([props, more]), given, NO_DISPUTES, planned(said, rows))
    given = pl.concat([given, again])
    read = {c for c in given["subject"].unique(maintain_order=True) if rng.random() >= of.waits}
    return design.weights(design.strata(rows, names, given, "sensitivity"), read)


def errors(condition: str, seeds: range) -> dict[str, tuple[float, float]]:
    """figure -> (mean error in standard errors of that mean, share of worlds in which the interval holds the truth)."""
    worlds = [told(CONDITIONS[condition], seed) for seed in seeds]
    found = {}
    for name in ("prevalence", "svr"):
        off = np.array([world[name].error for world in worlds])
        held = float(np.mean([world[name].covered for world in worlds]))
        found[name] = float(abs(off.mean()) / (off.std(ddof=1) / np.sqrt(len(off)))), held
    return found
