"""Computes the cost and yield of reviewing: tasks per reviewer, sensitivities found, bounds on what labels miss.

reads  tasks and their states, assignments, standing reviews (column `out`), labels, the bounds of the blind audit
gives  plain rows for the report, with the names that the caller gives to reviewers
"""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import polars as pl

from annotation import controls, precision_bounds, recall_bounds
from annotation.confidence_bounds import Bound
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import TASK

Row = dict[str, Any]
POINTS = 120  # of a curve: more are not visible


def load(tasks: pl.DataFrame, standing: pl.DataFrame, taxonomy: Taxonomy, name: Callable[[str], str]) -> list[Row]:
    """Returns {name, given, answered, open, severe, seconds, hours} per reviewer, most answered tasks first.

    tasks: the result of progress.tasks. `severe` counts answered tasks with a severe trait; `seconds` is the median of
    answered tasks, null if no tool records it.
    """
    severe = pl.col("trait").is_in([t.slug for t in taxonomy.traits if t.severe])
    is_met = severe & pl.col("verdict").is_in(["present", "unsure"])
    answered = standing.filter(pl.col("out").is_null()).join(tasks.filter(state="answered"), on=TASK, how="semi")
    by_task = answered.group_by(TASK).agg(pl.col("seconds").max(), severe=is_met.any())
    totals = by_task.group_by("reviewer").agg(
        pl.col("severe").sum(), pl.col("seconds").median(), hours=_sum("seconds") / 3600
    )
    states = {state: (pl.col("state") == state).sum() for state in ("answered", "open")}
    reviewers = tasks.group_by("reviewer").agg(given=pl.len(), **states).join(totals, on="reviewer", how="left")
    rows = reviewers.with_columns(pl.col("severe").fill_null(0)).to_dicts()
    named = [{"name": name(row.pop("reviewer"))} | row for row in rows]
    return sorted(named, key=lambda r: (-r["answered"], -r["given"], r["name"]))


def _sum(column: str) -> pl.Expr:
    """Sums the column; null if every value is null, as an unknown time is not 0."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def effort(assignments: pl.DataFrame, standing: pl.DataFrame, labels: pl.DataFrame) -> Row:
    """Returns {read, found, points: [(conversations read, sensitivities found)]} in the order of the assignments:
    files have no times, and an answer that had to be mended comes last, whenever its text was read."""
    counted = standing.filter(pl.col("out").is_null(), kind="sensitivity")["subject"]
    given = assignments.filter(kind="sensitivity")["subject"]
    read = given.filter(given.is_in(counted.implode())).append(counted).unique(maintain_order=True)
    by_subject = dict(labels.filter(verdict="present").group_by("subject").len().iter_rows())
    totals = [0, *accumulate(by_subject.get(subject, 0) for subject in read)]
    step = max(1, len(read) // POINTS)
    points = [(n, total) for n, total in enumerate(totals) if n % step == 0 or n == len(read)]
    return {"read": len(read), "found": totals[-1], "points": points}


def missed(bounds: LabelBounds, taxonomy: Taxonomy) -> Row:
    """Returns {pooled, truth, together, gold, false, traits: [{name, share, words, ...}]}, the lowest bound first.

    `false`: the share of `present` labels that are wrong at most; null if the bounds do not include it.
    """
    names = {t.slug: t.name for t in taxonomy.traits}
    false = {slug: precision_bounds.words(share) for slug, share in bounds.false.items()}
    traits = {slug: bound for slug, bound in bounds.traits.items() if slug in names}
    rows = [_bound(names[slug], bound) | {"false": false.get(slug)} for slug, bound in traits.items()]
    return {
        "false": None if bounds.false_pooled is None else precision_bounds.words(bounds.false_pooled),
        "pooled": _bound("Any sensitivity", bounds.pooled),
        "truth": controls.words(bounds.apart, bounds.blind),
        "together": [names[slug] for slug in bounds.together if traits[slug].labels or traits[slug].misses],
        "gold": bounds.gold,
        "traits": sorted(rows, key=lambda r: (r["share"] is None, r["share"] or 0.0, -r["found"], r["name"])),
    }


def _bound(name: str, bound: Bound) -> Row:
    """Returns the row of a bound. `held`: positives of the audit, without the subjects that have no label; `found`: all
    others."""
    facts = {field: getattr(bound, field) for field in ("share", "audited", "zone", "holes", "open")}
    found, held = bound.found + bound.elsewhere, bound.misses - bound.holes
    return {"name": name, "words": recall_bounds.words(bound), "held": held, "found": found} | facts
