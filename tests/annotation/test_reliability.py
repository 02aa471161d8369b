"""How reviewers compare with the labels, and the model that orders disputes: never a label."""

import random

import polars as pl
import pytest

from annotation.reliability import against_labels, certainties, closest_first


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


def test_the_model_orders_disputes_and_makes_no_label():
    rows = []
    for n in range(60):  # ann and bo agree; di says the opposite half of the time
        truth = "present" if n % 3 == 0 else "absent"
        wrong = "absent" if truth == "present" else "present"
        verdicts = {"ann": truth, "bo": truth, "di": wrong if n % 2 else truth}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in verdicts.items()]
    rows += [("sensitivity", "near", "gore", "ann", "present"), ("sensitivity", "near", "gore", "bo", "absent")]
    rows += [("sensitivity", "far", "gore", "ann", "absent"), ("sensitivity", "far", "gore", "di", "present")]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    model = certainties(votes)
    disputed = pl.DataFrame({"kind": "sensitivity", "subject": ["far", "near"], "trait": "gore"})
    assert closest_first(disputed, model)["subject"].to_list() == ["near", "far"]
    assert certainties(votes.head(0)) is None
    assert certainties(votes.filter(reviewer="ann")) is None
    assert closest_first(disputed, None).equals(disputed)


def test_the_model_is_not_taken_in_by_somebody_who_ticks_everything():
    rng, rows = random.Random(4), []
    for n in range(200):
        truth = rng.choice(["present", "absent"])
        verdicts = {"ann": truth, "bo": truth if rng.random() < 0.9 else "absent", "di": "present"}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in verdicts.items()]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    split = [("near", "ann", "present"), ("near", "bo", "absent"), ("far", "bo", "absent"), ("far", "di", "present")]
    apart = pl.DataFrame([("sensitivity", c, "gore", *vote) for c, *vote in split], schema=votes.schema, orient="row")
    sure = dict(certainties(pl.concat([votes, apart])).select("subject", "sure").iter_rows())
    assert sure["far"] > sure["near"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # crowd-kit's use of pandas
def test_the_model_is_that_of_crowd_kit():
    from crowdkit.aggregation import DawidSkene
    from pandas import DataFrame

    rng = random.Random(3)
    truth = {f"c{n}": rng.choice(["present", "absent", "absent"]) for n in range(300)}
    opposite = {"present": "absent", "absent": "present"}
    error_rates = {"ann": 0.05, "bo": 0.15, "di": 0.35}
    rows = [
        ("sensitivity", c, "gore", name, opposite[value] if rng.random() < error else value)
        for c, value in truth.items()
        for name, error in error_rates.items()
    ]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    model = certainties(votes)
    frame = DataFrame([(row[1], row[3], row[4]) for row in rows], columns=["task", "worker", "label"])
    expected = DawidSkene(n_iter=50).fit_predict_proba(frame).max(axis=1)
    sure = dict(model.select("subject", "sure").iter_rows())
    gaps = [abs(sure[c] - expected[c]) for c in truth]
    assert sum(gap > 0.05 for gap in gaps) <= 6  # of 300: smoothing, and ties
