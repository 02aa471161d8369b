"""Simulated worlds of people who read with and without suggestions: who is flagged, and what two readers miss.

In a world of careless readers everybody reads the same number of decoys and controls. In a world of labels four people
read the claims of a proposer and, without suggestions, a part of the rest; positives that two of them found without a
suggestion go to the other two as controls.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import polars as pl

from annotation import careless_reviewers as attention, confidence_bounds as certificates, controls
from annotation.confidence_bounds import Audit
from annotation.controls import Blind
from annotation.task_assignment import AUDIT, Plan
from saferec_builder.storage import tables

PEOPLE = ("ann", "bo", "di", "el")
UNITS = 4_000
PREVALENCE = 0.1
RECALL = 0.5  # of the proposer; controls are made of the positives that people find by themselves
AUDITED = 0.9
BOTH = 0.06  # chance that two readers both miss a control; each misses a fifth, so independent readers would have 0.04
ONE = 0.28  # chance that exactly one of them misses it


@dataclass(frozen=True)
class Reader:
    """Chance to accept a decoy, and chance to miss a trait that is present and not suggested."""

    accepts: float
    misses: float


HONEST = Reader(0.15, 0.3)  # blind recall 0.7, the lowest that counts as honest
PASTES = Reader(0.05, 0.95)  # finds a twentieth of what people found and the pasted model did not
CLICKS = Reader(0.95, 1.0)  # accepts what is shown, and adds nothing


def ever_flagged(reader: Reader, seed: int, asked: int = 20) -> bool:
    """Whether this reader is flagged after any of the first `asked` answers."""
    chance = np.random.default_rng([seed, 30]).random((2, asked))
    decoys, missed = (chance < [[reader.accepts], [reader.misses]]).cumsum(axis=1)
    counts = enumerate(zip(decoys.tolist(), missed.tolist(), strict=True), 1)
    return any(_flagged(yes, no, n) for n, (yes, no) in counts)


@cache
def _flagged(accepted: int, missed: int, asked: int) -> bool:
    return bool(attention.flags(accepted=accepted, decoys=asked, missed=missed, there=asked))


@dataclass(frozen=True)
class Look:
    """One point in time: what the labels miss of the truth, the bound relative to these readers, and the controls."""

    missed: float
    share: float | None
    blind: Blind

    def covers(self, harder: float = 1.0) -> bool:
        """Whether the bound holds for the truth; also True where it is only relative to these reviewers."""
        rate = self.blind.rate and min(1.0, harder * self.blind.rate)
        bound = controls.of_the_truth(self.share, replace(self.blind, rate=rate))
        return bound is None or self.missed <= bound + 1e-9


def looks(seed: int, harder: float, times: int = 4) -> Iterator[Look]:
    """Looks while the controls are read; two readers miss other positives `harder` times as often as controls."""
    rng = np.random.default_rng([seed, 31])
    truth = rng.random(UNITS) < PREVALENCE
    claimed = truth & (rng.random(UNITS) < RECALL)
    order = rng.permutation(np.flatnonzero(~claimed))
    audited = order[: int(AUDITED * len(order))]
    labelled = claimed & (rng.random(UNITS) >= BOTH)
    blind = audited[truth[audited] & (rng.random(len(audited)) >= min(1.0, harder * BOTH))]
    labelled[blind] = True
    audit = Audit(int(labelled[claimed].sum()), len(order), tuple(labelled[audited].astype(int).tolist()))
    share = certificates.bound(audit, certificates.DELTA / 2).share
    assignments, votes = _read(rng, np.flatnonzero(claimed), audited, np.flatnonzero(labelled))
    judged = _rows([f"w{n}" for n in np.flatnonzero(labelled)])
    judged = judged.with_columns(verdict=pl.lit("present"), method=pl.lit("agreed"))
    claims = _rows([f"w{n}" for n in np.flatnonzero(claimed)]).with_columns(verdict=pl.lit("present"))
    for n in range(1, times + 1):
        votes_so_far = votes.head(votes.height * n // times)
        read = controls.readings(assignments, votes_so_far, judged, tables.GOLD.empty, claims, tables.DECOYS.empty)
        yield Look(1 - labelled.sum() / truth.sum(), share, controls.blind_misses(read))


def _read(
    rng: np.random.Generator, claimed: np.ndarray, audited: np.ndarray, found: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(assignments, votes on the controls among them): the audits were assigned before, the claims are new."""
    pairs = [pair for n, first in enumerate(PEOPLE) for pair in ((first, second) for second in PEOPLE[n + 1 :])]

    def tasks(units: np.ndarray, why: str) -> pl.DataFrame:
        rows = [
            ("sensitivity", f"w{n}", name, "reviewer", f"d{n}", why, "push")
            for n, pair in zip(units, rng.integers(len(pairs), size=len(units)), strict=True)
            for name in pairs[pair]
        ]
        return tables.ASSIGNMENTS.frame(rows)

    earlier, new = tasks(audited, AUDIT), tasks(claimed, "proposed")
    supply = _rows([f"w{n}" for n in np.setdiff1d(found, claimed)])
    texts = earlier.select("kind", "subject", "digest").unique().with_columns(current=pl.lit(True))
    assignments = pl.concat([earlier, controls.plant(new, earlier, supply, texts, Plan(PEOPLE), 0.06)])
    chance = {s: rng.random() for s in supply["subject"]}
    placed = assignments.filter(why="control").with_columns(nth=pl.int_range(pl.len()).over("subject"))
    missed = [
        chance[s] < BOTH + (ONE / 2 if nth == 0 else 0) or (nth > 0 and BOTH + ONE / 2 <= chance[s] < BOTH + ONE)
        for s, nth in placed.select("subject", "nth").iter_rows()
    ]
    vote = pl.Series("verdict", ["absent" if is_missed else "present" for is_missed in missed], dtype=pl.String)
    return assignments, placed.select("kind", "subject", "reviewer", "role", trait=pl.lit("needles")).with_columns(vote)


def _rows(subjects: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"subject": subjects}, schema={"subject": pl.String}).select(
        pl.lit("sensitivity").alias("kind"), "subject", trait=pl.lit("needles")
    )
