"""Where the queue stands, per trait and per reviewer."""

from typing import Any

import polars as pl

from annotation import (
    aggregation as adjudicate,
    dealing,
    opt_outs,
    push as handing,
    quality_checks as probes,
    reliability as ranking,
)
from annotation.desk import Desk, queue


def progress(
    proposals: pl.DataFrame, assignments: pl.DataFrame, votes: pl.DataFrame, disputed: pl.DataFrame
) -> pl.DataFrame:
    """trait, proposed, assigned (of the proposed), once, twice, disputed: counts of units, both kinds together.

    `votes` are those of reviewers; `twice` counts two or more.
    """
    proposed = dealing.claims(proposals).select(dealing.UNIT).unique()
    assigned = proposed.join(assignments, on=["kind", "subject"], how="semi")
    voters = votes.group_by(dealing.UNIT).agg(pl.col("reviewer").n_unique())
    parts = {
        "proposed": proposed,
        "assigned": assigned,
        "once": voters.filter(pl.col("reviewer") == 1),
        "twice": voters.filter(pl.col("reviewer") > 1),
        "disputed": disputed,
    }
    counts = pl.concat(part.select("trait", pl.lit(name).alias("what")) for name, part in parts.items())
    return counts.group_by("trait").agg((pl.col("what") == name).sum().alias(name) for name in parts).sort("trait")


def people(desk: Desk) -> dict[str, dict[str, Any]]:
    """Everybody's tasks, those still open, the median seconds of a task, and how they did on gold and decoys."""
    units = handing.still_open(desk, desk.assignments, queue(desk), opt_outs.avoided(desk.ws))
    had = dict(desk.assignments.group_by("reviewer").len().sort("reviewer").iter_rows())
    still = dict(units.select("reviewer", "kind", "subject").unique().group_by("reviewer").len().iter_rows())
    counted = desk.standing.filter(pl.col("out").is_null())
    speed = dict(counted.group_by("reviewer").agg(pl.col("seconds").median()).iter_rows())
    probed = probes.results(desk.votes, desk.gold, desk.decoys)
    ranked = ranking.rank(adjudicate.by_reviewers(desk.votes))
    skill = {name: {"with_the_model": share} for name, share in ranked.skill.items()} if ranked else {}
    return {
        name: {"tasks": n, "open": still.get(name, 0)}
        | ({"seconds": speed[name]} if speed.get(name) is not None else {})
        | skill.get(name, {})
        | probed.get(name, {})
        for name, n in had.items()
    }
