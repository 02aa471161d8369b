"""Measures how often a bound on what is missed is below the truth, at any look, in situations of real campaigns.

200 worlds for each condition of tests/worlds/coverage_worlds.py, with the product's own design, routing and bounds.
A correct method at 95 % errs in 10 of 200; 16 or more happen in 4 of 100 runs.
"""

import sys

from tests.bench.figures import figure
from tests.worlds import blind_worlds, coverage_worlds as worlds, drawn_worlds

WORLDS = 200
LIVES = 10_000  # of honest readers: the error that is promised for them is rare


def main() -> None:
    single_worst = joint_worst = 0
    for condition in worlds.CONDITIONS:
        print(f"\r{condition:<24}", end="", file=sys.stderr)
        single, joint = worlds.wrong(condition, range(WORLDS))
        worst = max(single.values(), default=0)
        name = condition.replace(", ", "_").replace(" ", "_")
        figure(f"coverage.{name}.single", worst, "worlds", "<= 15")
        figure(f"coverage.{name}.joint", joint, "worlds", "<= 15")
        single_worst, joint_worst = max(single_worst, worst), max(joint_worst, joint)
    figure("coverage.single_worst", single_worst, "worlds", "<= 15")
    figure("coverage.joint_worst", joint_worst, "worlds", "<= 15")
    attention_figures()
    weighted_figures()


def weighted_figures() -> None:
    """Prevalence and svr of all conversations, estimated from those that were read and their weights."""
    errors = [drawn_worlds.errors(condition, range(WORLDS)) for condition in drawn_worlds.CONDITIONS]
    for name in ("prevalence", "svr"):
        figure(f"coverage.weighted_{name}.error", max(error[name][0] for error in errors), "std err", "<= 2")
        figure(f"coverage.weighted_{name}.covered", min(error[name][1] for error in errors), "share", ">= 0.93")


def attention_figures() -> None:
    """Careless readers with 20 decoys and 20 controls; honest ones with 200 of each, checked after each answer; and the
    bound on the truth, for missed ones that are once, twice and five times as hard as the controls."""
    careless = [
        sum(blind_worlds.ever_flagged(reader, seed) for seed in range(WORLDS)) / WORLDS
        for reader in (blind_worlds.PASTES, blind_worlds.CLICKS)
    ]
    figure("coverage.careless_flagged", min(careless), "share", ">= 0.99")
    honest = sum(blind_worlds.ever_flagged(blind_worlds.HONEST, seed, asked=200) for seed in range(LIVES)) / LIVES
    figure("coverage.honest_flagged", honest, "share", "<= 0.005")
    for harder, name in ((1, ""), (2, ".harder_2"), (5, ".harder_5")):
        covered = sum(all(look.covers(harder) for look in blind_worlds.looks(seed, harder)) for seed in range(WORLDS))
        figure(f"coverage.truth_relative{name}", covered, "worlds", ">= 190")
