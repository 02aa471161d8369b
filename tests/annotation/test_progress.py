"""The progress of review, in units."""

import polars as pl
import pytest

from annotation.progress import against_labels, progress, tasks
from annotation.review_state import gather, open_units
from annotation.routing import texts
from tests.worlds.reviewing import TWO, answer as fill_in, yes
from tests.worlds.routing import answer, conversations, proposals, send


def test_progress_counts_units_and_those_of_items_apart():
    props = proposals(("c1", "gore", "present"), ("c2", "gore", "present"), ("c2", "gore", "unsure"))
    props = pl.concat([props, proposals(("i1", "gore", "present"), kind="item_flag")])  # it was: gore 3
    assigned = send(texts(conversations("c1")), props, reviewers=("ann",))
    answers = [answer("gore"), answer("gore", reviewer="bo"), answer("needles")]
    votes = pl.DataFrame(answers).select("kind", "subject", "trait", "reviewer")
    counts = progress(props, assigned, votes, votes.head(1).drop("reviewer"), readers=2).to_dicts()
    assert counts == [
        {"trait": "gore", "proposed": 2, "assigned": 1, "begun": 0, "read": 1, "disputed": 1},
        {"trait": "gore (items)", "proposed": 1, "assigned": 0, "begun": 0, "read": 0, "disputed": 0},
        {"trait": "needles", "proposed": 0, "assigned": 0, "begun": 1, "read": 0, "disputed": 0},
    ]


@pytest.mark.slow
def test_a_task_that_was_handed_back_is_neither_open_nor_answered(ws, cli, review):
    """bo has answered a part of one task, and hands both back; ann has answered one of her tasks."""
    review("push", *TWO)
    fill_in(ws, review, ann=lambda row: yes(row) if "blood" in row["text"] else {})
    fill_in(ws, review, bo=lambda row: yes(row) if row["trait"] == "gore" else {})
    assert _states(ws) == {"ann": ["answered", "open"], "bo": ["open", "open"]}
    assert cli("review", "hand-back", "bo", "-C", ws.root).code == 0
    assert _states(ws) == {"ann": ["answered", "open"], "bo": ["gone", "gone"]}


def _states(ws) -> dict[str, list[str]]:
    state = gather(ws)
    states = tasks(state, open_units(state, frozenset()))
    return dict(states.group_by("reviewer").agg(pl.col("state").sort()).iter_rows())


@pytest.mark.slow
def test_who_was_removed_is_counted_nowhere_and_raises_no_alarm(ws, review, adjudicate):
    """They counted as proposed, assigned and never read; and the removal took half of the labels: 20 alarms."""
    review("push", *TWO)
    fill_in(ws, review)
    assert adjudicate()["agreed"] == 40 and review("status")["traits"]["gore"]["read"] == 2
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\n")
    status = review("status")
    assert status["traits"]["gore"] == {"proposed": 0, "assigned": 0, "begun": 0, "read": 1, "disputed": 0}
    assert "alarms" not in status and "alarms" not in adjudicate()


@pytest.mark.slow
def test_the_seconds_of_a_reviewer_are_of_tasks(ws, review):
    """The time was taken from each row, so a file that has it in each row gave another figure than the report."""
    review("push", *TWO)
    # two tasks: with a claim on gore, 10 s for it and 60 for the whole, and without one, 20 s
    times = {"gore": "10", "*": "60"}
    fill_in(ws, review, ann=lambda row: yes(row) | {"seconds": times[row["trait"]] if "blood" in row["text"] else "20"})
    assert review("status")["reviewers"]["ann"]["seconds"] == 40  # of 60 and 20; of all rows it was 20


def test_who_overlooks_what_another_finds_is_told_by_rulings_and_not_by_how_much_is_absent():
    """`likely right` was .994 for bo, and lower for ann, who was right: nearly all of 20 traits are absent."""
    cases = {  # ann, bo, the label, how it was made
        "both": ("present", "present", "present", "agreed"),
        "bo overlooks": ("present", "absent", "present", "adjudicated"),
        "bo doubts": ("present", "unsure", "present", "adjudicated"),
        "ann is wrong": ("present", "absent", "absent", "adjudicated"),
        "both are wrong": ("present", "absent", "unsure", "adjudicated"),
        "nobody has ruled": ("absent", "present", None, "unresolved"),
        **{f"nothing there {n}": ("absent", "absent", "absent", "agreed") for n in range(94)},
    }
    kind, gore = pl.lit("sensitivity").alias("kind"), pl.lit("gore").alias("trait")
    table = pl.DataFrame(
        [(c, *row) for c, row in cases.items()], schema=["subject", "ann", "bo", "label", "method"], orient="row"
    )
    judged = table.select(kind, "subject", gore, "method", verdict="label")
    votes = table.unpivot(["ann", "bo"], index="subject", variable_name="reviewer", value_name="verdict")
    cy = table.filter(method="adjudicated").select("subject", reviewer=pl.lit("cy"), verdict="label")
    votes = pl.concat([votes, cy]).with_columns(kind, gore)
    votes = votes.with_columns(role=pl.when(reviewer="cy").then(pl.lit("adjudicator")).otherwise(pl.lit("reviewer")))
    assert against_labels(votes, judged) == {
        "ann": {"present": 3, "found": 3, "false_alarms": 1, "ruled": 4, "overruled": 2},
        "bo": {"present": 3, "found": 1, "false_alarms": 0, "ruled": 4, "overruled": 3},
    }
    assert against_labels(votes, judged.head(0)) == {}
