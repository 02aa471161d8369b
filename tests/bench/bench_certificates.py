"""Measures the cost of certificates and how often they are wrong, in 200 simulated worlds per regime with known truth.

Reviews are counted in units read. `random` reads everything in random order with the same bound; `proposals` reads the
proposals first and the rest in random order, which is harder to beat.
"""

import sys
from collections import Counter

import numpy as np

from tests import ROOT
from tests.bench.figures import figure
from tests.worlds import certificate_worlds as worlds

WORLDS = 200
GOALS = {  # (regime, which traits) -> share of random order's reviews
    ("good", "pooled"): "<= 0.60",
    ("mediocre", "pooled"): "<= 0.60",
    ("good", "common"): "<= 0.60",
    ("mediocre", "common"): "<= 0.65",
}


def main() -> None:
    for regime in worlds.REGIMES:
        counts = simulate(regime, range(WORLDS))
        for group in ("common", "all", "pooled"):
            ours, proposals, random = (counts["reviews"][group, order] for order in ("ours", "proposals", "random"))
            goal = GOALS.get((regime.name, group), "reported")
            figure(f"certificates.{regime.name}.{group}.over_random", ours / random, "ratio", goal)
            figure(f"certificates.{regime.name}.{group}.over_proposals_first", ours / proposals, "ratio", "reported")
            figure(f"certificates.{regime.name}.{group}.reviews", ours / WORLDS, "units", "reported")
        figure(
            f"certificates.{regime.name}.wrong_of_{WORLDS}", max(counts["wrong"].values(), default=0), "worlds", "<= 15"
        )
    figure(f"certificates.boundary.wrong_of_{WORLDS}", max(at_the_border(range(WORLDS))), "worlds", "<= 15")
    curves()


def simulate(regime: worlds.Regime, seeds: range) -> dict[str, Counter]:
    reviews: Counter = Counter()
    wrong: Counter = Counter()
    for seed, traits in worlds.worlds(regime, seeds):
        rng = np.random.default_rng(seed)
        for prevalence, trait in zip(worlds.PREVALENCE, traits, strict=True):
            outcomes = each(trait, rng, 25, 100)
            wrong[prevalence] += outcomes["ours"].wrong
            for order, outcome in outcomes.items():
                reviews["all", order] += outcome.reviews
                reviews["common", order] += outcome.reviews * (prevalence >= worlds.COMMON)
        for order, outcome in each(worlds.pooled(traits), rng, 250, 2_000).items():
            reviews["pooled", order] += outcome.reviews
            wrong["pooled"] += outcome.wrong and order == "ours"
        print(f"\r{regime.name} {seed + 1}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {"reviews": reviews, "wrong": wrong}


def each(trait: worlds.Trait, rng: np.random.Generator, every: int, coarse: int) -> dict[str, worlds.Outcome]:
    return {
        "ours": worlds.certify(trait, rng, every=every),
        "proposals": worlds.certify(trait, rng, band=False, every=coarse),
        "random": worlds.random_order(trait, rng, every=coarse),
    }


def at_the_border(seeds: range) -> list[int]:
    """Wrong certificates per prevalence if slightly more than ALPHA is missed and scores carry no information."""
    wrong = []
    for prevalence in (0.01, 0.02, 0.05, 0.12):
        rngs = [np.random.default_rng([seed, 1]) for seed in seeds]
        wrong.append(sum(worlds.certify(worlds.boundary(r, prevalence), r, band=False, every=10).wrong for r in rngs))
    return wrong


def curves() -> None:
    """Writes build/effort.svg for the docs: bound against units read; one world, a trait with a prevalence of 5 %."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure_, axes = pyplot.subplots(figsize=(8, 4.2))
    for regime, colour in zip(worlds.REGIMES, ("#1b7f5a", "#c77700", "#a03060"), strict=True):
        _, traits = next(worlds.worlds(regime, range(1)))
        trait, rng = traits[worlds.PREVALENCE.index(0.05)], np.random.default_rng(0)
        for options, style in ({"band": True}, "-"), ({"band": False, "blind": True, "every": 250}, ":"):
            line = worlds.curve(trait, rng, **options)
            name = f"{regime.name} proposer" if style == "-" else f"random order ({regime.name})"
            axes.plot(*zip(*line, strict=True), style, color=colour, label=name)
    axes.axhline(0.05, color="#888888", linewidth=0.8)
    axes.set(xlabel="units read of 10,000", ylabel="missed share, at most", ylim=(0, 1), xlim=(0, 10_000))
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure_.savefig(ROOT / "build" / "effort.svg", bbox_inches="tight", metadata={"Date": None})
