"""How right the rules are on gold that they were not tuned on, and how many conversations a core reads in a second."""

import os
import time
from pathlib import Path

import polars as pl

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing.rules import matcher as rules
from tests import rules_score
from tests.bench.figures import figure

MANY = 10_000


def main() -> None:
    gold = rules_score.demo("report")
    rows = rules_score.proposals(gold)
    for form, goals in (("explicit", (">= 0.90", ">= 0.85")), ("implicit", ("none", "none"))):
        tell(f"rules.demo_{form}", rules_score.rates(gold, rows, form), goals)
    present, _, size = rules_score.flagged(gold, rows, "lookalike")
    figure("rules.demo_lookalikes_flagged", present / size, "share", "<= 0.05")
    banks = rules_score.banks()
    heard = rules_score.rates(banks, rules_score.proposals(banks))
    figure("rules.banks_explicit_recall", heard.recall or 0.0, f"share of {heard.gold}", "none")
    if folder := os.environ.get("SAFEREC_REAL_DATA"):
        real = rules_score.real(Path(folder))
        found = rules_score.proposals(real)
        tell("rules.real", rules_score.rates(real, found), ("none", "none"))
        present, _, size = rules_score.flagged(real, found, "none")
        figure("rules.real_false_alarms", present / size, "share", "none")
    speed(gold.frame)


def tell(name: str, rates: rules_score.Rates, goals: tuple[str, str]) -> None:
    figure(f"{name}_precision", rates.precision or 0.0, "share", goals[0])
    figure(f"{name}_recall", rates.recall or 0.0, "share", goals[1])


def speed(some: pl.DataFrame) -> None:
    """CPU seconds for 10,000 conversations, after the cues are compiled."""
    many = pl.concat([some] * (MANY // some.height + 1)).head(MANY)
    rules.read("warm")
    start = time.process_time()
    rules.propose(many, traits.load())
    figure("rules.cpu_seconds_10k", time.process_time() - start, "s", "< 60")


if __name__ == "__main__":
    main()
