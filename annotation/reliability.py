"""Compares each reviewer with the labels, and estimates how close disputes are, to order them; it makes no labels.

reads  votes (both kinds), labels as they are now
gives  reviewer -> how their verdicts compare with the labels; (kind, subject, trait) -> the certainty of a model

Two votes a unit say little, and at a prevalence of 1 % such a model misses a fifth and more of the positives: so it
only sorts the adjudicator's queue. It must not rank reviewers: nearly all verdicts are `absent`, so of two who differ
it mostly believes the one who overlooks more. Written in numpy, and compared with crowd-kit by a test: to import
crowd-kit takes longer than all the rest of `review status`. Its MACE was tried and left out: of two who read 200
conversations and one who ticked `present` everywhere, it took the third for the one who is always right.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from annotation import aggregation
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.tables import UNIT

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDS = 50
SMOOTH = 0.01


def against_labels(votes: pl.DataFrame, judged: pl.DataFrame) -> dict[str, dict[str, JsonValue]]:
    """reviewer -> of the units that they answered and that have a verdict: labels `present`; how many of these they
    `found`; labels `absent` that they called present; verdicts that the adjudicator `ruled` on; those `overruled`."""
    labels = judged.drop_nulls("verdict").select(*UNIT, "method", label="verdict")
    there, yes, ruled = pl.col("label") == "present", pl.col("verdict") == "present", pl.col("method") == "adjudicated"
    figures = {"present": there, "found": there & yes, "false_alarms": (pl.col("label") == "absent") & yes}
    figures |= {"ruled": ruled, "overruled": ruled & (pl.col("verdict") != pl.col("label"))}
    rows = aggregation.by_reviewers(votes).join(labels, on=UNIT).group_by("reviewer")
    return {row.pop("reviewer"): row for row in rows.agg(n.sum().alias(name) for name, n in figures.items()).to_dicts()}


def certainties(votes: pl.DataFrame) -> pl.DataFrame | None:
    """UNIT and `sure`, how probable the likeliest verdict is by these votes of reviewers; None if no unit was read by a
    second person."""
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
    certainty = kinds.select("key", sure=pl.Series(likely.max(axis=1)))
    return units.join(certainty, on="key", how="left").select(*UNIT, "sure")


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


def closest_first(disputed: pl.DataFrame, certain: pl.DataFrame | None) -> pl.DataFrame:
    """The disputed units, sorted by `certainties` so that those with the most doubtful votes come first."""
    if certain is None or disputed.is_empty():
        return disputed
    ranked = disputed.join(certain, on=UNIT, how="left", maintain_order="left")
    return ranked.sort(pl.col("sure").fill_null(0.0), maintain_order=True).drop("sure")
