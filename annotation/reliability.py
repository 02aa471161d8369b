"""Estimates each reviewer's reliability and how close disputes are, to order work; it never makes labels.

reads  votes (reviewers', both kinds)
gives  reviewer -> how often they say what the model takes for true; (kind, subject, trait) -> how sure it is

Two votes a unit tell little, and at a prevalence of 1 % such a model misses a fifth and more of what is there: that is
why it only sorts the adjudicator's queue and the table of reviewers. In numpy, held together with crowd-kit by a test:
importing crowd-kit takes longer than all the rest of `review status`. Its MACE was tried and left out: of two who read
200 conversations and one who ticked `present` everywhere, it took the third for the one who is always right.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

UNIT = ("kind", "subject", "trait")
ROUNDS = 50
SMOOTH = 0.01


@dataclass(frozen=True)
class Ranking:
    skill: dict[str, float]
    sure: dict[tuple[str, ...], float]


def rank(votes: pl.DataFrame) -> Ranking | None:
    """None where nobody's work was read by a second person."""
    if votes.is_empty() or votes.group_by(UNIT).len()["len"].max() == 1:
        return None
    rows = votes.select(*UNIT, "reviewer", "verdict").sort(*UNIT, "reviewer").rows()
    units = {unit: n for n, unit in enumerate(dict.fromkeys(row[:3] for row in rows))}
    names, values = (sorted({row[at] for row in rows}) for at in (3, 4))
    unit = np.array([units[row[:3]] for row in rows])
    who = np.array([names.index(row[3]) for row in rows])
    answer = np.array([values.index(row[4]) for row in rows])
    likely = _dawid_skene(unit, who, answer, (len(units), len(names), len(values)))
    right = likely.argmax(axis=1)[unit] == answer
    skill = {name: round(float(right[who == n].mean()), 4) for n, name in enumerate(names)}
    return Ranking(skill, dict(zip(units, likely.max(axis=1).tolist(), strict=True)))


def _dawid_skene(
    unit: NDArray[np.int64], who: NDArray[np.int64], answer: NDArray[np.int64], shape: tuple[int, int, int]
) -> NDArray[np.float64]:
    """P(verdict) per unit by expectation and maximisation, from the share of votes for each."""
    units, people, values = shape
    likely = np.zeros((units, values))
    np.add.at(likely, (unit, answer), 1.0)
    likely /= likely.sum(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        confusion = np.full((people, values, values), SMOOTH)  # who, truth, said
        np.add.at(confusion.transpose(0, 2, 1), (who, answer), likely[unit])
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.tile(np.log(likely.mean(axis=0) + 1e-12), (units, 1))
        np.add.at(logs, unit, np.log(confusion[who, :, answer]))
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
    return likely


def closest_first(disputed: pl.DataFrame, ranking: Ranking | None) -> pl.DataFrame:
    """The disputed units, those first about which the votes leave most doubt."""
    if ranking is None:
        return disputed
    sure = [ranking.sure.get(unit, 0.0) for unit in disputed.select(UNIT).iter_rows()]
    return (
        disputed.with_columns(pl.Series("sure", sure, dtype=pl.Float64)).sort("sure", maintain_order=True).drop("sure")
    )
