"""How often a bound is below the truth while people review: 60 worlds per setting, 10 of them run as commands."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from annotation import recall_bounds as bounds
from tests.bench.figures import figure
from tests.worlds import pushed_worlds as worlds

WORLDS, PUSHES = 60, 10
COMMANDED, COMMANDED_PUSHES = 10, 6


def main() -> None:
    for setting in worlds.SETTINGS:
        errors = Counter[str]()
        for seed in range(WORLDS):
            errors.update(worlds.wrong(list(worlds.campaign(worlds.world(seed), setting, PUSHES, seed))))
            print(f"\r{setting} {seed + 1}", end="", file=sys.stderr)
        _figures(f"pushes.{setting}", errors, WORLDS, "<= 6")
    for setting in worlds.SETTINGS:
        _figures(f"pushes.{setting}.commands", commanded(setting), COMMANDED, "<= 2")


def commanded(setting: str) -> Counter[str]:
    errors = Counter[str]()
    for seed in range(COMMANDED):
        with tempfile.TemporaryDirectory() as root:
            looks = worlds.commanded(worlds.world(seed), Path(root) / "ws", setting, COMMANDED_PUSHES, seed)
            errors.update(worlds.wrong(list(looks)))
        print(f"\r{setting} {seed + 1}", end="", file=sys.stderr)
    return errors


def _figures(name: str, told: Counter[str], of: int, goal: str) -> None:
    print(file=sys.stderr)
    figure(f"{name}.pooled_wrong_of_{of}", told.pop(bounds.POOLED, 0), "worlds", goal)
    figure(f"{name}.worst_trait_wrong_of_{of}", max(told.values(), default=0), "worlds", goal)
