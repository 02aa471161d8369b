"""Our rewards for TRL's own command: plain functions, named by their import path.

docs/training.md has the command. They read text, as described in evaluation/rewards.py. The release of the rows (a
folder, or NAMESPACE/NAME@VERSION on the Hub) is opened at the first call.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from saferec_builder.core.errors import TrainingError
from training.data import open_release
from training.evaluation import rewards
from training.evaluation.rewards import Completion, RewardFunction

RELEASE = "SAFEREC_RELEASE"


def relevance(completions: Sequence[Completion], **columns: Any) -> list[float]:
    return _rewards()["relevance"](completions, **columns)


def safety(completions: Sequence[Completion], **columns: Any) -> list[float]:
    return _rewards()["safety"](completions, **columns)


def count(completions: Sequence[Completion], **columns: Any) -> list[float]:
    return _rewards()["count"](completions, **columns)


@cache
def _rewards() -> Mapping[str, RewardFunction]:
    name = os.environ.get(RELEASE)
    if not name:
        raise TrainingError(f"the environment variable {RELEASE} is missing: expected the release of these rows")
    release = open_release(name)
    functions = rewards.functions(rewards.reader(release.listed), release.oracle, release.k)
    return dict(zip(rewards.OURS, functions, strict=True))
