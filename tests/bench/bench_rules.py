"""How many conversations a core reads by the rules in a second; how right they are, tests/proposing/rules asserts."""

import time

import polars as pl

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing.rules import matcher as rules
from tests import rules_score
from tests.bench.figures import figure

MANY = 10_000


def main() -> None:
    """CPU seconds for 10,000 conversations, after the cues are compiled."""
    some = rules_score.demo("report").frame
    many = pl.concat([some] * (MANY // some.height + 1)).head(MANY)
    rules.read("warm")
    start = time.process_time()
    rules.propose(many, traits.load())
    figure("rules.cpu_seconds_10k", time.process_time() - start, "s", "< 60")
