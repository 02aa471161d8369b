"""Costs of certifying, as tabled in docs/bounds.md: the mean of 20 worlds of 10,000 conversations, or of 60 if
there is a goal.

For each of three proposers and three prevalences, with scores and without (`claims_only`), and without proposals, in
random order.

These are computed from the draw and the bound alone. One world of each goal is also run through `review push`, `pull`
and `adjudicate`, and must cost exactly the same number of conversations. `floor`: an oracle has people read only the
conversations that hold something.
"""

import tempfile
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from tests.bench.figures import figure
from tests.worlds import cost_worlds as worlds
from tests.worlds.certificate_worlds import REGIMES, Regime

WORLDS, GOAL_WORLDS = range(20), range(60)
GOALS = {
    ("good", 0.50): "<= 0.65",
    ("mediocre", 0.50): "<= 0.80",
    ("good", 0.10): "<= 0.45",
    ("mediocre", 0.10): "<= 0.77",
}


def main() -> None:
    for any_of in worlds.ANY:
        random = prices(None, any_of, WORLDS)
        name, texts = f"review_cost.any_{any_of:.2f}", fmean(price.read for price in random)
        figure(f"{name}.floor", fmean(price.floor for price in random) / texts, "ratio", "reported")
        figure(f"{name}.random_order", texts, "texts", "reported")
        for proposer in REGIMES:
            goal, prefix = GOALS.get((proposer.name, any_of), "reported"), f"{name}.{proposer.name}"
            seeds = WORLDS if goal == "reported" else GOAL_WORLDS
            paid, claims_only = prices(proposer, any_of, seeds, scores=True), prices(proposer, any_of, seeds)
            figure(f"{prefix}.texts", fmean(price.read for price in paid), "texts", "reported")
            figure(f"{prefix}.over_random", fmean(price.read for price in paid) / texts, "ratio", goal)
            error = stdev(price.read for price in paid) / sqrt(len(paid))
            figure(f"{prefix}.over_random_error", error / texts, "standard error", "reported")
            figure(f"{prefix}.pushes", fmean(price.pushes for price in paid), "pushes", "reported")
            figure(f"{prefix}.claims_only", fmean(price.read for price in claims_only) / texts, "ratio", "reported")
            figure(f"{prefix}.wrong", sum(price.wrong for price in paid), "worlds", "<= 3")
    for proposer in REGIMES:
        for any_of in worlds.ANY:
            if (proposer.name, any_of) in GOALS:
                off = by_commands(proposer, any_of)
                figure(f"review_cost.any_{any_of:.2f}.{proposer.name}.commands_off_by", off, "texts", "= 0")


def prices(proposer: Regime | None, any_of: float, seeds: range, *, scores: bool = False) -> list[worlds.Price]:
    worlds_ = (worlds.world(proposer, any_of, seed, worlds.UNITS) for seed in seeds)
    return [worlds.computed(world, scores=scores) for world in worlds_]


def by_commands(proposer: Regime, any_of: float) -> int:
    """How many conversations more, or fewer, people read with the commands than computed."""
    world = worlds.world(proposer, any_of, 0, worlds.UNITS)
    with tempfile.TemporaryDirectory() as folder:
        paid = worlds.price(world, Path(folder) / "ws", scores=True)
    return abs(paid.read - worlds.computed(world, scores=True).read)
