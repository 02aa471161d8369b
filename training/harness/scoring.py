"""What one answer is worth: the rule that `evaluate` and the tasks of other harnesses share.

reads  a row of the config `grpo`, what a model wrote, the release
gives  {metric: value} as metrics.per_user defines them; None where a metric does not apply to this user
"""

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.oracle import Oracle
from saferec_builder.scoring.metrics import Floats, Judged, Ranked, columns, judge, per_user
from training.data import Release, Row

Scores = dict[str, float | None]


def score_one(row: Row, text: str, release: Release) -> Scores:
    """The metrics of one answer, unrounded; an empty one is an answer, what is no text a TrainingError."""
    if not isinstance(text, str):  # titles in a list would all be ids that nobody knows
        raise TrainingError(f"the answer is a {type(text).__name__}: expected the text as the model wrote it")
    if not isinstance(release, Release):
        raise TrainingError(f"{release!r} is no release: expected what `open_release` gives")
    found, _ = values([ranked(text, row, release)], [row], release.oracle, release.k)
    return by_user(found)[0]


def users_mean(values: Sequence[float] | Floats) -> float:
    """Over the users whom a figure applies to; NaN where there are none."""
    there = np.asarray(values)[~np.isnan(values)]
    return float(there.mean()) if len(there) else nan


def ranked(answer: str | Ranked, row: Row, release: Release | None) -> Ranked:
    """The items of an answer, best first; of a text with what it names beside them."""
    if not isinstance(answer, str):
        return answer
    if release is None:
        raise TrainingError("answers are text: expected the release, to turn titles into items")
    return release.listed(answer, row["domain"])


def values(lists: Sequence[Ranked], table: Sequence[Row], oracle: Oracle, k: int) -> tuple[dict[str, Floats], Judged]:
    """Every metric for the user of each row, NaN where it does not apply."""
    judged = judge(lists, columns(table), oracle, k)
    return per_user(judged), judged


def by_user(found: Mapping[str, Floats]) -> list[Scores]:
    """The same, a dict for each user."""
    each = zip(*(column.tolist() for column in found.values()), strict=True)
    return [{name: None if np.isnan(v) else v for name, v in zip(found, one, strict=True)} for one in each]
