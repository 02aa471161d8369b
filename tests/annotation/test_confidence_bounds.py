"""Bounds on missed positives: against exact arithmetic, in worlds with known truth, and with too little data."""

import json
from dataclasses import replace
from functools import cache
from math import comb, log

import numpy as np
import pytest

from annotation import confidence_bounds as c
from tests.worlds import certificate_worlds as worlds


def chances(zone, n, x):
    """P(this exact sequence of n with x positives | M) for M = 0..zone: C(zone - n, M - x) / C(zone, M)."""
    return [comb(zone - n, m - x) / comb(zone, m) if x <= m <= zone - n + x else 0.0 for m in range(zone + 1)]


@pytest.mark.parametrize(
    ("zone", "n", "x"),
    [(2, 1, 0), (2, 1, 1), (30, 1, 0), (30, 1, 1), (30, 7, 0), (30, 7, 2), (30, 7, 7), (30, 25, 1), (30, 30, 4)],
)
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize(("found", "guess"), [(60, 60 / 19 / 4), (0, 0.5)])
def test_bounds_are_what_the_definition_says(zone, n, x, delta, found, guess):
    """Computed in full: which M the ratio excludes, and the evidence against each too large one."""
    # the prior: nine tenths gamma of shape .7 around a quarter of the allowed misses, of which 60 found allow 60 / 19
    # (5 %), and around half a miss where nothing was found; a tenth over the orders of magnitude
    likelihoods, middle = chances(zone, n, x), np.arange(zone + 1) + 0.35
    bet, even = middle**-0.3 * np.exp(-0.7 * middle / guess), 1 / np.arange(1, zone + 2)
    mixed = float((0.9 * bet / bet.sum() + 0.1 * even / even.sum()) @ likelihoods)
    bound = c.bound(c.Audit(found, zone, (1,) * x + (0,) * (n - x)), delta)
    assert bound.most == max(m for m in range(zone + 1) if mixed < likelihoods[m] / delta) - x
    # forbidden: (M - x) above 5 % of (M + found)
    forbidden = [m for m in range(zone + 1) if m - x > 0.05 * (m + found) + 1e-9 and likelihoods[m]]
    evidence = min((log(mixed / likelihoods[m]) for m in forbidden), default=c.MOST)
    assert bound.log_e == pytest.approx(evidence)


def test_the_prior_of_a_large_zone_weighs_a_point_by_what_it_stands_for():
    counts, weights = c._prior(10_000, 0)
    assert counts[:26].tolist() == [*range(25), 26] and counts[-1] == 10_000 and len(counts) < 160
    # that far out the bet on half a miss is 0: a tenth is left, evenly over the orders of magnitude (1 / M for each M)
    far = counts >= 1_000
    width = np.diff(np.append(counts, 10_001))
    even = width / (counts + 1)
    np.testing.assert_allclose(np.exp(weights[far]), 0.1 * even[far] / even.sum())


def test_what_a_certificate_allows():
    # 19 found, 1 missed: 1 / 20 = 5 %, so M = 1 is allowed; 18 found: 1 / 19 is more
    assert c.allowed(c.Audit(19, 100, ()), 0) == 1
    assert c.allowed(c.Audit(18, 100, ()), 0) == 0
    # 18 found before and 1 in the audit: with M = 2 one is left, 1 / 20
    assert c.allowed(c.Audit(18, 100, ()), 1) == 2
    # 38 found and 1 assigned without a label: one more miss is 2 / 40; with 2 open of 39 nothing is allowed
    assert c.allowed(c.Audit(38, 100, (), open=1), 0) == 1
    assert c.allowed(c.Audit(37, 100, (), open=2), 0) == -1
    # 38 found and 1 drawn without a label: this one and one more are 2 / 40
    assert c.allowed(c.Audit(38, 100, (1,), holes=1), 1) == 2


def test_everything_read_leaves_nothing_missed():
    bound = c.bound(c.Audit(found=30, zone=50, outcomes=(1, *[0] * 49)))
    assert (bound.share, bound.within, bound.more) == (0.0, True, 0)
    assert json.loads(json.dumps(vars(bound), allow_nan=False))["log_e"] == c.MOST > log(1_000_000)


def test_where_all_was_handed_out_only_what_is_open_is_missed():
    """No zone, so no audit: it said "at most 100 %, read everything" of a trait although everything had been read."""
    bound = c.bound(c.Audit(found=57, zone=0, outcomes=()))
    assert (bound.share, bound.within, bound.more) == (0.0, True, 0) and c.holm([bound.log_e]) == [True]
    # 3 of 60 wait: 5 % is allowed; 4 of 61 are more than that, and no audit could help
    assert c.bound(c.Audit(57, 0, (), open=3)).share == 0.05
    worse = c.bound(c.Audit(57, 0, (), open=4))
    assert (worse.share, worse.more, worse.open) == (4 / 61, None, 4) and c.holm([worse.log_e]) == [False]


def test_the_review_guide_says_what_is_needed():
    audits = {found: c.needed(c.Audit(found, 2_000, ())) for found in (500, 200, 50)}
    assert audits == {500: 246, 200: 544, 50: 1_330}
    # about 60 / D of the zone, which is more than the whole zone for 50: the guide says so for 200 and more
    assert all(found * audits[found] / 2_000 == pytest.approx(60, rel=0.1) for found in (500, 200))
    assert [c.false_share(labels, ()).more for labels in (100, 500, 5_000)] == [42, 63, 70]


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_needed_counts_on_misses_as_often_as_so_far(delta):
    start = c.Audit(900, 8_000, (1,) + (0,) * 99)

    def evidence(more):
        n, x = 100 + more, 1 + -(-more // 100)  # one in a hundred, rounded up
        return c._evidence(start, n, x)

    more = c.needed(start, delta)
    assert evidence(more - 1) < log(1 / delta) <= evidence(more)
    assert c.needed(c.Audit(900, 8_000, (0,) * 3_000), delta) == 0


def test_needed_at_the_ends():
    assert c.needed(c.Audit(50, 0, ())) is None  # nothing to audit
    assert c.needed(c.Audit(50, 1, ())) == 1
    assert c.needed(c.Audit(60, 2, (1,))) == 0  # one more of 62 may be missed
    assert c.needed(c.Audit(2, 50, (1, 1) + (0,) * 48)) == 0  # four positives are enough to tell a share
    assert c.needed(c.Audit(2, 50, (1,) + (0,) * 49)) is None
    assert c.needed(c.Audit(2, 50, ())) is None  # without an audit no further positive is hoped for


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_bound_is_that_of_the_last_look(delta):
    audit = c.Audit(400, 8_000, (0,) * 500 + (1,) * 3 + (0,) * 697)
    bound, top = c.bound(audit, delta), c.upper(audit, 1_200, 3, delta)
    assert bound.share == (top - 3) / (top + 400)
    assert bound.log_e == c._evidence(audit, 1_200, 3) != 0
    assert (bound.audited, bound.misses, bound.zone, bound.found) == (1_200, 3, 8_000, 400)
    assert bound.more == (0 if bound.share <= 0.05 else c.needed(audit, delta))
    # later misses count: the earlier bound was on another state than the present one
    late = c.Audit(400, 8_000, (0,) * 1_200 + (1,) * 20)
    assert c.bound(late).share > 0.3 and c.bound(late).more == c.needed(late) > 6_000


def test_what_is_found_elsewhere_or_has_left_is_not_missed():
    audit = c.Audit(400, 8_000, (0,) * 1_190 + (1,) * 10, holes=2)
    top = c.upper(audit, 1_200, 10)
    assert c.bound(audit).share == (top - 8) / (top + 400)  # 8 were found in the audit
    assert c.bound(replace(audit, elsewhere=20)).share == (top - 28) / (top + 400)  # 28 found in the zone
    # 30 of the 428 found ones have left: the missed ones are a larger share of those that remain
    assert c.bound(replace(audit, elsewhere=20, gone=30)).share == (top - 28) / (top - 28 + 398)
    assert c.bound(replace(audit, elsewhere=top + 50)).share == 0  # never less than nothing
    # only 3 of the zone are unread, and 1 outside it: 4 of 412 at most, whatever the draw allows
    few_unread = c.bound(replace(audit, left=3, open=1))
    assert few_unread.share == 4 / 412 and few_unread.within and few_unread.log_e == c.MOST


def test_the_draw_is_counted_up_to_before_the_hole_where_the_bound_is_best():
    """Of 1,000: 300 clean ones after a hole are worth it, 10 are not; neither is a single label after 300 holes."""
    clean, hole = [0] * 50, [None]
    assert c.cut(clean + hole + [0] * 300 + hole * 300 + [1], 1_000) == 351
    assert c.cut(clean + hole + [0] * 10, 1_000) == 50
    assert c.cut(clean, 1_000) == 50 and c.cut([], 1_000) == 0
    assert c.cut(hole * 5 + [0] * 3, 1_000) == 8  # holes at the beginning are included


def test_bounds_before_the_first_audit_and_with_few_positives():
    bound = c.bound(c.Audit(500, 5_000, ()))  # all of the zone may be missed
    assert (bound.share, bound.log_e, bound.more) == (5_000 / 5_500, 0.0, c.needed(c.Audit(500, 5_000, ())))
    assert c.bound(c.Audit(1_000, 5, ())).within  # 5 of 1,005, whatever they are
    assert c.bound(c.Audit(0, 0, (), open=7)).open == 7
    few_positives = c.Audit(2, 1_000, (1,) + (0,) * 49)
    assert c.bound(few_positives).share is None and c.bound(few_positives).more == c.needed(few_positives) is not None
    assert c.bound(c.Audit(2, 1_000, (1,) + (0,) * 49, open=7)).open == 7
    assert c.bound(c.Audit(3, 1_000, (1,) + (0,) * 50)).share is not None  # the fourth
    assert c.bound(c.Audit(2, 50, (0,) * 50)).share == 0  # all is read: nothing is left to estimate


def test_too_little_data_refuses_and_says_how_much_is_missing():
    bound = c.bound(c.Audit(found=2, zone=1_000, outcomes=(0,) * 50))
    assert (bound.share, bound.within) == (None, False)
    assert "positives" in bound.why
    strict = c.bound(c.Audit(found=10, zone=5_000, outcomes=(0,) * 100))
    assert not strict.within
    assert strict.more > 4_000  # not one may be missed: nearly everything has to be read
    assert c.bound(c.Audit(0, 0, ())).why == "nothing was found"
    with pytest.raises(ValueError, match="in a zone of 3"):
        c.bound(c.Audit(1, 3, (0,) * 4))


def test_holm_asks_more_of_many_claims_than_of_one():
    # three claims at 5 %: 1/60 first, then 1/40, then 1/20
    assert c.holm([log(61), log(41), log(21)]) == [True, True, True]
    assert c.holm([log(59), log(41), log(21)]) == [False, False, False]
    assert c.holm([log(21), log(1000), log(10)]) == [False, True, False]
    assert c.holm([log(1 / 0.05)]) == [True]  # at the border it holds


def test_the_false_share_is_of_the_labels_that_stand():
    result = c.false_share(zone=10, outcomes=(0, 1) + (0,) * 8, right=5)
    # all ten are rechecked, one is overturned: 9 + 5 labels stand, and none of them can be wrong
    assert (result.share, result.labels, result.rechecked, result.overturned, result.more) == (0.0, 14, 10, 1, 0)
    partial = c.false_share(1_000, (0,) * 60)
    assert partial.share > 0.05
    assert c.false_share(1_000, (0,) * (60 + partial.more)).certified
    assert not c.false_share(1_000, (0,) * (59 + partial.more)).certified
    assert c.false_share(0, ()).share is None
    assert c.false_share(0, (), right=20).share is None  # one person's rulings, which nobody rechecked
    assert c.false_share(1_000, ()).share is None
    assert c.false_share(1_000, ()).more == c.false_share(1_000, (0,)).more + 1


def test_a_recheck_without_an_answer_stands_and_counts_as_wrong():
    # 100 labels, 42 are rechecked, one is overturned, one waits; 10 more are right: 100 - 1 + 10 stand
    share, wrong = c.false_share(100, (0,) * 40 + (1, 1), right=10, waiting=1), c.most_wrong(100, (0,) * 40 + (1, 1))
    assert (share.labels, share.rechecked, share.overturned) == (109, 42, 1)
    assert wrong > 0 and share.share == (wrong + 1) / 109
    assert c.false_share(1, (1,), waiting=1).share == 1  # the one label waits
    everything = c.false_share(10, (1,) * 10, waiting=10)
    assert (everything.share, everything.more) == (1, None)
    assert c.false_share(10, (0,) * 10, right=10).share == 0
    assert c.most_wrong(5, ()) == 5
    # 20 labels stand and 1 of them waits: 5 % is within 5 %
    border = c.false_share(20, (1,) + (0,) * 19, waiting=1)
    assert (border.share, border.certified, border.more) == (0.05, True, 0)


@pytest.mark.parametrize(("outcomes", "best"), [((0,) * 5 + (1,) * 4, 5), ((0,) * 27 + (1,) * 33, 27)])
def test_labels_that_are_wrong_are_bounded_at_twenty_looks(outcomes, best):
    # with 9 rechecks there is a look at each, with 60 at every third: the last look before the mistakes is the best
    assert c.most_wrong(1_000, outcomes) == c.upper(c.Audit(1_000, 1_000, ()), best, 0) - sum(outcomes)


def test_a_bound_that_later_rechecks_refute_is_not_taken():
    """After 80 right ones 30 of 230 were overturned, and it said `<= -0.7 % (certified)`."""
    outcomes = (0,) * 80 + (1,) * 30 + (0,) * 200
    assert c.upper(c.Audit(600, 600, ()), 75, 0) < 30  # at the last look before them: refuted
    assert c.most_wrong(600, outcomes) == c.upper(c.Audit(600, 600, ()), 310, 30) - 30


@pytest.mark.parametrize("right", [0, 300])
def test_further_rechecks_count_on_mistakes_as_often_as_so_far(right):
    share = c.false_share(1_000, (1,) + (0,) * 59, right)

    def enough(more):
        wrong = 1 + -(-more // 60)  # one in sixty, rounded up
        return c.upper(c.Audit(1_000, 1_000, ()), 60 + more, wrong) - wrong <= 0.05 * (1_000 - wrong + right)

    assert enough(share.more) and not enough(share.more - 1)
    assert c.false_share(10, (0,) * 9).more == 1  # one of ten is open, which is more than a twentieth


@pytest.mark.slow
def test_false_shares_hold_where_the_truth_is_known():
    """The bound is the best of all looks so far, so one look covers all; slightly over 5 % of the labels are wrong."""
    rng, failures = np.random.default_rng(5), 0
    truth = np.zeros(600, dtype=int)
    truth[:32] = 1  # 32 / 600 = 5.3 %
    for _ in range(100):
        outcomes = tuple(rng.permutation(truth)[:150].tolist())
        failures += c.most_wrong(600, outcomes) < 32 - sum(outcomes)
    assert failures <= 10  # 5 % of 100 are 5; more than 10 come once in a hundred times


@pytest.mark.parametrize(("wrong", "units"), [(0, 59), (1, 8), (5, 100), (3, 1_000)])
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_rate_is_where_the_ratio_reaches_its_bound(wrong, units, delta):
    assert (c.rate(0, 0), c.rate(10, 10)) == (None, 1)
    # Beta(1/2, 1/2) is the law of sin^2 of a uniform angle: the mean of p^wrong (1 - p)^right, summed over angles
    p = np.sin((np.arange(20_000) + 0.5) * np.pi / 40_000) ** 2
    mean = (p**wrong * (1 - p) ** (units - wrong)).mean()
    rate = c.rate(wrong, units, delta)
    assert wrong / units < rate < 1
    assert mean / (rate**wrong * (1 - rate) ** (units - wrong)) == pytest.approx(1 / delta, rel=1e-6)


@pytest.mark.parametrize("regime", worlds.REGIMES[:2], ids=lambda r: r.name)
def test_certificates_hold_where_the_truth_is_known(regime):
    # a valid method errs in at most 5 % of worlds; of 12 worlds x 3 traits = 36 looks, 7 or more errors have a
    # chance of 0.2 % at 5 % (binomial tail)
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        for prevalence in (0.02, 0.05, 0.12):
            wrong += worlds.certify(worlds.draw(rng, regime, prevalence, 4_000), rng).wrong
    assert wrong <= 6


@pytest.mark.slow
def test_certificates_hold_at_the_border_though_people_look_all_the_time():
    # slightly over 5 % is missed, and scores tell nothing; of 100 worlds at most 5 % may err: 12 or more have 0.4 %
    rngs = [np.random.default_rng([seed, 3]) for seed in range(100)]
    results = [worlds.certify(worlds.boundary(rng, 0.05, 3_000), rng, band=False, every=10) for rng in rngs]
    assert sum(result.wrong for result in results) <= 11


@pytest.mark.slow
@pytest.mark.parametrize("positives", [8, 20])
def test_a_bet_that_moves_with_what_is_found_outside_costs_next_to_nothing(positives):
    """The prior follows `found`, which grows while the audit runs: no theorem says that the bound holds then."""
    # 600 worlds, a look every 4 of 400 audits; a valid method errs in at most 30 (s.d. 5.3): 48 or more have 0.1 %
    zone, rng, ranges = 400, np.random.default_rng(7), [(0, 100), (20, 300), (100, 1_000), (50, 3_000)]
    wrong = np.zeros(len(ranges) + 1, int)
    for _ in range(600):
        positives_by_size = rng.permutation(np.arange(zone) < positives).cumsum()
        looks = [(n, int(positives_by_size[n - 1])) for n in range(4, zone, 4)]
        found_by_range = [[low + (high - low) * n // zone // 10 * 10 for n, _ in looks] for low, high in ranges]
        for place, found in enumerate(found_by_range):
            wrong[place] += any(excluded(zone, f, n, x, positives) for f, (n, x) in zip(found, looks, strict=True))
        worst = (0, 10, 30, 100, 300, 1_000, 3_000)
        wrong[-1] += any(excluded(zone, f, n, x, positives) for n, x in looks for f in worst)
    assert wrong.max() <= 47, wrong


@cache  # the worlds meet the same counts again and again
def excluded(zone, found, n, x, positives):
    """Returns whether `upper` is below the truth, without its search."""
    if positives <= c._mode(zone, n, x):
        return False
    log_likelihood = c._likelihood(zone, n, x, np.array([positives]))[0]
    return c._marginal(found, zone, n, x) - log_likelihood >= log(1 / c.DELTA)


@pytest.mark.parametrize("found", [0, 150, 400])
def test_the_plan_is_the_cheapest_of_all(found):
    assert c.plan(400, [0.0001] * 10_000) == 0  # scores tell nothing
    slowly_falling = [0.4 * 0.97**n for n in range(400)]
    likely, steep = [0.9] * 40 + [0.0] * 60, [0.3] * 100 + [0.0002] * 600
    for odds in (slowly_falling, likely, likely[:45], steep, [0.2] * 5, [0.9], []):

        def cost(read, odds=odds):
            rest = max(sum(odds[read:]), 1e-3)
            limit = max(0.05 * (found + sum(odds[:read])) / 0.95, 1e-3)
            gain = limit - rest - rest * log(limit / rest) if limit > rest else 0  # log E of auditing all that is left
            price = (log(20) + 1.2) / gain if gain else 1
            return read + min(price, 1) * (len(odds) - read)

        assert c.plan(found, odds) == min(range(len(odds) + 1), key=cost)


def test_a_bound_in_words_is_never_less_than_the_bound():
    texts = [c.at_most(share) for share in (0.0, 1 / 3_000, 0.042, 0.0504, 3 / 60, 1.0)]
    # if all is read the share is known; 1 of 3,000 is not none, and 5.04 % is more than the 5 % of a certificate
    assert texts == ["0 %", "<= 0.1 %", "<= 4.2 %", "<= 5.1 %", "<= 5.0 %", "<= 100.0 %"]
