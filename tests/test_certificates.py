"""Bounds on what was missed: against exact arithmetic, worlds whose truth is known, and too little data."""

from math import comb, log

import numpy as np
import pytest

from saferec_builder import certificates as c
from saferec_builder.agreement import rubber_stamp
from tests import certificate_worlds as worlds


def test_the_likelihood_is_that_of_a_draw_without_replacement():
    # 2 positives among 5; the sequence 1, 0: 2/5 * 3/4 = 0.3
    assert np.exp(c._likelihood(5, 2, 1, np.array([2])))[0] == pytest.approx(0.3)
    # summed over the orders it is the hypergeometric: 2 * 0.3 = C(2,1) C(3,1) / C(5,2)
    assert comb(2, 1) * comb(3, 1) / comb(5, 2) == pytest.approx(2 * 0.3)
    assert c._likelihood(5, 2, 1, np.array([0, 5])).tolist() == [-np.inf, -np.inf]  # impossible with a 1 and a 0


def test_the_prior_is_a_distribution_and_known_before_the_audit():
    for zone, found in ((1, 0), (10, 3), (10_000, 500)):
        points, weights = c._prior(zone, found, c.ALPHA)
        assert points[0] == 0
        assert points[-1] <= zone
        assert np.exp(weights).sum() == pytest.approx(1.0)


def test_what_a_certificate_allows():
    # 19 found, 1 missed: 1 / 20 = 5 %, so M = 1 is allowed; 18 found: 1 / 19 is more
    assert c.allowed(c.Audit(19, 100, ()), 0, 0.05) == 1
    assert c.allowed(c.Audit(18, 100, ()), 0, 0.05) == 0
    # 18 found before and 1 in the audit: of M = 2 one is left, 1 / 20
    assert c.allowed(c.Audit(18, 100, ()), 1, 0.05) == 2
    # 38 found and 1 handed out without a label: one more missed is 2 / 40; with 2 open of 39 nothing is allowed
    assert c.allowed(c.Audit(38, 100, (), open=1), 0, 0.05) == 1
    assert c.allowed(c.Audit(37, 100, (), open=2), 0, 0.05) == -1
    # 38 found and 1 drawn without a label: it and one more are 2 / 40
    assert c.allowed(c.Audit(38, 100, (1,), holes=1), 1, 0.05) == 2


def test_everything_read_leaves_nothing_missed():
    told = c.bound(c.Audit(found=30, zone=50, outcomes=(1, *[0] * 49)))
    assert (told.share, told.certified, told.more) == (0.0, True, 0)


def test_the_bound_falls_with_every_clean_audit_and_rises_with_none():
    audit = c.Audit(400, 8_000, (0,) * 300 + (1,) + (0,) * 900)
    shares = c.shares(audit)
    assert (np.diff(shares) <= 0).all()
    assert shares[0] > 0.5 > shares[-1]
    assert c.bound(audit).share == pytest.approx(shares[-1])


@pytest.mark.parametrize("found", [200, 500, 1_000])
def test_needed_is_what_it_takes(found):
    start = c.Audit(found, 10_000, ())
    more = c.needed(start)
    assert c.bound(c.Audit(found, 10_000, (0,) * more)).certified
    short = c.bound(c.Audit(found, 10_000, (0,) * (more - 1)))
    assert short.log_e < log(1 / c.DELTA)


def test_too_little_data_refuses_and_says_how_much_is_missing():
    told = c.bound(c.Audit(found=2, zone=1_000, outcomes=(0,) * 50))
    assert (told.share, told.certified) == (None, False)
    assert "positives" in told.why
    rare = c.bound(c.Audit(found=10, zone=5_000, outcomes=(0,) * 100))
    assert not rare.certified
    assert rare.more > 4_000  # nothing may be missed at all: nearly everything has to be read
    assert c.bound(c.Audit(0, 0, ())).why == "nothing was read"
    with pytest.raises(ValueError, match="in a zone of 3"):
        c.bound(c.Audit(1, 3, (0,) * 4))


def test_unread_draws_count_as_missed():
    clean = c.bound(c.Audit(400, 8_000, (0,) * 1_200))
    waiting = c.bound(c.Audit(400, 8_000, (1,) * 60 + (0,) * 1_140))
    assert clean.certified
    assert not waiting.certified


def test_what_was_handed_out_and_is_not_labelled_counts_as_missed():
    clean = c.Audit(400, 8_000, (0,) * 1_200)
    assert c.bound(clean).certified
    # 40 of 440 are open: at least 9 % are missed, whatever is audited
    waiting = c.bound(c.Audit(400, 8_000, (0,) * 1_200, open=40))
    assert waiting.share > 40 / 440
    assert (waiting.more, waiting.open) == (None, 40)


def test_holm_asks_more_of_many_claims_than_of_one():
    # three claims at 5 %: 1/60 first, then 1/40, then 1/20
    assert c.holm([log(61), log(41), log(21)], 0.05) == [True, True, True]
    assert c.holm([log(59), log(41), log(21)], 0.05) == [False, False, False]
    assert c.holm([log(21), log(1000), log(10)], 0.05) == [False, True, False]


def test_the_false_share_is_of_the_labels_that_stand():
    told = c.false_share(zone=10, outcomes=(0, 1) + (0,) * 8, right=5)
    # all ten rechecked, one overturned: 9 + 5 labels stand, and none of them can be wrong
    assert (told.share, told.labels, told.rechecked, told.overturned, told.more) == (0.0, 14, 10, 1, 0)
    some = c.false_share(1_000, (0,) * 60)
    assert some.share > 0.05
    assert c.false_share(1_000, (0,) * (60 + some.more)).certified
    assert not c.false_share(1_000, (0,) * (59 + some.more)).certified
    assert c.false_share(0, ()).share is None
    assert c.false_share(1_000, ()).share is None
    assert c.false_share(1_000, ()).more == c.false_share(1_000, (0,)).more + 1


def test_false_shares_hold_where_the_truth_is_known():
    """The bound is the best on the way, so one look is all looks; a hair more than 5 % of the labels are wrong."""
    rng, broken = np.random.default_rng(5), 0
    truth = np.zeros(600, dtype=int)
    truth[:32] = 1  # 32 / 600 = 5.3 %
    for _ in range(100):
        outcomes = tuple(rng.permutation(truth)[:150].tolist())
        broken += c.most_wrong(600, outcomes) < 32 - sum(outcomes)
    assert broken <= 10  # 5 % of 100 are 5; more than 10 come once in a hundred times


def test_gold_units_bound_the_reviewers_errors():
    # exact one-sided Clopper-Pearson for 0 of 59 is 1 - 0.05^(1/59) = 4.95 %; reading every day costs something
    assert c.rate(0, 0) is None
    assert 0.0495 < c.rate(0, 59) < 0.1
    assert c.rate(5, 100) > 0.05
    assert c.rate(10, 10) == pytest.approx(1.0)


@pytest.mark.parametrize("regime", worlds.REGIMES[:2], ids=lambda r: r.name)
def test_certificates_hold_where_the_truth_is_known(regime):
    # a right method errs in at most 5 % of worlds; of 12 worlds x 3 traits = 36 looks, 7 or more errors have a
    # chance of 0.2 % at 5 % (binomial tail)
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        for prevalence in (0.02, 0.05, 0.12):
            wrong += worlds.certify(worlds.draw(rng, regime, prevalence, 4_000), rng).wrong
    assert wrong <= 6


def test_certificates_hold_at_the_border_though_people_look_all_the_time():
    # a hair over 5 % is missed and scores tell nothing; of 100 worlds at most 5 % may err: 12 or more have 0.4 %
    rngs = [np.random.default_rng([seed, 3]) for seed in range(100)]
    told = [worlds.certify(worlds.boundary(r, 0.05, 3_000), r, band=False, every=10) for r in rngs]
    assert sum(t.wrong for t in told) <= 11


def test_the_plan_reads_by_score_only_where_scores_tell_something():
    steep = [0.3] * 100 + [0.0002] * 9_900
    flat = [0.0001] * 10_000
    assert 80 <= c.plan(400, steep) <= 150
    assert c.plan(400, flat) == 0


def test_a_rubber_stamp_is_flagged_and_an_attentive_reader_is_not():
    # 13 decoys, 5 accepted is the border: P(X >= 5 | 13, 0.1) = 0.65 %, P(X >= 4) = 3.4 %;
    # who accepts 70 % reaches 5 in 99.6 % of cases
    assert [rubber_stamp(k, 13) for k in (3, 4, 5, 9)] == [False, False, True, True]
    assert not rubber_stamp(12, 12)  # too few to tell
    tail = sum(comb(13, k) * 0.7**k * 0.3 ** (13 - k) for k in range(5, 14))
    assert tail >= 0.9
    rng = np.random.default_rng(0)
    careless, honest = rng.binomial(13, 0.7, 2_000), rng.binomial(13, 0.1, 2_000)
    assert np.mean([rubber_stamp(int(k), 13) for k in careless]) >= 0.9
    assert np.mean([rubber_stamp(int(k), 13) for k in honest]) <= 0.01
