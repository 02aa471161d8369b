"""Krippendorff's alpha against arithmetic on paper and against crowd-kit."""

import numpy as np
import polars as pl
import pytest

from annotation.agreement import alphas


def votes(*rows: tuple[str, str, str], trait: str = "gore") -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["subject", "reviewer", "verdict"], orient="row")
    return frame.with_columns(kind=pl.lit("sensitivity"), trait=pl.lit(trait))


def test_alpha_by_hand():
    # u1 pp, u2 pa, u3 aa; u4 has one vote and says nothing. Six votes: 3 p, 3 a; one present makes a unit positive.
    # Do = (0 + (4-2)/1 + 0) = 2; De = (36 - 9 - 9) / 5 = 3.6; alpha = 1 - 2/3.6 = 0.4444
    row = alphas(
        votes(
            *[("u1", "ann", "present"), ("u1", "bo", "present"), ("u2", "ann", "present"), ("u2", "bo", "absent")],
            *[("u3", "ann", "absent"), ("u3", "bo", "absent"), ("u4", "ann", "present")],
        )
    ).row(0, named=True)
    assert (row["units"], row["positives"]) == (3, 2)
    assert row["alpha"] == pytest.approx(1 - 2 / 3.6)


@pytest.mark.parametrize(
    "rows",
    [
        [("u1", "ann", "absent"), ("u1", "bo", "absent"), ("u2", "ann", "absent"), ("u2", "bo", "absent")],  # one value
        [("u1", "ann", "present"), ("u1", "bo", "absent"), ("u2", "ann", "absent")],  # one unit with two votes
        [("u1", "ann", "present"), ("u2", "bo", "absent")],  # nobody read the same
    ],
)
def test_what_cannot_be_told_is_null_and_never_0_or_1(rows):
    row = alphas(votes(*rows)).row(0, named=True)
    assert (row["alpha"], row["low"], row["high"]) == (None, None, None)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_same_as_crowd_kit_with_three_values_and_uneven_units():
    data = pytest.importorskip("crowdkit.metrics.data", reason="needs crowd-kit, of the dev group")
    rng = np.random.default_rng(1)
    rows = [
        (f"u{u}", f"r{r}", str(rng.choice(["present", "absent", "unsure"], p=[0.2, 0.7, 0.1])))
        for u in range(300)
        for r in rng.choice(5, size=rng.integers(1, 5), replace=False)
    ]
    frame = votes(*rows)
    expected = data.alpha_krippendorff(
        frame.rename({"subject": "task", "reviewer": "worker", "verdict": "label"}).to_pandas()
    )
    assert alphas(frame)["alpha"][0] == pytest.approx(expected, abs=1e-12)


def test_the_interval_covers_the_truth_and_narrows_with_more_units():
    # two readers agree on 80 of 100 units, half of them present: De ~ 1/2, Do = 1/5, alpha ~ 0.6
    def world(times: int) -> dict:
        pairs = [("present", "present")] * 40 + [("absent", "absent")] * 40 + [("present", "absent")] * 20
        rows = [(f"u{n}", name, v) for n, pair in enumerate(pairs * times) for name, v in zip("ab", pair, strict=True)]
        return alphas(votes(*rows)).row(0, named=True)

    small, large = world(1), world(9)
    assert small["low"] < small["alpha"] < small["high"]
    # nine times the units: about a third of the width
    assert (large["high"] - large["low"]) / (small["high"] - small["low"]) == pytest.approx(1 / 3, abs=0.06)


def test_full_agreement_has_no_interval():
    # 9 units absent, 3 present, full agreement: each resample has alpha 1, which says nothing about the next unit
    verdicts = ["absent"] * 9 + ["present"] * 3
    rows = [(f"u{n}", name, verdict) for n, verdict in enumerate(verdicts) for name in ("ann", "bo")]
    row = alphas(votes(*rows)).row(0, named=True)
    assert (row["units"], row["alpha"], row["low"], row["high"]) == (12, 1.0, None, None)


def test_traits_and_kinds_are_told_apart():
    agreeing = [("u1", "ann", "present"), ("u1", "bo", "present"), ("u2", "ann", "absent"), ("u2", "bo", "absent")]
    opposed = [("u1", "ann", "present"), ("u1", "bo", "absent"), ("u2", "ann", "absent"), ("u2", "bo", "present")]
    frame = pl.concat(
        [votes(*agreeing), votes(*opposed, trait="needles"), votes(*opposed).with_columns(kind=pl.lit("item_flag"))]
    )
    alpha_by_unit = {(row["kind"], row["trait"]): row["alpha"] for row in alphas(frame).to_dicts()}
    # opposed: Do = 2 + 2 = 4, De = (16 - 4 - 4) / 3 = 8/3, alpha = 1 - 1.5 = -0.5: worse than chance
    assert alpha_by_unit == pytest.approx(
        {("sensitivity", "gore"): 1.0, ("sensitivity", "needles"): -0.5, ("item_flag", "gore"): -0.5}
    )
