"""The model of who is reliable: an order, never a label."""

import random

import polars as pl
import pytest

from annotation.reliability import closest_first, rank


def test_the_model_orders_disputes_and_reviewers_and_makes_no_label():
    rows = []
    for n in range(60):  # ann and bo agree; di says the opposite half of the time
        truth = "present" if n % 3 == 0 else "absent"
        wrong = "absent" if truth == "present" else "present"
        verdicts = {"ann": truth, "bo": truth, "di": wrong if n % 2 else truth}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in verdicts.items()]
    rows += [("sensitivity", "near", "gore", "ann", "present"), ("sensitivity", "near", "gore", "bo", "absent")]
    rows += [("sensitivity", "far", "gore", "ann", "absent"), ("sensitivity", "far", "gore", "di", "present")]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    model = rank(votes)
    assert model.skill["ann"] > 0.9 > model.skill["di"]
    disputed = pl.DataFrame({"kind": "sensitivity", "subject": ["far", "near"], "trait": "gore"})
    assert closest_first(disputed, model)["subject"].to_list() == ["near", "far"]
    assert rank(votes.head(0)) is None
    assert rank(votes.filter(reviewer="ann")) is None
    assert closest_first(disputed, None).equals(disputed)


def test_the_model_is_not_taken_in_by_somebody_who_ticks_everything():
    rng, rows = random.Random(4), []
    for n in range(200):
        truth = rng.choice(["present", "absent"])
        verdicts = {"ann": truth, "bo": truth if rng.random() < 0.9 else "absent", "di": "present"}
        rows += [("sensitivity", f"c{n}", "gore", name, verdict) for name, verdict in verdicts.items()]
    votes = pl.DataFrame(rows, schema=["kind", "subject", "trait", "reviewer", "verdict"], orient="row")
    model = rank(votes)
    assert model.skill["ann"] > model.skill["bo"] > 0.9 > 0.6 > model.skill["di"]


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
    model = rank(votes)
    frame = DataFrame([(row[1], row[3], row[4]) for row in rows], columns=["task", "worker", "label"])
    expected = DawidSkene(n_iter=50).fit_predict_proba(frame).max(axis=1)
    sure = dict(model.sure.select("subject", "sure").iter_rows())
    gaps = [abs(sure[c] - expected[c]) for c in truth]
    assert sum(gap > 0.05 for gap in gaps) <= 6  # of 300: smoothing, and ties
    assert min(model.skill, key=lambda name: model.skill[name]) == "di"
