"""How often the 95 % intervals of rare rates hold the truth: 2,000 worlds for each rate, size and kind of share.

A world is n users of whom a share P has something unsafe in the list: in one, two or four of ten ranks, or mostly in
one and now and then in all. `paired` is the difference of two systems of which one is as good as the other.
`over_seeds` is the mean over three seeds and 390 users, both drawn; `bootstrap`, for comparison, the percentile
bootstrap over users of the mean share at three rates.
"""

import numpy as np

from saferec_builder.scoring.intervals import clopper_pearson, mean_share, over_seeds, paired_shares
from tests.bench.figures import figure

WORLDS, RATES, SIZES = 2000, (0.0005, 0.002, 0.005, 0.02, 0.05), (100, 390, 1000)
SHARES = {"even": ([0.1, 0.2, 0.4], [1 / 3] * 3), "heavy": ([0.1, 1.0], [0.95, 0.05])}


def main() -> None:
    worst: dict[str, float] = {}
    random = np.random.default_rng(0)
    for rate in RATES:
        for n in SIZES:
            for name, held in covered(rate, n, random).items():
                worst[name] = min(worst.get(name, 1.0), held / WORLDS)
    worst["over_seeds"] = min(both_drawn(spread, random) for spread in (0.0, 0.01, 0.03))
    for name, coverage in worst.items():
        figure(f"intervals.{name}", coverage, "coverage", ">= .94 (lowest over rates and sizes)")
    figure("intervals.coverage_min", min(worst.values()), "coverage", ">= .94")
    for n, rate in ((390, 0.005), (120, 0.02), (390, 0.0005)):
        figure(f"intervals.bootstrap_{n}_{rate}", bootstrap(rate, n, random), "coverage", "none: what we do not use")


def covered(rate: float, n: int, random: np.random.Generator) -> dict[str, int]:
    """In how many worlds each interval holds the truth."""
    held = {"any": 0} | {f"{kind}_{name}": 0 for name in SHARES for kind in ("mean", "paired")}
    for _ in range(WORLDS):
        low, high = clopper_pearson(int(random.binomial(n, rate)), n)
        held["any"] += low <= rate <= high
        for name, (sizes, odds) in SHARES.items():
            one, other = (np.where(random.random(n) < rate, random.choice(sizes, n, p=odds), 0.0) for _ in range(2))
            low, high = mean_share(one)
            held[f"mean_{name}"] += low <= rate * float(np.dot(sizes, odds)) <= high
            low, high = paired_shares(one - other)
            held[f"paired_{name}"] += low <= 0 <= high
    return held


def both_drawn(spread: float, random: np.random.Generator) -> float:
    """How often `over_seeds` holds 0; spread = standard deviation of the seeds, beside .3 of users and .2 of each."""
    held = 0
    for _ in range(WORLDS):
        seeds, users = random.normal(0, spread, (3, 1)), random.normal(0, 0.3, 390)
        cell = over_seeds(seeds + users + random.normal(0, 0.2, (3, 390)))
        held += (cell["low"] or 0) <= 0 <= (cell["high"] or 0)
    return held / WORLDS


def bootstrap(rate: float, n: int, random: np.random.Generator) -> float:
    """How often the percentile bootstrap of the mean of even shares holds the truth."""
    sizes, odds = SHARES["even"]
    kinds, held = np.array([0.0, *sizes]), 0
    for _ in range(WORLDS):
        there = random.multinomial(n, [1 - rate, *(rate * odd for odd in odds)])
        low, high = np.percentile(random.multinomial(n, there / n, 1000) @ kinds / n, [2.5, 97.5])
        held += low <= rate * float(np.dot(sizes, odds)) <= high
    return held / WORLDS


if __name__ == "__main__":
    main()
