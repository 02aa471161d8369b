"""Estimates each reviewer's reliability and how close disputes are, to order work; it never makes labels.

reads  votes (reviewers', both kinds)
gives  reviewer -> share of their verdicts that the model believes; (kind, subject, trait) -> its certainty

Two votes a unit say little, and at a prevalence of 1 % such a model misses a fifth and more of the positives: so it
only sorts the adjudicator's queue and the table of reviewers. Written in numpy, and compared with crowd-kit by a test:
to import crowd-kit takes longer than all the rest of `review status`. Its MACE was tried and left out: of two who read
200 conversations and one who ticked `present` everywhere, it took the third for the one who is always right.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.storage.tables import UNIT

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDS = 50
SMOOTH = 0.01


@dataclass(frozen=True)
class Ranking:
    """skill: reviewer -> share of their verdicts that the model believes; sure: UNIT and `sure`, the probability of the
    likeliest verdict."""

    skill: dict[str, float]
    sure: pl.DataFrame


def rank(votes: pl.DataFrame) -> Ranking | None:
    """The ranking by these votes; None if no unit was read by a second person."""
    if votes.is_empty() or votes.group_by(UNIT).len()["len"].max() == 1:
        return None
    names, values = (votes[column].unique().sort().to_list() for column in ("reviewer", "verdict"))
    reviewer, answer = (
        pl.col(column).replace_strict(choices, range(len(choices)), return_dtype=pl.Int64)
        for column, choices in (("reviewer", names), ("verdict", values))
    )
    code = (reviewer * len(values) + answer).sort()
    # units with the same answers by the same people are one pattern: 280,000 units have some dozens
    units = votes.group_by(UNIT, maintain_order=True).agg(code=code, key=code.cast(pl.String).str.join(","))
    kinds = units.group_by("key", maintain_order=True).agg(pl.col("code").first(), weight=pl.len())
    votes_by_kind = kinds.with_row_index("kind").explode("code")
    kind, coded, weight = (votes_by_kind[name].to_numpy().astype(np.int64) for name in ("kind", "code", "weight"))
    shape = (kinds.height, len(names), len(values))
    likely = _dawid_skene(kind, coded // len(values), coded % len(values), weight, shape)
    believed = likely.argmax(axis=1)[kind] == coded % len(values)
    skill = {
        name: round(float(np.average(believed[is_theirs], weights=weight[is_theirs])), 4)
        for n, name in enumerate(names)
        for is_theirs in [coded // len(values) == n]
    }
    certainty = kinds.select("key", sure=pl.Series(likely.max(axis=1)))
    return Ranking(skill, units.join(certainty, on="key", how="left").select(*UNIT, "sure"))


def _dawid_skene(unit: Ints, reviewer: Ints, answer: Ints, weight: Ints, shape: tuple[int, int, int]) -> Floats:
    """P(verdict) per unit by expectation and maximisation, starting from the share of votes; a vote counts `weight`."""
    units, reviewers, values = shape
    likely = np.zeros((units, values))
    np.add.at(likely, (unit, answer), 1.0)
    likely /= likely.sum(axis=1, keepdims=True)
    counts = np.ones(units)
    counts[unit] = weight
    for _ in range(ROUNDS):
        confusion = np.full((reviewers, values, values), SMOOTH)  # reviewer, truth, answer
        np.add.at(confusion.transpose(0, 2, 1), (reviewer, answer), likely[unit] * weight[:, None])
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.tile(np.log(np.average(likely, axis=0, weights=counts) + 1e-12), (units, 1))
        np.add.at(logs, unit, np.log(confusion[reviewer, :, answer]))
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
    return likely


def closest_first(disputed: pl.DataFrame, ranking: Ranking | None) -> pl.DataFrame:
    """The disputed units, sorted so that those with the most doubtful votes come first."""
    if ranking is None or disputed.is_empty():
        return disputed
    ranked = disputed.join(ranking.sure, on=UNIT, how="left", maintain_order="left")
    return ranked.sort(pl.col("sure").fill_null(0.0), maintain_order=True).drop("sure")
