"""95 % intervals of means over users that hold near zero too, where a bootstrap does not.

reads  a value per user and metric (metrics.per_user), or the differences of two systems, user by user
gives  {metric: {mean, low, high, n}} as report.json has it; of differences `detectable` too

A rate of yes or no (any violation) has the exact interval of Clopper and Pearson (1934), unless a user has several
requests, and a share of them. Other means of fewer than FEW users, and their differences, have what that becomes where
values lie between 0 and 1 (`few_users`), and so have those that are no shares (recall) of fewer than RESAMPLED. Of more
users a mean share (svr) has the gamma interval of Fay and Feuer (1997), with two changes that `mean_share` names; the
difference of two shares the bounds of what one and of what the other system alone has, joined by MOVER (Zou and Donner
2008), or Student's t where many users differ. All other means, far from zero, have a percentile bootstrap over users,
which is narrower there. A metric `*_weighted` is a weighted mean: each user stands for so many. Its interval holds
where weights say nothing of values; where the few heavy users have other values than the rest it is too narrow.
"""

from collections.abc import Callable, Mapping
from math import exp, lgamma, log, log1p, pi, sqrt
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from saferec_builder.scoring.metrics import Bools, Floats, discounts

YES_NO = ("any_violated", "any_unsafe", "mentioned_unsafe", "mentioned_unsafe_upper", "invalid", "has")
SHARES = ("svr", "svr_upper", "svr_true", "sdcg", "not_in_catalog", "duplicate", "seen")
TAIL = 0.025  # on each side of an interval
WEIGHTED = "_weighted"  # how the names of weighted means end
WITHIN = {"svr": "svr_upper", f"svr{WEIGHTED}": f"svr_upper{WEIGHTED}"}  # who has the first has the second at least
FEW = 40  # of fewer users neither a bootstrap nor the gamma interval holds the truth often enough
MANY = 40  # users who differ, were all of them to differ as much: from so many a mean difference is near normal
RESAMPLED = 200  # users, from whom on a bootstrap of recall does: of 40 it held a recall of .1 in .89, of 200 in .94
STEP = 0.1  # of the trapezoid rule over log u in Imhof's integral: it is within 1e-6 with 200 users
PLACES = np.exp(np.arange(-16, 20, STEP))
POWER = 2.8016 / 1.9600  # a difference of so many half widths is found in 80 % of studies: (z.975 + z.80) / z.975


class Interval(TypedDict, total=False):
    """Of one metric; all None where it applies to nobody."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    detectable: float | None  # of a difference: what a study of so many users finds in 80 % of cases


def intervals(
    values: Mapping[str, Floats],
    draws: int = 1000,
    seed: int = 0,
    *,
    paired: bool = False,
    weights: Floats | None = None,
) -> dict[str, Interval]:
    """Mean and 95 % interval over the users that a metric applies to (not NaN); its method goes by the metric's name.

    paired: the values are differences of two systems. All metrics share the resamples. Where everybody has 0 no
    resample differs, so the interval is that of a share; of one user it is all that there is (of `length` 0 to the k of
    the other metrics). No bound of svr is above that of svr_upper. `weights`: of the users, above 0 wherever a weighted
    metric applies.
    """
    table = np.stack(list(values.values()), axis=1)
    there = ~np.isnan(table)
    samples = _resample(np.where(there, table, 0.0), there, draws, seed)
    longest = max((int(k) for k in (name.partition("@")[2] for name in values) if k), default=1)
    found: dict[str, Interval] = {}
    for c, (name, users) in enumerate(zip(values, there.T, strict=True)):
        head, drawn = name.partition("@")[0], None if weights is None else weights[users]
        most = {"length": float(longest), "sdcg": float(discounts(longest).sum())}.get(head, 1.0)
        top = max(most, float(abs(table[users, c]).max(initial=0)))
        found[name] = _interval(head, table[users, c], samples[:, c], paired, drawn, top)
    if not paired:
        _keep_order(found)
    return found


def _keep_order(found: Mapping[str, Interval]) -> None:
    """Nobody has more violated items than violated or unknown ones, but the interval of few large values can begin
    below that of many small ones. The bound that would be out of order moves outwards, so both still hold the truth."""
    for name, one in found.items():
        head, _, k = name.partition("@")
        other = found.get(f"{WITHIN.get(head)}@{k}")
        if other and one["low"] is not None and other["low"] is not None:
            one["low"], other["high"] = min(one["low"], other["low"]), max(one["high"] or 0, other["high"] or 0)


def _interval(name: str, values: Floats, samples: Floats, paired: bool, weights: Floats | None, top: float) -> Interval:
    if not len(values):
        nobody: Interval = {"mean": None, "low": None, "high": None, "n": 0}
        return {**nobody, "detectable": None} if paired else nobody
    weights = weights if name.endswith(WEIGHTED) else None
    mean = float(np.average(values, weights=weights))
    low, high = _ends(name, values, samples, paired, weights, top)
    found: Interval = {"mean": round(mean, 6), "low": round(low, 6), "high": round(high, 6), "n": len(values)}
    return {**found, "detectable": round(detectable(low, high, top), 6)} if paired else found


def _ends(
    name: str, values: Floats, samples: Floats, paired: bool, weights: Floats | None, top: float
) -> tuple[float, float]:
    """By the first of the five methods that holds for such values."""
    if name in YES_NO and not paired and np.isin(values, (0.0, 1.0)).all():  # of several requests a user has a share
        return clopper_pearson(int(values.sum()), len(values))
    near_zero = name in (*YES_NO, *SHARES) or weights is not None
    if len(values) < (FEW if near_zero else RESAMPLED):
        return few_users(values, -top if paired else 0.0, top, weights)
    if near_zero or not (values.any() or name == "length"):
        return paired_shares(values, weights) if paired else mean_share(values, weights)
    low, high = np.nanpercentile(samples, [2.5, 97.5])
    return float(low), float(high)


def detectable(low: float, high: float, top: float = 1.0) -> float:
    """The difference that 80 of 100 studies as large would tell from zero, by the 95 % interval of this one: Bloom's
    minimum detectable effect (1995), (z.975 + z.80) standard errors. No difference is larger than `top` (of shares 1):
    that much means that none of them can be told surely."""
    return min(POWER * (high - low) / 2, top)


def clopper_pearson(count: int, n: int) -> tuple[float, float]:
    """The exact interval of a proportion, `count` of n: 0 of 100 gives 0 and 1 - .025^(1/100) = .0362."""
    low = beta_quantile(TAIL, count, n - count + 1) if count else 0.0
    return low, beta_quantile(1 - TAIL, count + 1, n - count) if count < n else 1.0


def few_users(values: Floats, bottom: float, top: float, weights: Floats | None = None) -> tuple[float, float]:
    """The interval of the mean of values between bottom and top, one per user, however few (Gaffke 2005).

    Each user's weight is drawn anew, as in a Bayesian bootstrap, and one more user is thought of, who has `bottom` for
    the lower bound and `top` for the upper one: .025 of such means are below the first, .025 above the second. Of yes
    and no that is Clopper and Pearson's interval, and where no value is smaller no bound is. That it always holds the
    truth is proven for those two values alone, and conjectured for all (Learned-Miller and Thomas 2019); `make bench
    ONLY=intervals` has the coverage. Of one user: bottom and top. With weights the one more has the weight that a user
    has on average who is drawn by weight, which is no promise where weights go with values.
    """
    if len(values) == 1:
        return bottom, top
    each = np.ones(len(values)) if weights is None else weights / weights.mean()
    each = np.append(each, (each**2).sum() / each.sum())
    return _drawn_mean(TAIL, np.append(values, bottom), each), _drawn_mean(1 - TAIL, np.append(values, top), each)


def _drawn_mean(p: float, values: Floats, each: Floats) -> float:
    """Where the mean of values reaches p, if each has its weight times one of an exponential distribution."""
    (values, each), many = np.unique(np.stack([values, each]), axis=1, return_counts=True)

    def error(mean: float) -> float:  # of the chance that the sum of each * (value - mean) * exponential is below 0
        apart = each * (values - mean)
        angles = PLACES[:, None] * (apart / abs(apart).max())  # Imhof (1961)
        parts = np.sin(np.arctan(angles) @ many) * np.exp(-np.log1p(angles**2) @ many / 2)
        return 0.5 - STEP / pi * float(parts.sum()) - p

    low, high, under, over, x = float(values.min()), float(values.max()), -p, 1 - p, float(values.min())
    last = 0.0
    while high - low > 1e-9 * abs(values).max():  # false position: an end that stays twice counts half (Illinois)
        x = (low * over - high * under) / (over - under)
        if abs(off := error(x)) < 1e-7:
            break
        stays = 0.5 if off * last > 0 else 1.0
        low, high, under, over = (x, high, off, over * stays) if off < 0 else (low, x, under * stays, off)
        last = off
    return x


def mean_share(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The gamma interval of the mean of values that are 0 or more, one per user: at 0 everywhere 0 and 3.689/n. Of
    fewer than FEW users that of `few_users`.

    Fay and Feuer (1997) for a sum of Poisson counts with weights value/n, of which one more is thought of that has 1,
    or the largest value where one is above 1. Two changes: the variance is that about the mean, which is the smaller
    one where many have something (a mean above one half is that of what is left); and with weights the one more has
    the weight that a user has on average who is drawn by weight, where they take the heaviest (Tiwari and others 2006
    the plain average). `make bench ONLY=intervals` has the coverage.
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
    if mean:  # with one more that has nothing: all alike are no certainty
        below = spread + (mean * more) ** 2
        low = below / mean * gamma_quantile(TAIL, mean**2 / below)
    mean, spread = mean + top * more, spread + (top * more) ** 2
    return min(low, top), min(spread / mean * gamma_quantile(1 - TAIL, mean**2 / spread), top)


def paired_shares(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The interval of the mean of differences, one per user: bounds of what each side alone has, joined by MOVER.

    Zou and Donner (2008), with their correlation: who has more on one side has none on the other. Where MANY users
    differ (Kish's effective number of them) Student's t, its variance with one more user who differs most. Of fewer
    than FEW users that of `few_users`.
    """
    part = _parts(values, weights)
    mean, most = float(values @ part), float(abs(values).max(initial=0.0))
    top = max(1.0, most)
    if len(values) < FEW:
        return few_users(values, -top, top, weights)
    if (parts := abs(values * part)).any() and parts.sum() ** 2 >= MANY * float((parts**2).sum()):
        spread = _variance(values, part) + (float((part**2).sum()) * most) ** 2
        half = t_quantile(len(values) - 1) * sqrt(spread)
        return max(mean - half, -top), min(mean + half, top)
    up, down = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    more, less = float(up @ part), float(down @ part)
    (up_low, up_high), (down_low, down_high) = mean_share(up, weights), mean_share(down, weights)
    scale = sqrt(_variance(up, part) * _variance(down, part))
    alike = float(((up - more) * (down - less) * part**2).sum()) / scale if scale else 0.0

    def joined(one: float, other: float) -> float:
        return sqrt(one**2 + other**2 - 2 * alike * one * other)

    low, high = mean - joined(more - up_low, down_high - less), mean + joined(up_high - more, less - down_low)
    return max(low, -top), min(high, top)


def _parts(values: Floats, weights: Floats | None) -> Floats:
    """What share of the mean each user is."""
    return np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()


def _variance(values: Floats, part: Floats) -> float:
    """Of the mean."""
    n = len(values)
    return float((((values - values @ part) * part) ** 2).sum()) * n / max(1, n - 1)


def over_seeds(values: Floats) -> Interval:
    """The mean of values [seeds, users] that a method has, with a 95 % interval over further seeds and further users.

    Both are drawn, and each has its own share of the width, joined by MOVER: Student's t of seeds - 1 times the error
    of their means, and of users - 1 times what users differ by in all seeds (mean squares of a two-way layout without
    repeats). Satterthwaite's one t for both held the truth in .87 of worlds of two seeds, and .92 of three, where seeds
    differ most. Users whom a metric does not apply to (NaN) are left out; there is no interval of fewer than two. At
    least two seeds.
    """
    values = values[:, ~np.isnan(values).any(axis=0)]
    seeds, users = values.shape
    if users < 2:
        return {"mean": float(values.mean()) if users else None, "low": None, "high": None, "n": users}
    mean, by_seed, by_user = values.mean(), values.mean(axis=1), values.mean(axis=0)
    rest = ((values - by_seed[:, None] - by_user + mean) ** 2).sum() / ((seeds - 1) * (users - 1))
    among = max(0.0, by_user.var(ddof=1) - rest / seeds) / users
    half = sqrt(t_quantile(seeds - 1) ** 2 * by_seed.var(ddof=1) / seeds + t_quantile(users - 1) ** 2 * among)
    return {"mean": round(float(mean), 6), "low": round(mean - half, 6), "high": round(mean + half, 6), "n": users}


def _resample(filled: Floats, there: Bools, draws: int, seed: int) -> Floats:
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
            means.append((counts @ filled) / (counts @ there))
    return np.concatenate(means)


# --- quantiles, without scipy ---------------------------------------------------------------------------------------


def gamma_quantile(p: float, shape: float) -> float:
    """Where a gamma distribution of this shape (at least 1) and scale 1 reaches p; within 1e-9 of it."""

    def density(x: float) -> float:
        return exp((shape - 1) * log(x) - x - lgamma(shape))

    return _solve(lambda x: _gamma_cdf(x, shape), density, p, shape + 12 * sqrt(shape) + 30)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Where a beta distribution reaches p; within 1e-9 of it."""
    whole = lgamma(a + b) - lgamma(a) - lgamma(b)

    def density(x: float) -> float:
        return exp(whole + (a - 1) * log(x) + (b - 1) * log1p(-x))

    return _solve(lambda x: _beta_cdf(x, a, b), density, p, 1.0)


def t_quantile(df: float) -> float:
    """Student's t at .975: t^2 = df (1 - x) / x, where x is the .05 quantile of beta(df / 2, 1 / 2)."""
    x = beta_quantile(2 * TAIL, df / 2, 0.5)
    return sqrt(df * (1 - x) / x)


def _solve(cdf: Callable[[float], float], density: Callable[[float], float], p: float, high: float) -> float:
    """Newton's steps, and halves where one would leave what is left of 0..high."""
    low, x = 0.0, high / 2
    while high - low > 1e-12 * high:
        error = cdf(x) - p
        low, high = (low, x) if error > 0 else (x, high)
        slope = density(x)
        following = x - error / slope if slope else (low + high) / 2
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - x) <= 1e-10 * x:
            return following
        x = following
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
