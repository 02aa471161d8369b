"""review status: where the queue stands, per trait and per reviewer, and what the labels still miss at most."""

from dataclasses import dataclass

import polars as pl

from annotation import (
    aggregation,
    agreement,
    gold_and_decoys as quality_checks,
    recall_bounds as recall,
    rejections,
    reliability,
    reviewer_opt_outs as opt_outs,
    task_assignment as dealing,
)
from annotation.recall_bounds import LabelBounds
from annotation.review_state import Desk, blind_readings, gather, label_bounds, open_units, reported, undone
from saferec_builder.core.json_value import JsonValue
from saferec_builder.mining import withheld
from saferec_builder.storage.tables import HANDED_BACK, UNIT
from saferec_builder.storage.workspace import Workspace

TASK = ["reviewer", "kind", "subject"]


@dataclass(frozen=True)
class ReviewStatus:
    """`traits`: trait, proposed, assigned, begun, read, disputed, in units; `agreement`: kind, trait, units, alpha,
    low, high of sensitivities; `reviewers`: everybody's tasks, those still open, seconds, gold, decoys and controls."""

    traits: pl.DataFrame
    agreement: pl.DataFrame
    reviewers: dict[str, dict[str, JsonValue]]
    bounds: LabelBounds
    units: int  # that somebody reviewed
    left_out: dict[str, int]  # why a review does not count -> how many
    alarms: list[str]  # review_state.undone: what the next `adjudicate` takes back
    next: str | None  # the one thing that lowers the bounds most
    band: int  # `--band` that saves audits, before anything is drawn; 0: none
    reported: list[str]  # conversations whose readers say that they tell who somebody is


def review_status(ws: Workspace) -> ReviewStatus:
    """How far the review is, how well people agree, and what the labels miss at most by now. Nothing is changed."""
    desk = gather(ws)
    votes, bounds = aggregation.by_reviewers(desk.votes), label_bounds(desk)
    proposed, given = (withheld.without(frame, desk.withheld) for frame in (desk.proposals, desk.assignments))
    traits = progress(proposed, given, votes, desk.disputed, desk.ws.config.review.readers)
    alphas = agreement.alphas(votes.filter(kind="sensitivity"))
    undrawn = desk.known.filter("current", kind="sensitivity").join(desk.design, on=["kind", "subject"], how="anti")
    band = recall.band(desk.proposals, withheld.without(undrawn, desk.withheld)["subject"], bounds.pooled.found)
    alarms = undone(desk)
    people, units = _reviewers(desk), desk.judged.height
    best, told = recall.lowers_most(bounds), reported(desk)
    return ReviewStatus(traits, alphas, people, bounds, units, desk.left_out, alarms, best, band, told)


def progress(
    proposals: pl.DataFrame, assignments: pl.DataFrame, votes: pl.DataFrame, disputed: pl.DataFrame, readers: int
) -> pl.DataFrame:
    """trait, proposed, assigned (of the proposed), begun, read, disputed: counts of units; of items "TRAIT (items)".

    `votes` are those of reviewers; `read` by `readers` of them or more, `begun` by fewer.
    """
    proposed = dealing.claims(proposals).select(UNIT).unique()
    assigned = proposed.join(assignments, on=["kind", "subject"], how="semi")
    voters = votes.group_by(UNIT).agg(pl.col("reviewer").n_unique())
    parts = {
        "proposed": proposed,
        "assigned": assigned,
        "begun": voters.filter(pl.col("reviewer") < readers),
        "read": voters.filter(pl.col("reviewer") >= readers),
        "disputed": disputed,
    }
    trait = pl.when(pl.col("kind") == "item_flag").then(pl.col("trait") + " (items)").otherwise("trait")
    counts = pl.concat(part.select(trait=trait, what=pl.lit(name)) for name, part in parts.items())
    return counts.group_by("trait").agg((pl.col("what") == name).sum().alias(name) for name in parts).sort("trait")


def tasks(desk: Desk, units: pl.DataFrame) -> pl.DataFrame:
    """TASK and `state` of all that people were ever given; `units` are the open ones (review_state.open_units).

    `open`: its reader is still asked something, though they may have answered a part. `answered`: nothing is left to
    ask. `gone`: handed back, taken away, set aside, settled, or of a conversation that has left; nobody waits for it.
    """
    counted = desk.standing.filter(pl.col("out").is_null()).select(TASK).unique()
    answered = counted.join(desk.standing.filter(out=HANDED_BACK), on=TASK, how="anti")
    still = units.select(TASK).unique().with_columns(open=pl.lit(True))
    done = answered.with_columns(answered=pl.lit(True))
    given = desk.assignments.select(TASK).unique(maintain_order=True)
    known = given.join(still, on=TASK, how="left", maintain_order="left").join(
        done, on=TASK, how="left", maintain_order="left"
    )
    state = pl.when("open").then(pl.lit("open")).when("answered").then(pl.lit("answered")).otherwise(pl.lit("gone"))
    return known.select(*TASK, state=state)


def _reviewers(desk: Desk) -> dict[str, dict[str, JsonValue]]:
    """Everybody's tasks, those still open, those of them with a rejected answer, the median seconds of a task, and how
    they did on gold and decoys."""
    units = open_units(desk, opt_outs.avoided(desk.ws))
    given = tasks(desk, units).group_by("reviewer").agg(pl.len(), open=(pl.col("state") == "open").sum())
    counted = desk.standing.filter(pl.col("out").is_null())
    speed = dict(counted.group_by("reviewer").agg(pl.col("seconds").median()).iter_rows())
    back = rejections.waiting(units)
    probed = quality_checks.results(desk.votes, desk.gold, desk.decoys, blind_readings(desk))
    ranked = reliability.rank(aggregation.by_reviewers(desk.votes))
    skill = {name: {"with_the_model": share} for name, share in ranked.skill.items()} if ranked else {}
    return {
        name: {"tasks": n, "open": still}
        | ({"rejected": back[name]} if name in back else {})
        | ({"seconds": speed[name]} if speed.get(name) is not None else {})
        | skill.get(name, {})
        | probed.get(name, {})
        for name, n, still in given.sort("reviewer").iter_rows()
    }
