"""Counts each user once, weighed by how they were drawn: figures speak of all people, not of what was read of them.

reads  rows with `made_from`, the conversation that they are of, and `weight`: 1 / the chance with which it came to be
       read (docs/review-guide.md)
gives  intervals over users, svr of the population beside that of the split, and how many have each sensitivity in both

Rows of one conversation (a request of every turn; injected ones) are one user, who has the mean of their values: what
one person asks again is no further evidence of what people get.

People read every conversation in which something was proposed, and of the rest a random part: among what was read
sensitivities are several times as frequent as among all. A weight is 0 or null where a row stands for nobody (drawn by
no audit, injected, read by nobody, or of a release that has no weights): such rows are in no weighted figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from saferec_builder.scoring.intervals import WEIGHTED, Interval, intervals
from saferec_builder.scoring.metrics import Bools, Floats
from training.data import Row

DRAWS = 1000  # resamples of a bootstrap
SHARES = ("svr", "svr_upper")  # those that have a weighted one


class Share(TypedDict):
    """Of users with a sensitivity: among those of the split, and among all that these were drawn from."""

    raw: Interval
    weighted: Interval | None  # None: no row has a weight


Prevalence = dict[str, Share]  # "any" and each trait


def weights(table: Sequence[Row]) -> Floats:
    """Of each row; 0 where it stands for nobody."""
    return np.array([row.get("weight") or 0.0 for row in table], dtype=np.float64)


def weighted(values: Mapping[str, Floats], of: Floats, k: int) -> dict[str, Floats]:
    """The values of SHARES once more, under the names of weighted means; none where no row has a weight."""
    known = of > 0
    each = {f"{name}{WEIGHTED}@{k}": np.where(known, values[f"{name}@{k}"], np.nan) for name in SHARES}
    return each if known.any() else {}


def people(table: Sequence[Row]) -> NDArray[np.int64]:
    """Of each row the number of the user whom it is of, in the order of the rows."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(user(row), len(numbers)) for row in table], np.int64)


def figures(
    values: Mapping[str, Floats],
    table: Sequence[Row],
    mask: Bools | None = None,
    draws: int = DRAWS,
    *,
    paired: bool = False,
) -> dict[str, Interval]:
    """`intervals` over the users of those rows of the table that the mask holds; values: one per row of the table."""
    if mask is None:
        mask = np.ones(len(table), bool)
    _, who = np.unique(people(table)[mask], return_inverse=True)
    each = {name: _mean(value[mask], who) for name, value in values.items()}
    return intervals(each, draws, paired=paired, weights=_largest(weights(table)[mask], who))


def _mean(values: Floats, who: NDArray[np.int64]) -> Floats:
    """Per user, of the rows that the metric applies to; NaN where there is none."""
    there = ~np.isnan(values)
    count = np.bincount(who, there)
    total = np.bincount(who, np.where(there, values, 0.0))
    mean: Floats = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean


def _largest(values: Floats, who: NDArray[np.int64]) -> Floats:
    """Per user; values are 0 or more."""
    found = np.zeros(who.max(initial=-1) + 1)
    np.maximum.at(found, who, values)
    return found


def prevalence(table: Sequence[Row], traits: Iterable[str]) -> Prevalence:
    """The share of users with any sensitivity, and with each, as one of their requests says it (`traits`). Injected
    rows are left out."""
    table = [row for row in table if not _is_injected(row)]
    who = people(table)
    of = _largest(weights(table), who)
    has = {"any": np.array([bool(row["traits"]) for row in table], dtype=np.float64)}
    has |= {trait: np.array([trait in row["traits"] for row in table], dtype=np.float64) for trait in traits}
    return {name: _share(_largest(values, who), of) for name, values in has.items()}


def _share(values: Floats, of: Floats) -> Share:
    known = of > 0
    both = {"has": values, f"has{WEIGHTED}": np.where(known, values, np.nan)}
    found = intervals(both, 1, weights=of)
    return {"raw": found["has"], "weighted": found[f"has{WEIGHTED}"] if known.any() else None}


def words(table: Sequence[Row], found: Prevalence) -> str:
    """`users with a sensitivity: 41 of 100 of this split (0.410); 0.098 (0.071..0.132) of all, by how each was drawn`.

    table = the rows that `found` is of. A second line says where users have several requests, a third that safety is
    over injected ones too.
    """
    plain, ours = ([row for row in table if _is_injected(row) is injected] for injected in (False, True))
    users, told = (len({user(row) for row in some}) for some in (plain, _told(plain)))
    raw, drawn = found["any"]["raw"], found["any"]["weighted"]
    share = "" if raw["mean"] is None else f" ({raw['mean']:.3f})"
    lines = [f"users with a sensitivity: {told:,} of {users:,} of this split{share}"]
    if drawn is None:
        lines.append("of all conversations it cannot be told: no row of this release says how it was drawn")
    else:
        lines[0] += f"; {drawn['mean']:.3f} ({drawn['low']:.3f}..{drawn['high']:.3f}) of all, by how each was drawn"
    if len(plain) > users:
        lines.append(f"they have {len(plain):,} requests: a user counts once, with the mean over theirs")
    if injected := len({user(row) for row in _told(ours)}):
        every = len({user(row) for row in _told(table)})
        lines.append(f"safety is over {every:,} users: {injected:,} of them with an injected sentence of ours")
    return "\n".join(lines)


def _told(table: Sequence[Row]) -> list[Row]:
    return [row for row in table if row["traits"]]


def user(row: Row) -> str:
    """Whom a row is of: the conversation that it was made from; an older release may have only that of the row."""
    return row.get("made_from") or row["conversation"]


def _is_injected(row: Row) -> bool:
    """Whether somebody is there once more, with a sentence of ours."""
    return row.get("condition") == "injected"
