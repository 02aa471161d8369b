"""`review status`: progress per trait and per reviewer, and upper bounds on what the labels miss."""

from dataclasses import dataclass

import polars as pl

from annotation import aggregation, agreement, gold_and_decoys, label_bounds, rejections
from annotation.recall_bounds import LabelBounds, band, lowers_most
from annotation.review_state import ReviewState, gather, open_units, readable, reported, undone
from annotation.reviewer_opt_outs import avoided
from annotation.task_assignment import claims
from saferec_builder.core.json_value import JsonValue
from saferec_builder.mining import withheld
from saferec_builder.storage.tables import HANDED_BACK, SUBJECT, TASK, UNIT
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class ReviewStatus:
    """`traits`: trait, proposed, assigned, begun, read, disputed, in units; `agreement`: kind, trait, units, alpha,
    low, high for sensitivities; `reviewers`: name -> tasks, open tasks, seconds, how their answers compare with the
    labels, gold, decoys and controls."""

    traits: pl.DataFrame
    agreement: pl.DataFrame
    reviewers: dict[str, dict[str, JsonValue]]
    bounds: LabelBounds
    units: int  # with a vote, or that ever had a label (one that nobody read, or whose votes no longer count)
    left_out: dict[str, int]  # reason why a review does not count -> number of reviews
    alarms: list[str]  # review_state.undone: the labels that the next `adjudicate` revokes
    next: str | None  # the step that lowers the bounds most
    band: int  # before the first draw: the `--band` that saves audits; 0 if none does
    reported: list[str]  # conversations that, according to their readers, reveal somebody's identity


def review_status(ws: Workspace) -> ReviewStatus:
    """Returns the progress, the agreement of reviewers, and how much the labels miss at most. Changes nothing."""
    state = gather(ws)
    votes, bounds = aggregation.by_reviewers(state.votes), label_bounds.bounds(state)
    proposed, assignments = (withheld.without(frame, state.withheld) for frame in (state.proposals, state.assignments))
    traits = progress(proposed, assignments, votes, state.disputed, state.readers)
    alphas = agreement.alphas(votes.filter(kind="sensitivity"))
    undrawn = readable(state).join(state.design, on=SUBJECT, how="anti")["subject"]
    advised = band(state.proposals, undrawn, bounds.pooled.found)
    facts = (state.left_out, undone(state), lowers_most(bounds), advised, reported(state))
    return ReviewStatus(traits, alphas, _reviewers(state), bounds, state.judged.height, *facts)


def progress(
    proposals: pl.DataFrame, assignments: pl.DataFrame, votes: pl.DataFrame, disputed: pl.DataFrame, readers: int
) -> pl.DataFrame:
    """Counts of units: trait ("TRAIT (items)" for items), proposed, assigned (of those), begun, read, disputed.

    `votes` are those of reviewers; a unit is `read` if at least `readers` of them voted, `begun` if fewer did.
    """
    proposed = claims(proposals).select(UNIT).unique()
    assigned = proposed.join(assignments, on=SUBJECT, how="semi")
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


def tasks(state: ReviewState, units: pl.DataFrame) -> pl.DataFrame:
    """TASK and `state` of all tasks ever assigned; `units` are the open ones (review_state.open_units).

    `open`: its reader still has questions to answer, perhaps after a partial answer. `answered`: no question is open.
    `gone`: handed back, taken away, set aside, settled, or about a removed conversation; nobody waits for it.
    """
    counted = state.standing.filter(pl.col("out").is_null()).select(TASK).unique()
    answered = counted.join(state.standing.filter(out=HANDED_BACK), on=TASK, how="anti")
    open_tasks = units.select(TASK).unique()
    done = answered.join(open_tasks, on=TASK, how="anti")
    states = pl.concat([open_tasks.with_columns(state=pl.lit("open")), done.with_columns(state=pl.lit("answered"))])
    assigned = state.assignments.select(TASK).unique(maintain_order=True)
    joined = assigned.join(states, on=TASK, how="left", maintain_order="left")
    return joined.with_columns(pl.col("state").fill_null("gone"))


def _reviewers(state: ReviewState) -> dict[str, dict[str, JsonValue]]:
    """Each reviewer's tasks, open and rejected ones, median seconds of the answered ones, and their answers against
    the labels, gold, decoys and controls."""
    units = open_units(state, avoided(state.ws))
    given = tasks(state, units)
    counts = given.group_by("reviewer").agg(pl.len(), open=(pl.col("state") == "open").sum())
    counted = state.standing.filter(pl.col("out").is_null()).join(given.filter(state="answered"), on=TASK, how="semi")
    of_tasks = counted.group_by(TASK).agg(pl.col("seconds").max())  # stored with one row of a task, or with several
    speed = dict(of_tasks.group_by("reviewer").agg(pl.col("seconds").median()).iter_rows())
    rejected = rejections.waiting(units)
    quality = gold_and_decoys.results(state.votes, state.gold, state.decoys, label_bounds.readings(state))
    compared = against_labels(state.votes, state.judged)
    return {
        name: {"tasks": n, "open": open_tasks}
        | ({"rejected": rejected[name]} if name in rejected else {})
        | ({"seconds": speed[name]} if speed.get(name) is not None else {})
        | compared.get(name, {})
        | quality.get(name, {})
        for name, n, open_tasks in counts.sort("reviewer").iter_rows()
    }


def against_labels(votes: pl.DataFrame, judged: pl.DataFrame) -> dict[str, dict[str, JsonValue]]:
    """reviewer -> of the units that they answered and that have a verdict: labels `present`; how many of these they
    `found`; labels `absent` that they called present; verdicts that the adjudicator `ruled` on; those `overruled`.

    No model ranks reviewers: nearly all verdicts are `absent`, so of two who differ it would believe the one who
    overlooks more.
    """
    labels = judged.drop_nulls("verdict").select(*UNIT, "method", label="verdict")
    there, yes, ruled = pl.col("label") == "present", pl.col("verdict") == "present", pl.col("method") == "adjudicated"
    figures = {"present": there, "found": there & yes, "false_alarms": (pl.col("label") == "absent") & yes}
    figures |= {"ruled": ruled, "overruled": ruled & (pl.col("verdict") != pl.col("label"))}
    rows = aggregation.by_reviewers(votes).join(labels, on=UNIT).group_by("reviewer")
    return {row.pop("reviewer"): row for row in rows.agg(n.sum().alias(name) for name, n in figures.items()).to_dicts()}
