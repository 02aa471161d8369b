"""Two tests of attention, evaluated after every answer: who is flagged, and how rarely an honest reader is."""

from math import comb, exp

import numpy as np
import pytest

from annotation.careless_reviewers import FALSE_ALARM, HONEST_ACCEPTS, HONEST_MISSES, PAST, UNREAD, flags, log_evidence

LIVES = 20_000


def accepts_unread(accepted: int, decoys: int) -> bool:
    return UNREAD in flags(accepted=accepted, decoys=decoys, missed=0, there=0)


def reads_past(missed: int, there: int) -> bool:
    return PAST in flags(accepted=0, decoys=0, missed=missed, there=there)


def test_the_evidence_by_hand():
    # five decoys, all accepted: integral of p^5 from 0.2 to 1 = (1 - 0.2^6) / 6 = 0.16666, over 0.8 * 0.2^5 = 0.000256
    assert exp(log_evidence(5, 5, 0.2)) == pytest.approx((1 - 0.2**6) / 6 / (0.8 * 0.2**5))  # 651
    # one of two: integral of p (1 - p) from 0.2 to 1 = [p^2/2 - p^3/3] = 1/6 - (0.02 - 0.002667) = 0.14933
    assert exp(log_evidence(1, 2, 0.2)) == pytest.approx((1 / 6 - 0.02 + 0.008 / 3) / (0.8 * 0.2 * 0.8))
    assert log_evidence(0, 0, 0.3) == pytest.approx(0)  # nothing was asked: nothing is known


@pytest.mark.parametrize("honest", [HONEST_ACCEPTS, HONEST_MISSES])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_an_honest_reader_expects_no_evidence(honest, n):
    # sum over k of P(k | honest) E(k) = 1 exactly at the border, and less below it: the false alarm rate rests on this
    def expected(rate: float) -> float:
        return sum(comb(n, k) * rate**k * (1 - rate) ** (n - k) * exp(log_evidence(k, n, honest)) for k in range(n + 1))

    assert expected(honest) == pytest.approx(1)
    assert expected(honest / 2) < 1


def test_careless_readers_are_flagged_after_five_decoys_or_seven_controls():
    # 1 / 0.0025 = 400. Decoys: 0.16666 / 0.000256 = 651, with four 0.19994 / 0.00128 = 156;
    # missed: 0.12499 / 0.000153 = 816, with six 0.14283 / 0.00051 = 280
    assert [accepts_unread(k, k) for k in (4, 5)] == [False, True]
    assert [reads_past(k, k) for k in (6, 7)] == [False, True]
    assert flags(accepted=5, decoys=5, missed=0, there=9) == [UNREAD]
    assert flags(accepted=0, decoys=9, missed=7, there=7) == [PAST]
    # 12 of 20 decoys are the border: whoever accepts 80 % reaches it with P(X >= 12 | 20, 0.8) = 0.990
    assert accepts_unread(12, 20) and not accepts_unread(11, 20)
    # 15 of 20 controls: whoever misses 90 % reaches it with P(X >= 15 | 20, 0.9) = 0.989, or earlier: 0.994 in all
    assert reads_past(15, 20) and not reads_past(14, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "rate", "answers", "least", "most"),
    [
        (accepts_unread, HONEST_ACCEPTS, 250, 0.0, FALSE_ALARM),  # at the border itself
        (accepts_unread, 0.1, 250, 0.0, 0.0005),
        (reads_past, HONEST_MISSES, 250, 0.0, FALSE_ALARM),
        (reads_past, 0.15, 250, 0.0, 0.0005),
        (accepts_unread, 0.8, 20, 0.985, 1.0),
        (reads_past, 0.9, 20, 0.985, 1.0),
    ],
)
def test_who_is_ever_flagged_where_somebody_looks_after_each_answer(test, rate, answers, least, most):
    # 50 of 20,000 lives are allowed at 0.0025, with a standard deviation of 7; the measured number is below 40
    thresholds = np.array([next((k for k in range(n + 1) if test(k, n)), n + 1) for n in range(1, answers + 1)])
    wrong = np.random.default_rng(7).random((LIVES, answers)) < rate
    flagged_share = (wrong.cumsum(axis=1) >= thresholds).any(axis=1).mean()
    assert least <= flagged_share <= most


def test_thousands_of_answers_are_no_fault():
    assert log_evidence(3, 5_000, 0.3) < 0 < log_evidence(5_000, 5_000, 0.2)
