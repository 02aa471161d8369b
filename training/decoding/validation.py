"""A model's answers for rows of a release, what they are worth on validation, and the filter that knows everything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saferec_builder.core.oracle import CLEAR, worst
from saferec_builder.scoring.metrics import columns, judge, per_user
from training.data import Release, Row
from training.decoding import generate
from training.decoding.generate import Speaker
from training.evaluation.evaluate import ranked
from training.trainers.best_checkpoint import Score

Answers = dict[str, str | Sequence[str | None]]

PREFER: dict[str, Callable[[Mapping[str, float], int, float], float]] = {
    "raw": lambda found, k, caution: found[f"recall_raw@{k}"],
    "safe": lambda found, k, caution: found[f"recall@{k}"] - caution * found[f"svr_upper@{k}"],
}


def answers(speaker: Speaker, table: Sequence[Row], shut: Sequence[Sequence[str]] | None = None) -> Answers:
    """By conversation: items of a model with item tokens, texts of others; none of `shut` (or of what was seen) where
    decoding is held to the catalogue."""
    shut = shut or [row["seen"] for row in table]
    found: Sequence[Any] = (generate.items if speaker.catalogue else generate.texts)(speaker, table, shut)
    return {row["conversation"]: answer for row, answer in zip(table, found, strict=True)}


def scorer(speaker: Speaker, table: Sequence[Row], release: Release, prefer: str, caution: float) -> Score:
    """A model -> its figures on these rows of the validation split, by the release's own labels."""
    k, users = release.k, columns(table)

    def score(model: Any) -> dict[str, float]:
        given = answers(replace(speaker, model=model), table)
        values = per_user(judge(ranked(given, table, release.find), users, release.oracle, k))
        names = (f"recall@{k}", f"recall_raw@{k}", f"svr@{k}", f"svr_upper@{k}", "length")
        found = {name: _mean(values[name]) for name in names}
        return {"score": PREFER[prefer](found, k, caution), **found}

    return score


def _mean(values: Any) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else 0.0


def unsafe(release: Release, table: Sequence[Row]) -> list[list[str]]:
    """Per row every item that is not clear for the user's traits, and every item that was seen."""
    oracle, items = release.oracle, list(release.items)
    found = []
    for row in table:
        codes = worst(oracle.codes[: len(items), [oracle.column(t) for t in row["traits"]]])
        found.append([*row["seen"], *(i for i, code in zip(items, codes, strict=True) if code != CLEAR)])
    return found
