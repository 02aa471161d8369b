"""Our rewards for TRL's own command: plain functions, named by their import path.

    SAFEREC_RELEASE=releases/1.0.0 trl grpo --dataset_name releases/1.0.0 --dataset_config grpo \\
        --reward_funcs training.trl_rewards.relevance training.trl_rewards.safety training.trl_rewards.count

They read text, as described in evaluation/rewards.py. The release (a folder, or NAMESPACE/NAME@VERSION on the Hub) is
opened at the first call; it must be the release of the rows.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from saferec_builder.core.errors import TrainingError
from training.data import open_release
from training.evaluation import rewards
from training.evaluation.rewards import Completion, RewardFunction
from training.release_from_hub import folder

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
    release = open_release(folder(name))
    functions = rewards.functions(rewards.reader(release.listed), release.oracle, release.k)
    return dict(zip(rewards.OURS, functions, strict=True))
