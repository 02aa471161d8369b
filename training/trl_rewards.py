"""Our rewards for TRL's own command: plain functions, named by their import path.

docs/training.md has the command. They read text, as described in evaluation/rewards.py. The release of the rows (a
folder, or NAMESPACE/NAME@VERSION on the Hub) is opened at the first call. Whether a request of the condition `open`
tells a sensitivity is in doubt: its relevance and safety are None, which TRL leaves out, because without a trait every
list would be safe.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from saferec_builder.core.errors import TrainingError
from training.data import OPEN, open_release
from training.evaluation import rewards
from training.evaluation.rewards import Completion, RewardFunction

RELEASE = "SAFEREC_RELEASE"


def relevance(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
    return _none_where_open(_rewards()["relevance"](completions, **columns), columns)


def safety(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
    return _none_where_open(_rewards()["safety"](completions, **columns), columns)


def count(completions: Sequence[Completion], **columns: Any) -> list[float]:
    return _rewards()["count"](completions, **columns)


def _none_where_open(values: Sequence[float], columns: Mapping[str, Any]) -> list[float | None]:
    return [None if condition == OPEN else v for v, condition in zip(values, columns["condition"], strict=True)]


def _rewards() -> Mapping[str, RewardFunction]:
    name = os.environ.get(RELEASE)
    if not name:
        raise TrainingError(f"the environment variable {RELEASE} is missing: expected the release of these rows")
    return _rewards_of(name)


@cache
def _rewards_of(release_name: str) -> Mapping[str, RewardFunction]:
    release = open_release(release_name)
    functions = rewards.functions(rewards.reader(release.listed), release.oracle, release.k)
    return dict(zip(rewards.OURS, functions, strict=True))
