"""Simulated worlds with known truth for the certificates: a proposer with a stated recall, scores, and blind positives.

A score is normal: mean 0 for negatives and for the positives that the proposer cannot see, higher for the others. Units
above the threshold are proposed. Thresholds and shares were fixed before the first run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from annotation import confidence_bounds as certificates

UNITS = 10_000
RARE = (0.005, 0.006, 0.007, 0.008, 0.01, 0.012, 0.014, 0.016, 0.018)
PREVALENCE = (*RARE, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12)
COMMON = 0.02  # from this prevalence on, a trait's own bound is promised


@dataclass(frozen=True)
class Regime:
    name: str
    recall: float  # share of the positives that are proposed
    blind: float  # share of the positives whose score carries no information
    alarms: float  # share of the negatives that are proposed


REGIMES = (Regime("good", 0.97, 0.005, 0.01), Regime("mediocre", 0.90, 0.02, 0.02), Regime("poor", 0.75, 0.08, 0.04))


@dataclass(frozen=True)
class Trait:
    truth: NDArray[np.bool_]
    score: NDArray[np.float64]
    proposed: NDArray[np.bool_]


def draw(rng: np.random.Generator, regime: Regime, prevalence: float, units: int = UNITS) -> Trait:
    normal = NormalDist()
    threshold = normal.inv_cdf(1 - regime.alarms)
    shift = threshold + normal.inv_cdf(regime.recall / (1 - regime.blind))
    truth = rng.random(units) < prevalence
    seen = truth & (rng.random(units) >= regime.blind)
    score = rng.normal(size=units) + shift * seen
    return Trait(truth, score, score > threshold)


def boundary(rng: np.random.Generator, prevalence: float, units: int = UNITS) -> Trait:
    """The worst case: scores say nothing about what was not proposed, and the missed share is just above ALPHA."""
    truth = rng.random(units) < prevalence
    positives = np.flatnonzero(truth)
    hidden = rng.choice(positives, size=int(len(positives) * certificates.ALPHA) + 1, replace=False)
    proposed = truth.copy()
    proposed[hidden] = False
    return Trait(truth, rng.normal(size=units), proposed)


@dataclass(frozen=True)
class Outcome:
    reviews: int
    certified: bool
    wrong: bool  # certified, and more than ALPHA is missed in truth


def certify(trait: Trait, rng: np.random.Generator, *, band: bool = True, every: int = 25) -> Outcome:
    """Reads proposals, the planned band, then the audit until the certificate holds, checked every `every` units."""
    order = np.flatnonzero(~trait.proposed)
    order = order[np.argsort(-trait.score[order])]
    read = int(trait.proposed.sum())
    found = int(trait.truth[trait.proposed].sum())
    if band:
        size = _band(trait, order, found)
        found, read, order = found + int(trait.truth[order[:size]].sum()), read + size, order[size:]
    outcomes = trait.truth[rng.permutation(order)].astype(np.int64)
    n, certified = first(found, outcomes, every)
    missed = int(outcomes[n:].sum())
    total = found + int(outcomes.sum())
    return Outcome(read + n, certified, certified and missed > certificates.ALPHA * total + 1e-9)


def random_order(trait: Trait, rng: np.random.Generator, every: int = 25) -> Outcome:
    """Reads everything in random order, with the same bound: the cost without scores and proposals."""
    outcomes = trait.truth[rng.permutation(len(trait.truth))].astype(np.int64)
    n, certified = first(0, outcomes, every)
    return Outcome(n, certified, certified and int(outcomes[n:].sum()) > certificates.ALPHA * outcomes.sum() + 1e-9)


def first(found: int, outcomes: NDArray[np.int64], every: int) -> tuple[int, bool]:
    """(units audited when the certificate first holds, whether it does); all of them where it never does."""
    seen = np.cumsum(outcomes)
    audit = certificates.Audit(found, len(outcomes), ())
    steps = np.append(np.arange(every, len(outcomes), every), len(outcomes))
    if not len(outcomes):
        return 0, True
    for n in steps.tolist():
        positives = int(seen[n - 1])
        evidence = certificates._evidence(audit, n, positives)
        if evidence >= -np.log(certificates.DELTA) and (found + positives >= certificates.ENOUGH or n == len(outcomes)):
            return n, True
    return len(outcomes), False


def curve(
    trait: Trait, rng: np.random.Generator, *, band: bool, blind: bool = False, every: int = 100
) -> list[tuple[int, float]]:
    """(units read, bound on the missed share) along the way; `blind`: everything in random order, no proposals."""
    done = np.zeros(0, dtype=np.int64) if blind else np.flatnonzero(trait.proposed)
    order = np.setdiff1d(np.arange(len(trait.truth)), done)
    order = order[np.argsort(-trait.score[order])]
    size = _band(trait, order, int(trait.truth[done].sum())) if band else 0
    done, order = np.concatenate([done, order[:size]]), order[size:]
    audit = certificates.Audit(int(trait.truth[done].sum()), len(order), ())
    seen = np.cumsum(trait.truth[rng.permutation(order)].astype(np.int64))
    points, lowest = [], 1.0
    for n in [*range(every, len(order), every), len(order)]:
        positives = int(seen[n - 1])
        upper = certificates.upper(audit, n, positives)
        lowest = min(lowest, (upper - positives) / max(upper + audit.found, 1))  # the best bound so far
        points.append((len(done) + n, lowest))
    return points


def _band(trait: Trait, order: NDArray[np.int64], found: int) -> int:
    """Reads by score in growing steps and plans again after each: the chances are fitted to what was read."""
    done, size = np.flatnonzero(trait.proposed), 0
    while True:
        read = np.concatenate([done, order[:size]])
        chances = fitted(trait.score[read], trait.truth[read], trait.score[order[size:]])
        more = certificates.plan(found + int(trait.truth[order[:size]].sum()), chances)
        if more <= 25 or size >= len(order):
            return size
        size += max(25, min(more // 2, max(size, 250)))  # a guess far ahead is a poor one


def fitted(scores: NDArray[np.float64], truth: NDArray[np.bool_], wanted: NDArray[np.float64]) -> list[float]:
    """P(positive) at the `wanted` scores, by a logistic curve fitted to what was read (Newton, slightly shrunk)."""
    x = np.stack([np.ones_like(scores), scores])
    shrink = np.array([1e-3, 1e-2])

    def fit(w: NDArray[np.float64]) -> float:
        z = w @ x
        return float((truth * z - np.logaddexp(0, z)).sum() - (shrink * w * w).sum() / 2)

    weights = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-(weights @ x)))
        slope = x @ (truth - p) - shrink * weights
        step = np.linalg.solve((x * (p * (1 - p))) @ x.T + np.diag(shrink), slope)
        while fit(weights + step) < fit(weights) and np.abs(step).max() > 1e-6:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() < 1e-4:
            break
    return (1 / (1 + np.exp(-np.clip(weights[0] + weights[1] * wanted, -30, 30)))).tolist()


def worlds(regime: Regime, seeds: range) -> Iterator[tuple[int, list[Trait]]]:
    for seed in seeds:
        rng = np.random.default_rng([seed, len(regime.name)])
        yield seed, [draw(rng, regime, p) for p in PREVALENCE]


def pooled(traits: list[Trait]) -> Trait:
    """All units of all traits as one population, each trait's scores as they are."""
    return Trait(*(np.concatenate([getattr(t, f) for t in traits]) for f in ("truth", "score", "proposed")))
