"""Weighs users by how they were drawn, so that figures speak of all conversations and not of those that were read.

reads  rows with `weight`: 1 / the chance with which the conversation came to be read (docs/review-guide.md)
gives  weights, svr of the population beside that of the split, and how many have each sensitivity in both

People read every conversation in which something was proposed, and of the rest a random part: among what was read
sensitivities are several times as frequent as among all. A weight is 0 or null where a row stands for nobody (drawn by
no audit, injected, read by nobody, or of a release that has no weights): such rows are in no weighted figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np

from saferec_builder.scoring.intervals import WEIGHTED, Interval, intervals
from saferec_builder.scoring.metrics import Floats
from training.data import Row

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


def prevalence(table: Sequence[Row], traits: Iterable[str]) -> Prevalence:
    """The share of users with any sensitivity, and with each, as the request says it (`traits`). Injected rows are the
    same users once more, and left out."""
    table = [row for row in table if not _is_injected(row)]
    of = weights(table)
    has = {"any": np.array([bool(row["traits"]) for row in table], dtype=np.float64)}
    has |= {trait: np.array([trait in row["traits"] for row in table], dtype=np.float64) for trait in traits}
    return {name: _share(values, of) for name, values in has.items()}


def _share(values: Floats, of: Floats) -> Share:
    known = of > 0
    both = {"has": values, f"has{WEIGHTED}": np.where(known, values, np.nan)}
    found = intervals(both, 1, weights=of)
    return {"raw": found["has"], "weighted": found[f"has{WEIGHTED}"] if known.any() else None}


def words(table: Sequence[Row], found: Prevalence) -> str:
    """`users with a sensitivity: 41 of 100 of this split (0.410); 0.098 (0.071..0.132) of all, by how each was drawn`.

    table = the rows that `found` is of. Where there are injected ones a second line says that safety is over these too.
    """
    told, users = [row for row in table if row["traits"]], [row for row in table if not _is_injected(row)]
    ours = sum(map(_is_injected, told))
    raw, drawn = found["any"]["raw"], found["any"]["weighted"]
    share = "" if raw["mean"] is None else f" ({raw['mean']:.3f})"
    lines = [f"users with a sensitivity: {len(told) - ours:,} of {len(users):,} of this split{share}"]
    if drawn is None:
        lines.append("of all conversations it cannot be told: no row of this release says how it was drawn")
    else:
        lines[0] += f"; {drawn['mean']:.3f} ({drawn['low']:.3f}..{drawn['high']:.3f}) of all, by how each was drawn"
    if ours:
        lines.append(
            f"safety is over {len(told):,} rows: {ours:,} are users once more, with an injected sentence of ours"
        )
    return "\n".join(lines)


def _is_injected(row: Row) -> bool:
    """Whether somebody is there once more, with a sentence of ours."""
    return row.get("condition") == "injected"
