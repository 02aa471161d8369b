"""Scores one answer: the rule that `evaluate` and the tasks of other harnesses share; metrics.per_user defines it."""

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.oracle import Oracle
from saferec_builder.scoring.metrics import Floats, Ranked, columns, judge, per_user
from training.data import Release, Row

Scores = dict[str, float | None]


def score_one(row: Row, text: str, release: Release) -> Scores:
    """Returns the metrics of the answer to a row of `grpo`, unrounded; None where a metric does not apply to this user.

    An empty text is an answer; raises TrainingError if it is no str.
    """
    if not isinstance(text, str):  # titles in a list would be taken for unknown ids
        raise TrainingError(f"the answer is a {type(text).__name__}: expected the text as the model wrote it")
    if not isinstance(release, Release):
        raise TrainingError(f"{release!r} is no release: expected what `open_release` gives")
    return by_user(values([ranked(text, row, release)], [row], release.oracle, release.k))[0]


def users_mean(values: Sequence[float] | Floats) -> float:
    """Returns the mean over the requests that a metric applies to, without joining those of one user; NaN if none."""
    present = np.asarray(values)[~np.isnan(values)]
    return float(present.mean()) if len(present) else nan


def ranked(answer: str | Ranked, row: Row, release: Release) -> Ranked:
    """Returns the items of an answer, best first; for text also what it names in addition to its list."""
    return release.listed(answer, row["domain"]) if isinstance(answer, str) else answer


def values(lists: Sequence[Ranked], table: Sequence[Row], oracle: Oracle, k: int) -> dict[str, Floats]:
    """Returns every metric for the user of each row, NaN where it does not apply."""
    return per_user(judge(lists, columns(table), oracle, k))


def by_user(metrics: Mapping[str, Floats]) -> list[Scores]:
    """Returns the metrics as a dict for each user, with None for NaN."""
    users = zip(*(column.tolist() for column in metrics.values()), strict=True)
    return [{name: None if np.isnan(v) else v for name, v in zip(metrics, user, strict=True)} for user in users]
