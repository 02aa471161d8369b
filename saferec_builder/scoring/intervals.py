"""95 % intervals of means over users that are valid near zero, too, where a bootstrap is not.

reads  a value per user and metric (metrics.per_user), or the differences of two systems per user
gives  {metric: {mean, low, high, n}} as in report.json; for differences also `detectable`

A rate of yes or no (any violation) gets the exact interval of Clopper and Pearson (1934), unless a user has several
requests, and so a share of them. Other means of fewer than FEW users, and their differences, get its generalisation to
values between 0 and 1 (`few_users`), and so do those that are no shares (recall) of fewer than RESAMPLED users. With
more users a mean share (svr) gets the gamma interval of Fay and Feuer (1997), with two changes described in
`mean_share`; the difference of two shares gets bounds on what each system alone has, joined by MOVER (Zou and Donner
2008), or Student's t if many users differ. All other means get the same while few users have anything but 0, then, far
from zero, a percentile bootstrap over users, which is narrower there. A metric `*_weighted` is a weighted mean: each
user represents several. Its interval is valid if weights are independent of values; if the few heavy users have other
values than the rest, it is too narrow.
"""

from collections.abc import Callable, Mapping
from math import exp, lgamma, log, log1p, pi, sqrt
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from saferec_builder.scoring.metrics import Bools, Floats

YES_NO = ("any_violated", "any_unsafe", "mentioned_unsafe", "mentioned_unsafe_upper", "invalid", "has")
SHARES = ("svr", "svr_upper", "svr_true", "sdcg", "not_in_catalog", "duplicate", "seen")
TAIL = 0.025  # on each side of an interval
WEIGHTED = "_weighted"  # suffix of the names of weighted means
WITHIN = {"svr": "svr_upper", f"svr{WEIGHTED}": f"svr_upper{WEIGHTED}"}  # metric -> one that is never smaller
LEAST = 6  # users for any conclusion: with five, all differ to one side by chance in 2 * .5^5 = .0625 of cases
FEW = 40  # with fewer users neither a bootstrap nor the gamma interval covers the truth often enough
# effective number of users with anything but 0 from which a mean difference is nearly normal, and from which recall is
# resampled: so its interval covers the truth in .92 of worlds at least; resampled with fewer, too, in .74
MANY = 40
# users from which a bootstrap of recall is valid: it covered a recall of .1 in .89 with 40, in .94 with 200
RESAMPLED = 200
STEP = 0.1  # of the trapezoid rule over log u in Imhof's integral: within 1e-6 for 200 users
PLACES = np.exp(np.arange(-16, 20, STEP))
POWER = 2.8016 / 1.9600  # half widths of a difference that 80 % of studies detect: (z.975 + z.80) / z.975


class Interval(TypedDict, total=False):
    """The interval of one metric; all None if the metric applies to no user. No `low` and `high`: nothing varies."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    detectable: float | None  # of a difference: what 80 % of studies with as many users detect


def intervals(
    values: Mapping[str, Floats],
    draws: int = 1000,
    seed: int = 0,
    *,
    paired: bool = False,
    weights: Floats | None = None,
    highest: Mapping[str, float] = {},
) -> dict[str, Interval]:
    """Mean and 95 % interval over the users that a metric applies to (not NaN); the metric's name decides the method.

    paired: the values are differences of two systems. All metrics share the resamples. If everybody has 0, all
    resamples are equal, so the interval is that of a share; for one user it is the whole range (for `length` 0 to the k
    of the other metrics). No bound of svr is above that of svr_upper. `weights`: of the users, above 0 wherever a
    weighted metric applies. highest: metric -> the largest value that a user can have, where that is not 1.
    """
    table = np.stack(list(values.values()), axis=1)
    applies = ~np.isnan(table)
    samples = _resample(np.where(applies, table, 0.0), applies, draws, seed)
    longest = max((int(k) for k in (name.partition("@")[2] for name in values) if k), default=1)
    by_metric: dict[str, Interval] = {}
    for c, (name, users) in enumerate(zip(values, applies.T, strict=True)):
        head, metric_weights = name.partition("@")[0], None if weights is None else weights[users]
        most = highest.get(name, float(longest) if head == "length" else 1.0)
        top = max(most, float(abs(table[users, c]).max(initial=0)))
        by_metric[name] = _interval(head, table[users, c], samples[:, c], paired, metric_weights, top)
    if not paired:
        _keep_order(by_metric)
    return by_metric


def _keep_order(by_metric: Mapping[str, Interval]) -> None:
    """Nobody has more violated items than violated or unknown ones, but the interval of few large values can begin
    below that of many small ones. The bound that is out of order moves outwards, so both stay valid."""
    for name, lower in by_metric.items():
        head, _, k = name.partition("@")
        upper = by_metric.get(f"{WITHIN.get(head)}@{k}")
        if upper and lower["low"] is not None and upper["low"] is not None:
            lower["low"], upper["high"] = min(lower["low"], upper["low"]), max(lower["high"] or 0, upper["high"] or 0)


def _interval(name: str, values: Floats, samples: Floats, paired: bool, weights: Floats | None, top: float) -> Interval:
    if not len(values):
        empty: Interval = {"mean": None, "low": None, "high": None, "n": 0}
        return {**empty, "detectable": None} if paired else empty
    weights = weights if name.endswith(WEIGHTED) else None
    mean = float(np.average(values, weights=weights))
    low, high = _ends(name, values, samples, paired, weights, top)
    interval: Interval = {"mean": round(mean, 6), "low": round(low, 6), "high": round(high, 6), "n": len(values)}
    return {**interval, "detectable": round(detectable(low, high, top), 6)} if paired else interval


def _ends(
    name: str, values: Floats, samples: Floats, paired: bool, weights: Floats | None, top: float
) -> tuple[float, float]:
    """The bounds by the first of the five methods that is valid for such values."""
    if name in YES_NO and not paired and np.isin(values, (0.0, 1.0)).all():  # a user with several requests has a share
        return clopper_pearson(int(values.sum()), len(values))
    is_share = name in (*YES_NO, *SHARES) or weights is not None
    if len(values) < (FEW if is_share else RESAMPLED):
        return few_users(values, -top if paired else 0.0, top, weights)
    if is_share or not (name == "length" or many(values)):
        return paired_shares(values, weights) if paired else mean_share(values, weights)
    low, high = np.nanpercentile(samples, [2.5, 97.5])
    return float(low), float(high)


def detectable(low: float, high: float, top: float = 1.0) -> float:
    """The difference that 80 of 100 studies of this size would distinguish from zero, by the 95 % interval of this one:
    Bloom's minimum detectable effect (1995), (z.975 + z.80) standard errors. No difference exceeds `top` (1 for
    shares): that value means that none can be detected reliably."""
    return min(POWER * (high - low) / 2, top)


def clopper_pearson(count: int, n: int) -> tuple[float, float]:
    """The exact interval of a proportion, `count` of n: 0 of 100 gives 0 and 1 - .025^(1/100) = .0362."""
    low = beta_quantile(TAIL, count, n - count + 1) if count else 0.0
    return low, beta_quantile(1 - TAIL, count + 1, n - count) if count < n else 1.0


def few_users(values: Floats, bottom: float, top: float, weights: Floats | None = None) -> tuple[float, float]:
    """The interval of the mean of values between bottom and top, one per user, however few (Gaffke 2005).

    Each user's weight is drawn at random, as in a Bayesian bootstrap, and one more user is added, with `bottom` for the
    lower bound and `top` for the upper one: .025 of such means are below the first, .025 above the second. For yes and
    no this is Clopper and Pearson's interval, and its bounds never fall when a value rises. Its coverage is proven only
    for those two values, and conjectured for all (Learned-Miller and Thomas 2019); `make bench ONLY=intervals` measures
    it. For one user: bottom and top. With weights the added user has the average weight of a user who is drawn by
    weight, which guarantees nothing if weights depend on values.
    """
    if len(values) == 1:
        return bottom, top
    factors = np.ones(len(values)) if weights is None else weights / weights.mean()
    factors = np.append(factors, (factors**2).sum() / factors.sum())
    return _drawn_mean(TAIL, np.append(values, bottom), factors), _drawn_mean(1 - TAIL, np.append(values, top), factors)


def _drawn_mean(p: float, values: Floats, factors: Floats) -> float:
    """The p-quantile of the mean of values, each weighted by its factor times an exponential random number."""
    (values, factors), counts = np.unique(np.stack([values, factors]), axis=1, return_counts=True)

    def error(mean: float) -> float:  # of P(sum of factor * (value - mean) * exponential < 0)
        terms = factors * (values - mean)
        angles = PLACES[:, None] * (terms / abs(terms).max())  # Imhof (1961)
        parts = np.sin(np.arctan(angles) @ counts) * np.exp(-np.log1p(angles**2) @ counts / 2)
        return 0.5 - STEP / pi * float(parts.sum()) - p

    return _root(error, float(values.min()), float(values.max()), p, 1e-7)


def mean_share(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The gamma interval of the mean of values that are 0 or more, one per user: if all are 0, it is 0 to 3.689/n. For
    fewer than FEW users it is that of `few_users`.

    Fay and Feuer (1997) for a sum of Poisson counts with weights value/n, with one count added that has 1, or the
    largest value if one is above 1. Two changes: the variance is that about the mean, which is the smaller one if many
    users have something (for a mean above one half, that of the complement is used); and with weights the added count
    has the average weight of a user who is drawn by weight, where they take the heaviest (Tiwari and others 2006 the
    plain average). `make bench ONLY=intervals` measures the coverage.
    """
    part, top = _parts(values, weights), max(1.0, float(values.max()))
    if len(values) < FEW:
        return few_users(values, 0.0, top, weights)
    if float(values @ part) <= top / 2:
        return _gamma(values, part, top)
    low, high = _gamma(top - values, part, top)
    return top - high, top - low


def _gamma(values: Floats, part: Floats, top: float) -> tuple[float, float]:
    mean, more, spread, low = float(values @ part), float((part**2).sum()), _variance(values, part), 0.0
    if mean:  # with one more that has nothing: equal values do not mean certainty
        below = spread + (mean * more) ** 2
        low = below / mean * gamma_quantile(TAIL, mean**2 / below)
    mean, spread = mean + top * more, spread + (top * more) ** 2
    return min(low, top), min(spread / mean * gamma_quantile(1 - TAIL, mean**2 / spread), top)


def paired_shares(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The interval of the mean of differences, one per user: bounds on what each side alone has, joined by MOVER.

    Zou and Donner (2008), with their correlation: a user with more on one side has none on the other. If MANY users
    differ (by Kish's effective number), Student's t, its variance with one more user who differs most. For fewer than
    FEW users it is that of `few_users`.
    """
    part = _parts(values, weights)
    mean, most = float(values @ part), float(abs(values).max(initial=0.0))
    top = max(1.0, most)
    if len(values) < FEW:
        return few_users(values, -top, top, weights)
    if many(values * part):
        spread = _variance(values, part) + (float((part**2).sum()) * most) ** 2
        half = t_quantile(len(values) - 1) * sqrt(spread)
        return max(mean - half, -top), min(mean + half, top)
    up, down = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    more, less = float(up @ part), float(down @ part)
    (up_low, up_high), (down_low, down_high) = mean_share(up, weights), mean_share(down, weights)
    scale = sqrt(_variance(up, part) * _variance(down, part))
    correlation = float(((up - more) * (down - less) * part**2).sum()) / scale if scale else 0.0

    def joined(one: float, other: float) -> float:
        return sqrt(one**2 + other**2 - 2 * correlation * one * other)

    low, high = mean - joined(more - up_low, down_high - less), mean + joined(up_high - more, less - down_low)
    return max(low, -top), min(high, top)


def many(values: Floats) -> bool:
    """Whether MANY users, by Kish's effective number, have anything but 0."""
    return bool(values.any() and abs(values).sum() ** 2 >= MANY * (values**2).sum())


def _parts(values: Floats, weights: Floats | None) -> Floats:
    """The share of each user in the mean."""
    return np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()


def _variance(values: Floats, part: Floats) -> float:
    """The variance of the mean."""
    n = len(values)
    return float((((values - values @ part) * part) ** 2).sum()) * n / max(1, n - 1)


def _resample(filled: Floats, applies: Bools, draws: int, seed: int) -> Floats:
    """[draws, metrics]: the mean of each metric in each resample of the users."""
    random, users = np.random.default_rng(seed), len(filled)
    if users == 0:
        return np.full((draws, filled.shape[1]), np.nan)
    means: list[NDArray[np.float64]] = []
    step = max(1, 5_000_000 // users)  # bounds the memory of one block of counts
    for start in range(0, draws, step):
        picks = random.integers(0, users, (min(step, draws - start), users))
        counts = np.stack([np.bincount(pick, minlength=users) for pick in picks]).astype(float)
        with np.errstate(invalid="ignore"):
            means.append((counts @ filled) / (counts @ applies))
    return np.concatenate(means)


# --- quantiles, without scipy ---------------------------------------------------------------------------------------


def gamma_quantile(p: float, shape: float) -> float:
    """The p-quantile of a gamma distribution of this shape (at least 1) and scale 1; within 1e-9."""
    return _root(lambda x: _gamma_cdf(x, shape) - p, 0.0, shape + 12 * sqrt(shape) + 30, p)


def beta_quantile(p: float, a: float, b: float) -> float:
    """The p-quantile of a beta distribution; within 1e-9."""
    return _root(lambda x: _beta_cdf(x, a, b) - p, 0.0, 1.0, p)


def t_quantile(df: float) -> float:
    """Student's t at .975: t^2 = df (1 - x) / x, where x is the .05 quantile of beta(df / 2, 1 / 2)."""
    x = beta_quantile(2 * TAIL, df / 2, 0.5)
    return sqrt(df * (1 - x) / x)


def _root(error: Callable[[float], float], low: float, high: float, p: float, close: float = 1e-14) -> float:
    """Where a rising function that is -p at `low` and 1 - p at `high` is zero, or less than `close` off, by false
    position: an end that is kept twice counts half (Illinois)."""
    under, over, x, previous = -p, 1 - p, low, 0.0
    while high - low > 1e-12 * max(abs(low), abs(high)):
        x = (low * over - high * under) / (over - under)
        if abs(gap := error(x)) < close:
            break
        factor = 0.5 if gap * previous > 0 else 1.0
        low, high, under, over = (x, high, gap, over * factor) if gap < 0 else (low, x, under * factor, gap)
        previous = gap
    return x


def _gamma_cdf(x: float, shape: float) -> float:
    """Series: x^a e^-x / Gamma(a + 1) * (1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ...)."""
    term = total = 1.0
    n = shape
    while term > 1e-15 * total:
        n += 1
        term *= x / n
        total += term
    return exp(shape * log(x) - x - lgamma(shape + 1)) * total


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, 1000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + step * d), 1 + step / c
            total *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)
    return exp(front) * total / a
