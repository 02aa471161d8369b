"""The figures of propose-score, worked out by hand, and the command on the demo's gold and on labels."""

from typing import Any

import numpy as np
import pytest

from saferec_builder.proposing import calibration
from saferec_builder.proposing.calibration import Truth


def row(subject: str, trait: str, confidence: float = 0.9, *spans: tuple[int, int, int]) -> dict[str, Any]:
    places = [{"turn": t, "start": a, "end": b} for t, a, b in spans]
    facts = {"subject": subject, "trait": trait, "confidence": confidence, "spans": places}
    return {"proposal": f"{subject} {trait} {confidence}", **facts}


def test_right_wrong_missed_and_open() -> None:
    truth = Truth({("a", "gore"): "explicit", ("b", "gore"): "implicit", ("z", "gore"): None}, {("c", "gore")}, {"a"})
    claims = [row("a", "gore"), row("a", "needles"), row("c", "gore"), row("b", "needles")]
    scores = vars(calibration.score(claims, {"a", "b", "c"}, truth))
    # judged: a gore right, a needles wrong (a was read whole), c gore wrong; b needles is unknown; z was not read
    assert scores["all"] == {"precision": 1 / 3, "recall": 1 / 2, "f1": 0.4, "right": 1, "claimed": 3, "wanted": 2}
    assert (scores["open"], scores["recall_of"]) == (1, {"explicit": 1.0, "implicit": 0.0})
    assert scores["traits"]["needles"]["precision"] == 0 and scores["traits"]["needles"]["recall"] is None


def test_ece_is_the_weighted_gap() -> None:
    confidence, correct = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55]), np.array([1.0, 1, 1, 0, 0, 0])
    # bin 0.9-1: 4 claims, |0.95 - 0.75| = 0.2; bin 0.5-0.6: 2 claims, 0.55; (4 x 0.2 + 2 x 0.55) / 6
    assert calibration.ece(confidence, correct) == pytest.approx(1.9 / 6)
    assert [r["n"] for r in calibration.reliability(confidence, correct)] == [2, 4]
    assert calibration.ece(np.array([]), np.array([])) is None
    assert calibration.reliability(np.array([1.0]), np.array([1.0]))[0]["high"] == 1.0


def test_evidence_is_compared_letter_by_letter() -> None:
    truth = Truth({(s, "gore"): None for s in "abc"}, spans={(s, "gore"): [(0, 10, 20)] for s in "abc"})
    claims = [row(s, "gore", 0.9, span) for s, span in zip("abc", ((0, 10, 20), (0, 15, 25), (1, 10, 20)), strict=True)]
    # a is exact; b shares 5 of 15 letters; c is in another turn
    assert calibration.evidence(claims, truth) == {
        "touches": pytest.approx(2 / 3), "exact": pytest.approx(1 / 3), "iou": pytest.approx((1 + 1 / 3) / 3),
    }  # fmt: skip


def test_isotonic_pools_what_falls() -> None:
    # shares 0.0, 1.0, 0.5 at 0.2, 0.6, 0.8: the last two pool to (1 + 0.5 x 2) / 3
    confidence, correct = np.array([0.2, 0.6, 0.8, 0.8]), np.array([0.0, 1, 1, 0])
    steps = calibration.isotonic(confidence, correct)
    assert steps.upto == (0.2, 0.8) and steps.share == pytest.approx((0.0, 2 / 3))
    assert [steps.of(c) for c in (0.1, 0.2, 0.21, 0.9)] == pytest.approx([0, 0, 2 / 3, 2 / 3])


def test_a_fit_needs_fifty_and_is_judged_on_the_other_half() -> None:
    rng = np.random.default_rng(0)
    claims = [row(f"s{n}", "gore", 0.9 if n % 2 else 0.6) for n in range(200)]
    truth = Truth({("s" + str(n), "gore"): None for n in range(200) if rng.random() < (0.5 if n % 2 else 0.2)}, (), {
        f"s{n}" for n in range(200)
    })  # fmt: skip
    before, after = calibration.held_out_ece(claims, truth)
    assert before is not None and after is not None and before > 0.3 and after < 0.15
    assert calibration.held_out_ece(claims[:49], truth) == (None, None)
