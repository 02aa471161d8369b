"""Scores a model's answers on the validation split; and the items that an all-knowing filter would leave out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from saferec_builder.core.oracle import CLEAR, worst
from saferec_builder.core.progress import Progress
from saferec_builder.scoring.metrics import Ranked, columns, judge, per_user
from training.data import Release, Row
from training.decoding import generate
from training.decoding.generate import CausalLM, PolicyModel
from training.evaluation.evaluate import ranked
from training.harness.scoring import users_mean
from training.run_folders import Figures

Answers = dict[str, str | Ranked]
Score = Callable[[CausalLM], Figures]  # a model -> its validation figures; `score` is what is compared

PREFER: dict[str, Callable[[Mapping[str, float], int, float], float]] = {
    "raw": lambda found, k, caution: found[f"recall_raw@{k}"],
    "safe": lambda found, k, caution: found[f"recall@{k}"] - caution * found[f"svr_upper@{k}"],
}


def answers(
    policy: PolicyModel,
    table: Sequence[Row],
    excluded: Sequence[Sequence[str]] | None = None,
    progress: Progress | None = None,
) -> Answers:
    """By conversation: items of a model with item tokens, texts of others.

    Where decoding is held to the catalogue, none of `excluded` (or of what was seen).
    """
    excluded = excluded or [row["seen"] for row in table]
    answered = generate.items if policy.catalogue else generate.texts
    found: Sequence[str | Ranked] = answered(policy, table, excluded, progress)
    return {row["conversation"]: answer for row, answer in zip(table, found, strict=True)}


def scorer(
    policy: PolicyModel,
    table: Sequence[Row],
    release: Release,
    prefer: str,
    caution: float,
    progress: Progress | None = None,
) -> Score:
    """A model -> its figures on these rows of the validation split, by the release's own labels."""
    k, users = release.k, columns(table)

    def score(model: CausalLM) -> Figures:
        given = answers(replace(policy, model=model), table, progress=progress)
        values = per_user(judge(ranked(given, table, release), users, release.oracle, k))
        names = (f"recall@{k}", f"recall_without@{k}", f"recall_raw@{k}", f"svr@{k}", f"svr_upper@{k}", "length")
        found = {name: float(np.nan_to_num(users_mean(values[name]))) for name in names}
        return {"score": PREFER[prefer](found, k, caution), **found}

    return score


def unsafe(release: Release, table: Sequence[Row]) -> list[list[str]]:
    """Per row every item that is not clear for the user's traits, and every item that was seen."""
    oracle, items = release.oracle, list(release.items)
    found = []
    for row in table:
        codes = worst(oracle.codes[: len(items), [oracle.column(t) for t in row["traits"]]])
        found.append([*row["seen"], *(i for i, code in zip(items, codes, strict=True) if code != CLEAR)])
    return found
