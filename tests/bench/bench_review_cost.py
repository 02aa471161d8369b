"""What certifying costs, as docs/review-guide.md tables it: the mean of 20 worlds of 10,000 conversations,
of 60 where there is a goal.

For each of three proposers and three prevalences, with scores and without (`claims_only`), and without proposals, in
random order.

These are computed from the draw and the bound alone. One world of each goal is also paid for through `review push`,
`pull` and `adjudicate`, and must cost the same to the conversation. `floor`: an oracle has people read what holds
something, and nothing else.
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
            goal, of = GOALS.get((proposer.name, any_of), "reported"), f"{name}.{proposer.name}"
            seeds = WORLDS if goal == "reported" else GOAL_WORLDS
            paid, bare = prices(proposer, any_of, seeds, scores=True), prices(proposer, any_of, seeds)
            figure(f"{of}.texts", fmean(price.read for price in paid), "texts", "reported")
            figure(f"{of}.over_random", fmean(price.read for price in paid) / texts, "ratio", goal)
            error = stdev(price.read for price in paid) / sqrt(len(paid))
            figure(f"{of}.over_random_error", error / texts, "standard error", "reported")
            figure(f"{of}.pushes", fmean(price.pushes for price in paid), "pushes", "reported")
            figure(f"{of}.claims_only", fmean(price.read for price in bare) / texts, "ratio", "reported")
            figure(f"{of}.wrong", sum(price.wrong for price in paid), "worlds", "<= 3")
    for proposer in REGIMES:
        for any_of in worlds.ANY:
            if (proposer.name, any_of) in GOALS:
                off = by_commands(proposer, any_of)
                figure(f"review_cost.any_{any_of:.2f}.{proposer.name}.commands_off_by", off, "texts", "= 0")


def prices(proposer: Regime | None, any_of: float, seeds: range, *, scores: bool = False) -> list[worlds.Price]:
    made = (worlds.world(proposer, any_of, seed, worlds.UNITS) for seed in seeds)
    return [worlds.computed(world, scores=scores) for world in made]


def by_commands(proposer: Regime, any_of: float) -> int:
    """How many conversations more, or fewer, the commands have people read than was computed."""
    made = worlds.world(proposer, any_of, 0, worlds.UNITS)
    with tempfile.TemporaryDirectory() as place:
        paid = worlds.price(made, Path(place) / "ws", scores=True)
    return abs(paid.read - worlds.computed(made, scores=True).read)
