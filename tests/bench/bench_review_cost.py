"""What certifying costs through `review push`, `pull` and `adjudicate`, as docs/review-guide.md tables it.

One world of 10,000 conversations for each of three proposers and three prevalences, and the same without proposals: in
random order. `floor`: an oracle has people read what holds something, and nothing else.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.figures import figure
from tests.worlds import cost_worlds as worlds
from tests.worlds.certificate_worlds import REGIMES, Regime

GOALS = {
    ("good", 0.50): "<= 0.65",
    ("mediocre", 0.50): "<= 0.80",
    ("good", 0.10): "<= 0.45",
    ("mediocre", 0.10): "<= 0.77",
}


def main() -> None:
    for any_of in worlds.ANY:
        random = price(worlds.NOBODY, any_of)
        name = f"review_cost.any_{any_of:.2f}"
        figure(f"{name}.floor", random.floor / random.read, "ratio", "reported")
        figure(f"{name}.random_order", random.read, "texts", "reported")
        for proposer in REGIMES:
            paid = price(proposer, any_of)
            goal = GOALS.get((proposer.name, any_of), "reported")
            figure(f"{name}.{proposer.name}.over_random", paid.read / random.read, "ratio", goal)
            figure(f"{name}.{proposer.name}.pushes", paid.pushes, "pushes", "reported")


def price(proposer: Regime, any_of: float, seed: int = 0, units: int = worlds.UNITS) -> worlds.Price:
    with tempfile.TemporaryDirectory() as place:
        paid = worlds.price(worlds.world(proposer, any_of, seed, units), Path(place) / "ws")
    print(f"{proposer.name} {any_of}: {paid}", file=sys.stderr)
    return paid
