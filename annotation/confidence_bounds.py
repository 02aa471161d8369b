"""Upper confidence bounds on the share that a dataset misses, from a blind audit that may be read every day.

reads  per trait: the size of the unread zone, the audit's outcomes in the order of the draw, the positives found before
gives  an upper bound on the missed share FN / (FN + TP) with 95 % confidence, and the audits needed to lower it

The zone are the units that only audits read; the audit is a uniform draw from it without replacement. For each possible
number M of positives in the zone, a prior-posterior ratio is an e-process: under the true M it ever exceeds 1 / delta
with a chance of at most delta (Ville), so one may look after every review and stop when the bound is good. The bound is
relative to the label that reviewers and the adjudicator would give. Whether those labels are right is another question:
`rate` bounds that on gold units.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, lgamma, log

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05  # the missed share that a certificate promises
DELTA = 0.05  # chance that a certificate is wrong
GUESS = 0.25  # the prior expects misses of about this share of what a certificate allows
PRICE = log(1 / DELTA) + 1.2  # the second: log E that the prior loses against one that knows M
ENOUGH = 4  # with fewer positives than this in all no share can be bounded
MOST = 1e6  # log E if every M above the limit is impossible; -MOST if every M of the prior is: JSON has no infinity
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Audit:
    """The counts for one trait. `outcomes` are the audited units in the order of the draw: 1 for a positive, else 0.

    A unit that was drawn and has no label (not read yet, unsure, unresolved) is a 1: unknown is not safe. It also
    counts in `holes`: it may be a positive, and is not found.
    """

    found: int  # positives among the units that are read for a reason other than the draw
    zone: int  # units that an audit represents, with the audited ones and those that have left the data since
    outcomes: tuple[int, ...]
    open: int = 0  # units outside the zone without a label, or with an unsure one: they count as missed
    holes: int = 0  # outcomes that are a 1 only for lack of a label: they count as missed
    elsewhere: int = 0  # positives found in the zone, but not by an outcome: by a later proposal or a score
    gone: int = 0  # positives found in the zone that have left the data since
    left: int | None = None  # units of the zone that are in the data and have no label; None: not counted
    auto: int = 0  # units of the zone with a label that nobody has read: neither missed nor found

    @property
    def audited(self) -> int:
        return len(self.outcomes)

    @property
    def misses(self) -> int:
        """Positives among the audited units, and the holes."""
        return sum(self.outcomes)

    @property
    def labels(self) -> int:
        """The positives that are found and still in the data."""
        return self.found + self.misses - self.holes + self.elsewhere - self.gone


@dataclass(frozen=True)
class Bound(Audit):
    """An audit and the bound computed from it. `share` is the upper bound on the missed share; None if the data cannot
    give one (for the reason `why`)."""

    share: float | None = None
    most: int = 0  # upper bound on the missed positives
    log_e: float = 0.0  # evidence against a missed share above ALPHA
    more: int | None = None  # further audits needed for ALPHA if misses stay as frequent; None: the zone is too small
    why: str = ""
    measured: bool = False  # blind controls measure what these reviewers themselves miss (controls.py)
    of_any: bool = False  # over any trait, not for one

    @property
    def within(self) -> bool:
        """Whether no more is missed, of what these reviewers would find, than a certificate allows."""
        return self.share is not None and self.share <= ALPHA

    @property
    def certified(self) -> bool:
        return self.within and self.measured


@dataclass(frozen=True)
class FalseShare:
    """The counts for labels `present`, and the bound computed from them. `outcomes` are the rechecked ones in the order
    of the draw: 1 if the adjudicator did not say `present`, or has not ruled yet. `share` is the upper bound on the
    share of labels `present` that are wrong; None before the first recheck."""

    zone: int  # labels without a ruling, and those that were rechecked
    outcomes: tuple[int, ...]
    right: int = 0  # further labels `present`, by rulings of the adjudicator
    waiting: int = 0  # outcomes that wait for a ruling: they are still labels, and count as wrong
    share: float | None = None
    more: int | None = None  # further rechecks needed for ALPHA if errors stay as frequent; None: all are too few

    @property
    def labels(self) -> int:
        """The current labels `present`: an overturned one is no longer counted."""
        return self.zone - sum(self.outcomes) + self.waiting + self.right

    @property
    def rechecked(self) -> int:
        return len(self.outcomes)

    @property
    def overturned(self) -> int:
        return sum(self.outcomes) - self.waiting

    @property
    def certified(self) -> bool:
        return self.share is not None and self.share <= ALPHA


def cut(outcomes: Sequence[int | None], zone: int) -> int:
    """How many outcomes of the draw to count, where None is a hole: all, or those before the hole at which the bound is
    best. Every beginning of a draw is a draw, and the bounds of all of them hold at once."""
    if None not in outcomes:
        return len(outcomes)
    hole = np.array([*(outcome is None for outcome in outcomes), True])
    n = np.flatnonzero(hole).astype(np.float64)
    x = np.cumsum([0, *(outcome != 0 for outcome in outcomes)])[hole].astype(np.float64)
    most = x + PRICE + np.sqrt(2 * PRICE * x)  # roughly the upper bound on the positives behind x of n
    return int(n[np.argmin(np.where(n > 0, x + (zone - n) * most / np.maximum(n, 1), np.inf))])


def bound(audit: Audit, delta: float = DELTA) -> Bound:
    """The bound after all of these outcomes; it ignores an earlier, better one, since the population may change."""
    n, x = audit.audited, audit.misses
    if audit.zone < n:
        raise ValueError(f"{n} units audited in a zone of {audit.zone}")
    missed = max(upper(audit, n, x, delta) - _found_in_zone(audit, x), 0)
    missed = (missed if audit.left is None else min(missed, audit.left)) + audit.open
    log_e = max(-MOST, min(_evidence(audit, n, x), MOST))
    share = missed / max(missed + audit.labels, 1)
    why = ""
    if audit.found + audit.zone + audit.open == 0:
        why = "nothing was found"
    elif audit.found + x + audit.elsewhere < ENOUGH and n < audit.zone and audit.left != 0:
        why = f"under {ENOUGH} positives were found"
    more = 0 if share <= ALPHA and not why else needed(audit, delta) if audit.zone else None
    return Bound(**vars(audit), share=None if why else share, most=missed, log_e=log_e, more=more, why=why)


def _found_in_zone(audit: Audit, x: int) -> int:
    """The positives found in the zone, if x of the outcomes are a 1."""
    return x - audit.holes + audit.elsewhere


def allowed(audit: Audit, x: int) -> int:
    """The largest M in the zone with which the missed share is within ALPHA; -1 if there is none.

    (M - found_in_zone + open) <= ALPHA (M - found_in_zone + open + found + found_in_zone - gone)
    """
    found_in_zone = _found_in_zone(audit, x)
    missed = int(np.floor(ALPHA * (audit.found + found_in_zone - audit.gone) / (1 - ALPHA) + 1e-9))
    if audit.left is not None and audit.left + audit.open <= missed:
        return audit.zone
    return max(-1, missed - audit.open + found_in_zone)


def upper(audit: Audit, n: int, x: int, delta: float = DELTA) -> int:
    """The largest M that n audits with x positives do not rule out."""
    zone = audit.zone
    evidence = _marginal(audit.found, zone, n, x)

    def ruled_out(m: int) -> bool:
        return bool(evidence - _likelihood(zone, n, x, np.array([m]))[0] >= log(1 / delta))

    falling = range(_mode(zone, n, x) + 1, zone - (n - x) + 1)  # from here the likelihood only falls
    return falling.start - 1 + bisect_left(falling, True, key=ruled_out)


def _evidence(audit: Audit, n: int, x: int) -> float:
    """log E against every M above what ALPHA allows, after n audits with x positives.

    The least favourable M is at the border, or at the likelihood's mode if that lies beyond it.
    """
    worst = max(allowed(audit, x) + 1, _mode(audit.zone, n, x))
    if worst > audit.zone - (n - x):
        return float("inf")
    marginal = _marginal(audit.found, audit.zone, n, x)
    return float(marginal - _likelihood(audit.zone, n, x, np.array([worst]))[0])


def _mode(zone: int, n: int, x: int) -> int:
    """The M that makes x of n most likely."""
    return min(zone - (n - x), max(x, (zone + 1) * x // n)) if n else 0


def _likelihood(zone: int, n: int, x: int, m: Ints) -> Floats:
    """log of the probability of this sequence of outcomes, for each M; -inf where it is impossible."""
    table = _log_factorials(zone)
    rest = zone - m
    possible = (m >= x) & (rest >= n - x)
    a, b = np.where(possible, m, x), np.where(possible, rest, n - x)
    chance = table[a] - table[a - x] + table[b] - table[b - (n - x)] - table[zone] + table[zone - n]
    return np.where(possible, chance, -np.inf)


def _marginal(found: int, zone: int, n: int, x: int) -> float:
    points, weights = _prior(zone, found)
    terms = weights + _likelihood(zone, n, x, points)
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum())) if np.isfinite(top) else -np.inf


@lru_cache(maxsize=256)
def _prior(zone: int, found: int) -> tuple[Ints, Floats]:
    """(points of M, log weights) of a prior chosen by the number `found` outside the zone now.

    That number may grow while the audit runs, and Ville's inequality assumes a fixed prior. Simulated (the slow test:
    600 worlds of 400 units, 8 or 20 positives, a look every 4 audits): the truth was excluded at some look in .013 to
    .058 of them where `found` grew in four ways, in .072 with the worst `found` at each look (s.e. .009; DELTA is .05).

    Nine tenths of the weight expect a rate about GUESS of what would be allowed (gamma, shape 0.7), one tenth is spread
    evenly over the orders of magnitude, so that a wrong guess costs little more than log 10.
    """
    steps = np.unique(np.round(np.geomspace(1, max(zone, 1), 160)).astype(np.int64))
    points = np.unique(np.concatenate([[0], steps, np.arange(min(zone, 24) + 1)]))
    edges = np.concatenate([points, [zone + 1]]).astype(np.float64)
    width = np.diff(edges)
    mean = max(GUESS * ALPHA * found / (1 - ALPHA), 0.5)
    middle = points + (width - 1) / 2 + 0.35
    bet = width * np.exp((0.7 - 1) * np.log(middle) - 0.7 * middle / mean)
    even = width / (points + 1)
    return points, np.asarray(np.log(0.9 * bet / bet.sum() + 0.1 * even / even.sum() + 1e-300))


@lru_cache(maxsize=2)  # few, as for a hundred million it is 0.8 GB, and a certificate may state a zone for each trait
def _log_factorials(top: int) -> Floats:
    table = np.arange(top + 2, dtype=np.float64)
    table[0] = 1.0
    return np.cumsum(np.log(table, out=table), out=table)


def needed(audit: Audit, delta: float = DELTA) -> int | None:
    """Further audits until the missed share is within ALPHA, if misses stay as frequent; None: even all are too few."""
    rate, high = audit.misses / audit.audited if audit.outcomes else 0.0, audit.zone - audit.audited

    def enough(more: int) -> bool:
        n, x = audit.audited + more, audit.misses + ceil(rate * more - 1e-9)
        if n == 0 or x > n:
            return False
        enough_found = audit.found + x >= min(ENOUGH, audit.found + audit.zone)
        return enough_found and _evidence(audit, n, x) >= log(1 / delta)

    return bisect_left(range(high), True, key=enough) if enough(high) else None


def false_share(zone: int, outcomes: tuple[int, ...], right: int = 0, waiting: int = 0) -> FalseShare:
    """The share of the labels `present` that are wrong, from rechecks drawn uniformly from the zone."""
    counts = FalseShare(zone, outcomes, right, waiting)
    if not outcomes:  # there are only rulings: nothing was rechecked
        return replace(counts, more=_needed_rechecks(zone, outcomes, right))
    share = (most_wrong(zone, outcomes) + waiting) / max(counts.labels, 1)
    more = 0 if share <= ALPHA else _needed_rechecks(zone, outcomes, right)
    return replace(counts, share=share, more=more)


def most_wrong(zone: int, outcomes: tuple[int, ...]) -> int:
    """The upper bound on wrong labels among the `zone` labels that were not rechecked; those drawn are all known."""
    audit, total = Audit(zone, zone, outcomes), len(outcomes)
    step = max(1, total // 20)
    n = np.unique([*range(step, total + 1, step), total]) if total else np.zeros(0, np.int64)
    x = np.cumsum(outcomes, dtype=np.int64)[n - 1] if total else n
    bounds, wrong = [upper(audit, int(a), int(b)) for a, b in zip(n, x, strict=True)], sum(outcomes)
    best = min(bounds, default=zone)
    return (best if best >= wrong else bounds[-1]) - wrong  # refuted by what was found since: it tells nothing


def _needed_rechecks(zone: int, outcomes: tuple[int, ...], right: int) -> int | None:
    n, x = len(outcomes), sum(outcomes)

    def enough(more: int) -> bool:
        wrong = x + ceil(x / n * more - 1e-9) if n else 0
        return upper(Audit(zone, zone, ()), n + more, wrong) - wrong <= ALPHA * (zone - wrong + right)

    high = zone - n
    return 1 + bisect_left(range(1, high), True, key=enough) if high >= 1 and enough(high) else None


def holm(log_es: Sequence[float]) -> list[bool]:
    """Which of the claims hold together: 1 / E is a p-value at any time, and Holm's method steps down over them."""
    order = sorted(range(len(log_es)), key=lambda n: -log_es[n])
    holds = [False] * len(log_es)
    for rank, n in enumerate(order):
        if log_es[n] < log((len(log_es) - rank) / DELTA):
            break
        holds[n] = True
    return holds


def plan(found: int, chances: Sequence[float]) -> int:
    """How many of the unread units to read by their score before the rest is audited, so that the sum is smallest.

    `chances` are guesses of P(positive) of the unread units, highest first. A wrong guess costs effort, never validity.
    """
    p = np.concatenate([[0.0], np.cumsum(np.asarray(chances, dtype=np.float64))])
    read = np.arange(len(p))
    remaining = np.maximum(p[-1] - p, 1e-3)
    limit = np.maximum(ALPHA * (found + p) / (1 - ALPHA), 1e-3)
    # log E per whole zone read
    gain = np.where(limit > remaining, limit - remaining - remaining * np.log(limit / remaining), 0.0)
    share = np.where(gain > 0, np.minimum(PRICE / np.maximum(gain, 1e-9), 1.0), 1.0)
    return int(np.argmin(read + share * (len(p) - 1 - read)))


def at_most(share: float) -> str:
    """`<= 4.3 %`, rounded up: an upper bound may not be printed smaller than it is. `0 %`: everything was read."""
    return "0 %" if not share else f"<= {ceil(1000 * share - 1e-9) / 10:.1f} %"


def rate(wrong: int, units: int, delta: float = DELTA) -> float | None:
    """The upper bound, at any time, on the rate of wrong answers on gold units; None without units.

    The same ratio for a coin: a Beta(1/2, 1/2) prior against each rate, so it too may be read every day.
    """
    if not 0 <= wrong <= units:
        raise ValueError(f"{wrong} wrong of {units}")
    if units == 0:
        return None
    if wrong == units:
        return 1.0
    right = units - wrong
    marginal = lgamma(wrong + 0.5) + lgamma(right + 0.5) - lgamma(units + 1) - 2 * lgamma(0.5)
    low, high = wrong / units, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        log_e = marginal - wrong * log(middle) - right * log(1 - middle)
        low, high = (middle, high) if log_e < log(1 / delta) else (low, middle)
    return high
