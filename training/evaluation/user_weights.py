"""Counts each user once, weighted by how they were drawn: estimates for all people, not only for those reviewed.

Rows of one conversation (`made_from`: a request of every turn; injected ones) are one user, who has the mean of their
values. Reviewers read every conversation with a proposal, and a random sample of the rest; `weight` = 1 / the
probability that it was reviewed; 0 or null for a row that represents nobody (drawn by no audit, injected, not reviewed,
or of a release without weights), which is in no weighted figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from saferec_builder.scoring.intervals import WEIGHTED, Interval, intervals
from saferec_builder.scoring.metrics import Bools, Floats
from training.data import Row
from training.harness.scoring import users_mean

DRAWS = 1000  # resamples of a bootstrap
SHARES = ("svr", "svr_upper")  # metrics that also have a weighted form


class Share(TypedDict):
    raw: Interval  # share of users of the split who tell a sensitivity in a request
    weighted: Interval | None  # in the population that it was drawn from; None: no row has a weight


Prevalence = dict[str, Share]  # "any" and each trait


def weights(table: Sequence[Row]) -> Floats:
    return np.array([row.get("weight") or 0.0 for row in table], dtype=np.float64)


def weighted(values: Mapping[str, Floats], row_weights: Floats, k: int) -> dict[str, Floats]:
    """Returns the values of SHARES under the names of their weighted means; empty if no row has a weight."""
    has_weight = row_weights > 0
    columns = {f"{name}{WEIGHTED}@{k}": np.where(has_weight, values[f"{name}@{k}"], np.nan) for name in SHARES}
    return columns if has_weight.any() else {}


def people(table: Sequence[Row]) -> NDArray[np.int64]:
    """Returns the number of the user of each row, numbered in the order of the rows."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(user(row), len(numbers)) for row in table], np.int64)


def figures(
    values: Mapping[str, Floats],
    table: Sequence[Row],
    mask: Bools | slice = slice(None),
    draws: int = DRAWS,
    *,
    paired: bool = False,
    highest: Mapping[str, float] = {},
) -> dict[str, Interval]:
    """Returns `intervals` over the users of the rows in the mask; values: one per row of the table. A length, or a
    difference of lengths, that is the same in every list has none: nothing varies."""
    _, users = np.unique(people(table)[mask], return_inverse=True)
    means = {name: _mean(value[mask], users) for name, value in values.items()}
    user_weights = _largest(weights(table)[mask], users)
    by_metric = intervals(means, draws, paired=paired, weights=user_weights, highest=highest)
    if "length" in values and len(np.unique(values["length"][mask])) == 1:
        ends: Interval = {"low": None, "high": None}
        by_metric["length"] |= ends | ({"detectable": None} if paired else {})
    return by_metric


def means(values: Mapping[str, Floats], table: Sequence[Row]) -> dict[str, float]:
    """Returns the means of `figures` alone, to compare models and settings on validation; NaN if there are no users."""
    users = people(table)
    by_user = {name: _mean(value, users) for name, value in values.items()}
    return {name: users_mean(value) for name, value in by_user.items()}


def _mean(values: Floats, users: NDArray[np.int64]) -> Floats:
    """Returns the mean per user over the rows that the metric applies to; NaN if there are none."""
    applies = ~np.isnan(values)
    count = np.bincount(users, applies)
    total = np.bincount(users, np.where(applies, values, 0.0))
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def _largest(values: Floats, users: NDArray[np.int64]) -> Floats:
    largest = np.zeros(users.max(initial=-1) + 1)
    np.maximum.at(largest, users, values)
    return largest


def prevalence(table: Sequence[Row], traits: Iterable[str]) -> Prevalence:
    """Returns the share of users with any sensitivity, and with each, by the `traits` of their own requests."""
    table = [row for row in table if not _is_injected(row)]
    users = people(table)
    user_weights = _largest(weights(table), users)
    has_weight = user_weights > 0
    has = {"any": [bool(row["traits"]) for row in table]}
    has |= {trait: [trait in row["traits"] for row in table] for trait in traits}
    result: Prevalence = {}
    for name, flags in has.items():
        values = _largest(np.array(flags, dtype=np.float64), users)
        columns = {"has": values, f"has{WEIGHTED}": np.where(has_weight, values, np.nan)}
        shares = intervals(columns, 1, weights=user_weights)
        result[name] = {"raw": shares["has"], "weighted": shares[f"has{WEIGHTED}"] if has_weight.any() else None}
    return result


def words(table: Sequence[Row], prevalence: Prevalence) -> str:
    """`users (each is one conversation) who tell a sensitivity in the request: 41 of 100 in this split (0.410)`; below
    it the estimated share of all conversations.

    table = the rows of this prevalence. Further lines say how many tell theirs only later, and if users have several
    requests, and injected ones.
    """
    natural = [row for row in table if not _is_injected(row)]
    sensitive = [row for row in table if row["traits"]]

    def users(rows: Sequence[Row]) -> int:
        return len({user(row) for row in rows})

    raw, drawn = prevalence["any"]["raw"], prevalence["any"]["weighted"]
    share = "" if raw["mean"] is None else f" ({raw['mean']:.3f})"
    own = {user(row) for row in natural if row["traits"]}
    counts = f"{len(own):,} of {users(natural):,} in this split{share}"
    lines = [f"users (each is one conversation) who tell a sensitivity in the request: {counts}"]
    if drawn is None:
        lines.append("of all conversations it cannot be told: no row of this release says how it was drawn")
    else:
        mean, low, high = (f"{drawn[name]:.3f}" for name in ("mean", "low", "high"))
        lines.append(f"estimated share of all conversations: {mean} (95 %: {low}..{high}), by how each was drawn")
    if later := len({user(row) for row in natural if row.get("late_traits")} - own):
        lines.append(f"{later:,} more tell theirs only after the request: here they count as users without one")
    if len(natural) > users(natural):
        lines.append(f"they have {len(natural):,} requests: a user counts once, with the mean over theirs")
    if injected := users([row for row in sensitive if _is_injected(row)]):
        lines.append(
            f"safety is over {users(sensitive):,} users: {injected:,} of them with an injected sentence of ours"
        )
    return "\n".join(lines)


def user(row: Row) -> str:
    """Returns the user of a row: the conversation that it was made from, or in older releases its own."""
    return row.get("made_from") or row["conversation"]


def _is_injected(row: Row) -> bool:
    return row.get("condition") == "injected"
