"""The probability that a topic is true of a work, given its votes: voters err, and not independently.

A two-coin model with beta-binomial votes. A work has the topic with probability `prevalence`. Of its n votes
yes ~ BetaBin(n, m k, (1 - m) k), m = hit where the topic is true and slip where it is not, k = 1 / rho - 1; rho is how
much the voters of one work agree beyond chance. EM finds hit, slip and rho on a grid, at the maximum of the posterior
under hit ~ Beta(8, 2), 1 - slip ~ Beta(18, 2), rho ~ Beta(2, 18), and the mean of prevalence under Beta(1, 3).
Topics with fewer than ENOUGH voted works are learnt together, each with its own prevalence. Where these have fewer than
ENOUGH in total, nothing is learnt (`learnt` False): the modes of the priors are used, and as a prior alone settles
nothing, it takes FEW votes to violate and nine tenths of no to clear. Votes with hit - slip < TELLING say nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ENOUGH = 300  # voted works that determine hit and slip to about .03
FEW = 8  # votes that settle a topic whose voters were not learnt
TELLING = 0.36  # least hit - slip of votes that say anything
MOST = 200  # votes of a work: more are scaled down to as many, with the same share
_HITS: Floats = np.array(np.linspace(0.5, 0.99, 26), np.float64)
_SLIPS: Floats = np.array([*np.linspace(0.005, 0.05, 7), *np.linspace(0.06, 0.45, 22)])
_RHOS = np.array([0.002, 0.01, 0.03, 0.05, 0.075, 0.1, 0.14, 0.2, 0.3])
_ROUNDS = 200


@dataclass(frozen=True)
class Voters:
    """The voters of a topic: P(yes | true), P(yes | not true), their agreement, and how often the topic is true."""

    hit: float
    slip: float
    rho: float
    prevalence: float
    works: int  # with a vote on the topic
    learnt: bool


@dataclass(frozen=True)
class Votes:
    """The distinct counts of one topic: `works` works have `yes` of `votes`."""

    yes: Ints
    votes: Ints
    works: Ints


def votes(yes: ArrayLike, no: ArrayLike, works: ArrayLike | None = None) -> Votes:
    """Builds Votes from counts per work, or per pair of counts that `works` share; more than MOST are scaled down."""
    yes, no = np.asarray(yes, np.int64), np.asarray(no, np.int64)
    weights = np.ones(len(yes), np.int64) if works is None else np.asarray(works, np.int64)
    scaled, n = _scaled(yes, no)
    pairs, places = np.unique(scaled * (MOST + 1) + n, return_inverse=True)
    return Votes(pairs // (MOST + 1), pairs % (MOST + 1), np.bincount(places, weights, len(pairs)).astype(np.int64))


def _scaled(yes: Ints, no: Ints) -> tuple[Ints, Ints]:
    total = yes + no
    n = np.minimum(total, MOST)
    return np.rint(yes * (n / np.maximum(total, 1))).astype(np.int64), n


def learn(by_topic: Mapping[str, Votes]) -> dict[str, Voters]:
    """Returns topic -> its voters."""
    size = {topic: int(counts.works.sum()) for topic, counts in by_topic.items()}
    few = [topic for topic in by_topic if size[topic] < ENOUGH]
    pooled = sum(size[topic] for topic in few)
    voters: dict[str, Voters] = {}
    for group, learnt in (*(([t], True) for t in by_topic if t not in few), (few, pooled >= ENOUGH)):
        voters |= _fitted({topic: by_topic[topic] for topic in group}, learnt)
    return {topic: voters[topic] for topic in by_topic}


def _fitted(votes_by_topic: Mapping[str, Votes], learnt: bool) -> dict[str, Voters]:
    if not votes_by_topic:
        return {}
    counts = list(votes_by_topic.values())
    yes, n, works = (np.concatenate([getattr(part, name) for part in counts]) for name in ("yes", "votes", "works"))
    topic = np.repeat(np.arange(len(counts)), [len(part.yes) for part in counts])
    total = np.bincount(topic, works, len(counts))
    true, not_true = _log_likelihood(_HITS, _RHOS, yes, n), _log_likelihood(_SLIPS, _RHOS, yes, n)
    prior_true = 7 * np.log(_HITS)[:, None] + np.log(1 - _HITS)[:, None] + np.log(_RHOS) + 17 * np.log(1 - _RHOS)
    prior_not = np.broadcast_to(17 * np.log(1 - _SLIPS)[:, None] + np.log(_SLIPS)[:, None], not_true.shape[:2])
    prevalence, previous = np.full(len(counts), 0.25), (-1, -1, -1)
    best = (int(np.abs(_HITS - 0.875).argmin()), int(np.abs(_SLIPS - 0.056).argmin()), 3)  # the modes of the priors
    for _ in range(_ROUNDS if learnt else 0):
        odds = np.log(prevalence / (1 - prevalence))[topic] + true[best[0], best[2]] - not_true[best[1], best[2]]
        chance = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        updated = (np.bincount(topic, chance * works, len(counts)) + 1) / (total + 4)
        yes_weight, no_weight = chance * works, (1 - chance) * works
        previous, best = best, _best(prior_true + true @ yes_weight, prior_not + not_true @ no_weight)
        if np.abs(updated - prevalence).max() < 1e-5 and previous == best:
            break
        prevalence[:] = updated
    hit, slip, rho = (float(grid[place]) for grid, place in zip((_HITS, _SLIPS, _RHOS), best, strict=True))
    return {
        name: Voters(hit, slip, rho, float(p), int(n_works), learnt)
        for name, p, n_works in zip(votes_by_topic, prevalence, total, strict=True)
    }


def _best(true: Floats, not_true: Floats) -> tuple[int, int, int]:
    """Places on the grids of hit, slip and rho where the sum of both is largest."""
    rho = int((true.max(axis=0) + not_true.max(axis=0)).argmax())
    return int(true[:, rho].argmax()), int(not_true[:, rho].argmax()), rho


def posterior(voters: Voters, yes: ArrayLike, no: ArrayLike) -> Floats:
    """P(true | votes) of each work; NaN without a vote or where hit - slip < TELLING: a prior is no answer."""
    yes, no = np.asarray(yes, np.int64), np.asarray(no, np.int64)
    y, n = _scaled(yes, no)
    rho = np.array([voters.rho])
    true, not_true = (_log_likelihood(np.array([m]), rho, y, n)[0, 0] for m in (voters.hit, voters.slip))
    odds = np.log(voters.prevalence / (1 - voters.prevalence)) + true - not_true
    chance = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    if not voters.learnt:
        total = yes + no
        chance = np.where(total < FEW, np.clip(chance, 0.1, 0.9), chance)
        chance = np.where(10 * (yes + 1) > total + 2, np.fmax(chance, 0.1), chance)
    chances: Floats = np.where((n > 0) & (voters.hit - voters.slip >= TELLING), chance, np.nan)
    return chances


def _log_likelihood(means: Floats, rhos: Floats, yes: Ints, n: Ints) -> Floats:
    """log P(yes | n, mean, rho) without the binomial coefficient: means x rhos x counts."""
    up, down, both = _rising(tuple(means), tuple(rhos))
    result: Floats = up[:, :, yes] + down[:, :, n - yes] - both[:, :, n]
    return result


@lru_cache(maxsize=512)
def _rising(means: tuple[float, ...], rhos: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """The logs of the rising factorials of m k, (1 - m) k and k, up to MOST."""
    m, k = np.array(means)[:, None, None], (1 / np.array(rhos) - 1)[None, :, None]
    steps = np.arange(MOST)
    logs = (np.cumsum(np.log(start + steps), axis=2) for start in (m * k, (1 - m) * k, k + 0 * m))
    up, down, both = (np.concatenate([np.zeros((*log.shape[:2], 1)), log], axis=2) for log in logs)
    return up, down, both
