"""What `review status` and `adjudicate` print: tables and lines, none much wider than a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from annotation import agreement, controls, precision_bounds, recall_bounds, reported_texts
from annotation.progress import ReviewStatus
from annotation.recall_bounds import LabelBounds

Cells = Sequence[str]
FOLDED = 3  # traits of which the same is said, from here on, are counted and not named


def lines(found: ReviewStatus) -> list[str]:
    """How far each trait is read and how well people agree, what labels miss and claim wrongly at most, and people."""
    bounds, alphas = found.bounds, {row["trait"]: row for row in found.agreement.iter_rows(named=True)}
    columns = found.traits.columns
    read = [
        [row["trait"], *(f"{row[name]:,}" for name in columns[1:]), _alpha(alphas.get(row["trait"]))]
        for row in found.traits.iter_rows(named=True)
    ]
    missed = {**bounds.traits, recall_bounds.POOLED: bounds.pooled}
    false = {**bounds.false, **({precision_bounds.POOLED: bounds.false_pooled} if bounds.false_pooled else {})}
    most = [
        [name, recall_bounds.words(bound), *([precision_bounds.words(false[name])] if name in false else [])]
        for name, bound in missed.items()
    ]
    most = [*alike(most[:-1]), most[-1]]
    most += [[name, words] for name, words in recall_bounds.of_items(bounds.items).items()]
    together = f"within the limit together: {len(bounds.together)} traits"
    said = [*_table([*columns, "alpha"], read), ""] if read else []
    if not found.reviewers:
        return [*said, "nobody was given a task yet: `saferec-build review push`"]
    begun = found.traits.select(pl.sum_horizontal(pl.col("begun", "read").sum())).item()
    if not begun and not any(map(_has_ended_one, found.reviewers.values())):
        return [*said, "nobody has answered yet: what labels miss is told once answers are in", "", *_people(found)]
    said += [*_table(["share of", "missed at most", "labelled wrongly at most"], most, words=3)]
    said += [together, f"missed of what is there: {controls.words(bounds.apart, bounds.blind)}", controls.MEANING]
    return [*said, "", *_people(found)]


def of_labels(agreed: pl.DataFrame, bounds: LabelBounds) -> list[str]:
    """Agreement (agreement.alphas), recall bounds, and the precision bounds of traits of which something was
    rechecked."""
    found = []
    told = agreed.drop_nulls("alpha")
    for row in told.iter_rows(named=True):
        found.append(f"alpha of {row['trait']}{' (items)' * (row['kind'] == 'item_flag')}: {agreement.words(row)}")
    if silent := agreed.height - told.height:
        found.append(f"alpha of {silent} more: not to be told, where all say the same or nobody read twice")
    missed = alike([[slug, recall_bounds.words(bound)] for slug, bound in bounds.traits.items()])
    found += [f"missed share of {name}: {words}" for name, words in missed]
    found.append(f"missed share of {recall_bounds.POOLED}: {recall_bounds.words(bounds.pooled)}")
    found.append(f"missed share of what is there: {controls.words(bounds.apart, bounds.blind)}; {controls.MEANING}")
    found += [f"missed share of {name}: {words}" for name, words in recall_bounds.of_items(bounds.items).items()]
    rechecked = {slug: share for slug, share in bounds.false.items() if share.rechecked}
    found += [f"false share of {slug}: {precision_bounds.words(share)}" for slug, share in rechecked.items()]
    if bounds.false_pooled:
        found.append(f"false share of {precision_bounds.POOLED}: {precision_bounds.words(bounds.false_pooled)}")
    return found


def of_reports(reported: Sequence[str]) -> list[str]:
    """What to do about notes that say that a text tells who somebody is; no line where there are none."""
    told = f"readers reported personal data in {reported_texts.words(reported)}: look at them, then"
    remedy = f"{reported_texts.REMEDY}, or allow them one by one"
    return [f"{told} {remedy}: `release` stops at their texts"] if reported else []


def alike(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows of a name and words about it; three or more with the same words are one, where the first of them stood."""
    names: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        names.setdefault(tuple(row[1:]), []).append(row[0])
    found: list[list[str]] = []
    for words, some in names.items():
        each = [f"{len(some)} traits"] if len(some) >= FOLDED else some
        found += [[name, *words] for name in each]
    return found


def _has_ended_one(person: Mapping[str, object]) -> bool:
    tasks, left = person.get("tasks"), person.get("open")
    return isinstance(tasks, int) and isinstance(left, int) and tasks > left


def _people(found: ReviewStatus) -> list[str]:
    names = list(dict.fromkeys(name for row in found.reviewers.values() for name in row))
    rows = [[who, *(_cell(row.get(name)) for name in names)] for who, row in found.reviewers.items()]
    return _table(["reviewer", *(name.replace("_", " ") for name in names)], rows)


def _table(heads: Cells, rows: Iterable[Cells], words: int = 1) -> list[str]:
    """Columns as wide as what is in them: the first `words` of them words, on the left, the others numbers."""
    every = [heads, *rows]
    wide = [max(len(row[n]) for row in every if len(row) > n) for n in range(len(heads))]
    aligned = ["<" if n < words else ">" for n in range(len(heads))]
    columns = list(zip(aligned, wide, strict=True))
    return [
        "  ".join(f"{word:{how}{n}}" for word, (how, n) in zip(row, columns, strict=False)).rstrip() for row in every
    ]


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").removesuffix(".")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _alpha(row: Mapping[str, Any] | None) -> str:
    if row is None or row["alpha"] is None:
        return "n/a"
    few = f" ({row['positives']} positive)" if row["positives"] < agreement.FEW else ""
    return f"{row['alpha']:z.2f}{few}"
