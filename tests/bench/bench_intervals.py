"""Measures how often the 95 % intervals of rates, rare and common, contain the truth.

2,000 worlds for each rate, size and kind, and 6,000 if the rate is common, as noise would else decide which is lowest.
A world is n users of whom a share P has something unsafe in the list: in one, two or four of ten ranks, or mostly in
one and sometimes in all. `paired` is the difference of two systems: in half of the worlds the other is as good, in
the other half it shows nothing unsafe. `weighted`, and `gap` the difference: users have weights, gamma(2).
`few` is for 2 to 39, and 199, users, at a rate of .2 and with values like recall: many users have none, some a part or
all; `few_gap` the difference of two alike; `few_weighted` if three of ten users have weight ten.
`few_bootstrap`, for comparison, is for recall.
`over_seeds` is the mean over two, three or five seeds and 390 users, both drawn.
"""

from collections.abc import Sequence

import numpy as np

from saferec_builder.scoring.intervals import clopper_pearson, few_users, mean_share, paired_shares
from tests.bench.figures import figure
from tests.bench.seeds import over_seeds

WORLDS, RATES, SIZES = 2000, (0.0005, 0.002, 0.005, 0.02, 0.05), (100, 390, 1000)
COMMON, MORE = (0.2, 0.5), 6000
SHARES = {"even": ([0.1, 0.2, 0.4], [1 / 3] * 3), "heavy": ([0.1, 1.0], [0.95, 0.05])}
FEW_SIZES, FEW_WORLDS = (2, 3, 5, 10, 20, 39, 199), 1000
FEW_KINDS = {"alike": ([0.25], [0.2]), "even": ([0.1, 0.2, 0.4], [0.2 / 3] * 3), "heavy": ([0.1, 1.0], [0.19, 0.01])}
FEW_KINDS |= {"recall": ([0.25, 0.5, 1.0], [0.2, 0.2, 0.1]), "high": ([0.6, 0.8, 1.0], [0.1, 0.1, 0.8])}


def main() -> None:
    random = np.random.default_rng(0)
    worst, common = (lowest(*args, random) for args in ((RATES, WORLDS), (COMMON, MORE)))
    worst["over_seeds"] = min(both_drawn(k, spread, random) for k in (2, 3, 5) for spread in (0.0, 0.01, 0.03, 0.1))
    worst |= (few_users_worst := few(random))
    for name, coverage in worst.items():
        figure(f"intervals.{name}", coverage, "coverage", ">= .94 (lowest over rates and sizes)")
    figure("intervals.common_min", min(common.values()), "coverage", ">= .94 (rates of .2 and .5)")
    figure("intervals.few_min", min(few_users_worst.values()), "coverage", ">= .94 (2 to 39, and 199, users)")
    figure("intervals.coverage_min", min(worst.values()), "coverage", ">= .94")
    figure("intervals.few_bootstrap", few_bootstrap(random), "coverage", "none: what we do not use")


def lowest(rates: Sequence[float], worlds: int, random: np.random.Generator) -> dict[str, float]:
    """For each interval, the share of worlds in which it contains the truth, at its worst rate and size."""
    counts = [covered(rate, n, worlds, random) for rate in rates for n in SIZES]
    return {name: min(covered_worlds[name] for covered_worlds in counts) / worlds for name in counts[0]}


def covered(rate: float, n: int, worlds: int, random: np.random.Generator) -> dict[str, int]:
    """In how many worlds each interval contains the truth."""
    hits = {"any": 0} | {f"{kind}_{name}": 0 for name in SHARES for kind in ("mean", "paired", "weighted", "gap")}
    for world in range(worlds):
        low, high = clopper_pearson(int(random.binomial(n, rate)), n)
        hits["any"] += low <= rate <= high
        for name, (sizes, odds) in SHARES.items():
            ours, theirs = (np.where(random.random(n) < rate, random.choice(sizes, n, p=odds), 0.0) for _ in range(2))
            truth, weights = rate * float(np.dot(sizes, odds)), random.gamma(2.0, size=n)
            differences, gap = (ours - theirs, 0.0) if world % 2 else (ours, truth)
            for kind, (low, high), target in (
                ("mean", mean_share(ours), truth),
                ("paired", paired_shares(differences), gap),
                ("weighted", mean_share(ours, weights), truth),
                ("gap", paired_shares(differences, weights), gap),
            ):
                hits[f"{kind}_{name}"] += low <= target <= high
    return hits


def few(random: np.random.Generator) -> dict[str, float]:
    """The coverage of the interval for few users, of a difference and with weights, each where it is lowest."""
    least = {"few": 1.0, "few_gap": 1.0, "few_weighted": 1.0}
    for sizes, odds in FEW_KINDS.values():
        values, chances, truth = [0.0, *sizes], [1 - sum(odds), *odds], float(np.dot(sizes, odds))
        for n in FEW_SIZES:
            hits = dict.fromkeys(least, 0)
            for _ in range(FEW_WORLDS):
                ours, theirs = random.choice(values, (2, n), p=chances)
                weights = random.choice([1.0, 10.0], n, p=[0.7, 0.3])
                for name, (low, high), target in (
                    ("few", few_users(ours, 0.0, 1.0), truth),
                    ("few_gap", few_users(ours - theirs, -1.0, 1.0), 0.0),
                    ("few_weighted", few_users(ours, 0.0, 1.0, weights), truth),
                ):
                    hits[name] += low - 1e-6 <= target <= high + 1e-6
            least = {name: min(least[name], hits[name] / FEW_WORLDS) for name in least}
    return least


def few_bootstrap(random: np.random.Generator) -> float:
    """The coverage of the percentile bootstrap of a recall of few users, where it is lowest."""
    sizes, odds = FEW_KINDS["recall"]
    values, chances, truth, least = [0.0, *sizes], [1 - sum(odds), *odds], float(np.dot(sizes, odds)), 1.0
    for n in FEW_SIZES:
        hits = 0
        for _ in range(FEW_WORLDS):
            low, high = np.percentile(random.choice(random.choice(values, n, p=chances), (500, n)).mean(1), [2.5, 97.5])
            hits += low <= truth <= high
        least = min(least, hits / FEW_WORLDS)
    return least


def both_drawn(many: int, spread: float, random: np.random.Generator) -> float:
    """How often `over_seeds` of `many` seeds contains 0; spread = standard deviation of the seeds, beside .3 of users
    and .2 of each (seed, user)."""
    hits = 0
    for _ in range(MORE):
        seeds, users = random.normal(0, spread, (many, 1)), random.normal(0, 0.3, 390)
        cell = over_seeds(seeds + users + random.normal(0, 0.2, (many, 390)))
        hits += (cell["low"] or 0) <= 0 <= (cell["high"] or 0)
    return hits / MORE
