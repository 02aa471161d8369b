"""Intervals of means over users: exact near zero, binomial far from it, and over the right users."""

import numpy as np
import pytest

from saferec_builder.scoring.intervals import (
    _resample,
    beta_quantile,
    clopper_pearson,
    detectable,
    few_users,
    gamma_quantile,
    intervals,
    mean_share,
    paired_shares,
    t_quantile,
)


def test_quantiles_are_those_of_tables():
    # gamma of shape 1 is exponential: -ln(1 - p); chi-squared with 20 degrees, .975: 34.1696 = 2 * gamma of shape 10
    assert gamma_quantile(0.975, 1) == pytest.approx(-np.log(0.025), rel=1e-8)
    assert 2 * gamma_quantile(0.975, 10) == pytest.approx(34.1696, abs=1e-4)
    # beta(1, n): 1 - (1 - p)^(1/n); beta(a, a) is symmetrical
    assert beta_quantile(0.975, 1, 100) == pytest.approx(1 - 0.025**0.01, rel=1e-8)
    assert beta_quantile(0.025, 7, 7) == pytest.approx(1 - beta_quantile(0.975, 7, 7), rel=1e-8)
    # t of 2 degrees .975: 4.3027, of 10: 2.2281 (tables)
    assert t_quantile(2) == pytest.approx(4.3027, abs=1e-4) and t_quantile(10) == pytest.approx(2.2281, abs=1e-4)


def test_yes_and_no_have_the_exact_interval():
    # 0 of 100: 1 - .025^(1/100) = .0362; 10 of 100: .0490 to .1762 (Clopper and Pearson's chart, four places)
    assert clopper_pearson(0, 100) == (0, pytest.approx(0.0362, abs=5e-5))
    assert clopper_pearson(10, 100) == (pytest.approx(0.0490, abs=5e-5), pytest.approx(0.1762, abs=5e-5))
    assert clopper_pearson(100, 100) == (pytest.approx(1 - 0.0362, abs=5e-5), 1)


def test_a_share_of_nothing_is_no_certainty():
    # Poisson, none seen: -ln(.025) = 3.689 events at most, each worth 1/n
    assert mean_share(np.zeros(100)) == (0, pytest.approx(0.03689, abs=1e-5))
    # 3 users of 100 have 1: variance .03 * .97 / 99 = 2.9394e-4. Below, + .0003^2: a gamma of mean .03 and variance
    # 2.9403e-4, which at .025 is .006323; above, one more: mean .04, + .01^2: .087255 (scipy.stats.gamma). The Poisson
    # limits of 3, .6187 and 8.7673 of 100, are a little wider, because they lack the factor .97
    assert mean_share(np.repeat([1.0, 0.0], [3, 97])) == (pytest.approx(0.006323, 1e-4), pytest.approx(0.087255, 1e-4))
    # all users have 1: no miss was seen, so at most 3.689 / 50 may be missing
    assert mean_share(np.ones(50)) == (pytest.approx(1 - 0.07378, abs=1e-5), 1)
    low, high = mean_share(np.tile([0.1, 0.4, 0.5, 0.6, 0.9], 8))  # .5 and, in floats, a bit more: it looped for ever
    assert 0 < low < 0.5 < high <= 1
    assert mean_share(np.array([4.0, 0.0]))[1] <= 4  # the paper's sdcg is above 1


@pytest.mark.parametrize("n", [2, 5, 21, 39])
def test_few_users_have_what_clopper_and_pearson_becomes_between_yes_and_no(n):
    for count in {0, 1, n // 2, n - 1, n}:
        values = np.repeat([1.0, 0.0], [count, n - count])
        assert few_users(values, 0.0, 1.0) == pytest.approx(clopper_pearson(count, n), abs=2e-6)
        # differences of -1 and 1 are the same on a scale twice as long
        wide = [2 * end - 1 for end in clopper_pearson(count, n)]
        assert few_users(2 * values - 1, -1.0, 1.0) == pytest.approx(wide, abs=4e-6)


def test_two_users_alike_are_no_certainty():
    """Recall of two users with .25 each used to read 0.250..0.250, because every resample of them is the same."""
    # one more user who has 0: the weight is beta(1, 2), above 1 - sqrt(.025) in .025 of draws, so the bound is
    # .25 * sqrt(.025) = .039528; likewise one more who has 1: 1 - .75 * sqrt(.025) = .881415
    for name in ("recall@10", "svr@10", "sdcg@10", "svr_weighted@10"):
        cell = intervals({name: np.array([0.25, 0.25])}, weights=np.ones(2))[name]
        assert (cell["low"], cell["high"]) == (pytest.approx(0.039528, abs=2e-6), pytest.approx(0.881415, abs=2e-6))
    # the paper's is not: ten violated items in ten ranks are sum(1 / log2(rank + 1)) = 4.543559
    cell = intervals({"sdcg@10": np.array([0.25, 0.25])}, highest={"sdcg@10": 4.543559})["sdcg@10"]
    assert cell["high"] == pytest.approx(4.543559 - 4.293559 * 0.158114, abs=1e-5)
    # two lists of two titles; they may be as long as k = 10
    cell = intervals({"recall@10": np.zeros(2), "length": np.full(2, 2.0)})["length"]
    assert cell["low"] == pytest.approx(2 * 0.158114, abs=1e-5)
    assert cell["high"] == pytest.approx(10 - 8 * 0.158114, 1e-5)
    for name in ("recall@10", "svr@10"):  # a difference of 0: 1 - sqrt(.025) to each side
        cell = intervals({name: np.zeros(2)}, paired=True)[name]
        assert (cell["low"], cell["high"]) == (pytest.approx(-0.841886, abs=2e-6), pytest.approx(0.841886, abs=2e-6))


@pytest.mark.parametrize("users", [1, 2, 5, 16, 400])
def test_no_bound_of_svr_is_above_that_of_svr_upper(users):
    """One user had svr from .010 to 1, and svr_upper from .000 to .992: above .5 the interval was that of 1 - value."""
    random = np.random.default_rng(users)
    for seed in range(20):
        svr = random.choice([0.0, 0.1, 0.4], users)
        upper = np.maximum(svr, random.choice([0.0, 0.7, 1.0], users))
        if seed == 0:  # one user with 1 makes a wide interval that begins below that of equal users
            svr, upper = np.full(users, 0.1), np.append(np.full(users - 1, 0.1), 1.0)
        values = {"svr@10": svr, "svr_upper@10": upper, "svr_weighted@10": svr, "svr_upper_weighted@10": upper}
        cells = intervals(values, 2, weights=random.choice([1.0, 10.0], users))
        for less, more in (("svr@10", "svr_upper@10"), ("svr_weighted@10", "svr_upper_weighted@10")):
            assert cells[less]["low"] <= cells[more]["low"] and cells[less]["high"] <= cells[more]["high"]
            assert cells[less]["low"] <= cells[less]["mean"] <= cells[less]["high"]


def test_a_share_of_somebodys_requests_is_no_yes_or_no():
    """A user with a violation in half of the requests used to count as none: int(0.5) of 1."""
    shares = np.append(np.full(3, 0.5), np.zeros(47))
    cell = intervals({"any_violated@10": shares})["any_violated@10"]
    assert cell["mean"] == 0.03 and (cell["low"], cell["high"]) == pytest.approx(mean_share(shares), abs=1e-6)


def test_a_weight_makes_an_event_count_more():
    values, weights = np.repeat([1.0, 0.0], [3, 97]), np.repeat([1.0, 5.0], [50, 50])
    # 3 of 50 that stand for one each, among 50 + 250: 3 events of 1/300, whose lower limit is .6187 (Poisson)
    assert mean_share(values, weights)[0] == pytest.approx(0.6187 / 300, rel=0.05)
    # an event still to come has the weight of a user drawn by weight: (50 * 1 + 50 * 5 * 5) / 300 = 4.333 of 300
    assert mean_share(np.zeros(100), weights) == (0, pytest.approx(3.6889 * 4.3333 / 300, 1e-4))
    assert mean_share(values, np.full(100, 7.0)) == mean_share(values)
    cell = intervals({"svr_weighted@10": values}, weights=weights)["svr_weighted@10"]
    assert (cell["mean"], cell["n"]) == (0.01, 100)


def test_a_difference_has_the_bounds_of_both_sides():
    # no user differs: 3.689/n to either side; with events on one side the other keeps the bound of zero events
    assert paired_shares(np.zeros(100)) == (pytest.approx(-0.03689, abs=1e-5), pytest.approx(0.03689, abs=1e-5))
    low, high = paired_shares(np.repeat([1.0, 0.0], [3, 97]))
    assert low == pytest.approx(0.03 - np.hypot(0.03 - 0.006323, 0.03689), abs=1e-5)
    assert high == pytest.approx(0.087255, abs=1e-5)
    assert paired_shares(np.repeat([-1.0, 0.0], [3, 97])) == (-high, -low)
    # 39 of 100 differ by 1, 20 up and 19 down: no user is both up and down, and the correlation of the two is
    # -.20 * .19 / sqrt(.20 * .80 * .19 * .81) = -.242, so that the bounds lie further out than without it
    up, down = np.repeat([1.0, 0.0], [20, 80]), np.repeat([0.0, 1.0, 0.0], [20, 19, 61])
    first, second = 0.20 - mean_share(up)[0], mean_share(down)[1] - 0.19
    low, _ = paired_shares(up - down)
    assert low == pytest.approx(0.01 - np.sqrt(first**2 + second**2 + 2 * 0.2422 * first * second), abs=1e-3)


def test_where_many_differ_the_interval_is_students():
    """Four models' lists differed by .033 in 89 of 91 dialogues, -.091 to .155: a bootstrap has .003 to .062."""
    # 60 of 100 differ by .1, 40 up and 20 down: mean .02, variance of it (.006 - .0004) / 99 = 5.6566e-5, one more of
    # .1 (.1 / 100)^2 = 1e-6: standard error .0075872, by t(99) = 1.9842 a half width of .015055
    values = np.repeat([0.1, -0.1, 0.0], [40, 20, 40])
    assert paired_shares(values) == (pytest.approx(0.02 - 0.015055, abs=1e-6), pytest.approx(0.02 + 0.015055, abs=1e-6))
    low, high = paired_shares(np.repeat([1.0, 0.0], [48, 2]))
    assert 0.8 < low < 0.96 < high == 1  # no difference of shares is above 1
    # 39 are too few, and so are 60 of whom one weighs as much as all others: (2 * 59)^2 / (59 + 59^2) = 3.9
    few, enough = (np.diff(paired_shares(np.repeat([0.125, 0.0], [n, 100 - n]))) for n in (39, 40))
    assert few > 0.04 > 0.03 > enough
    weights = np.repeat([59.0, 1.0], [1, 99])
    assert np.diff(paired_shares(values, weights)) > 0.5


def test_the_name_of_a_metric_decides_its_interval():
    values = {f"{name}@10": np.zeros(100) for name in ("svr", "any_unsafe", "recall")} | {"length": np.full(100, 10.0)}
    bounds = {name: (cell["low"], cell["high"]) for name, cell in intervals(values).items()}
    assert bounds["svr@10"] == (0, 0.036889)
    assert bounds["any_unsafe@10"] == bounds["recall@10"] == (0, pytest.approx(0.036217, abs=2e-6))
    # one more user who has 0, with a weight of beta(1, 100): 10 * .025^(1/100)
    assert bounds["length"] == (pytest.approx(9.63783, abs=2e-5), pytest.approx(10, abs=1e-6))
    assert intervals({"recall@10": np.zeros(200)})["recall@10"]["high"] == pytest.approx(0.018444, abs=1e-6)  # 3.689/n
    cell = intervals({"svr@10": np.zeros(100)}, paired=True)["svr@10"]
    # z.975 = 1.960, z.80 = .8416: with a half width of .036889, 80 % of studies find 2.8016 / 1.96 of it
    assert (cell["low"], cell["high"], cell["detectable"]) == (-0.036889, 0.036889, pytest.approx(0.052728, abs=2e-6))


def test_a_recall_that_few_users_have_is_near_zero_as_well():
    """A bootstrap covered the truth in .77 of worlds where one of 50 users has a recall of .1, or seldom of 1."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(200):
        values = np.where(random.random(390) < 0.02, random.choice([0.1, 1.0], 390, p=[0.95, 0.05]), 0.0)
        cell = intervals({"recall@10": values}, 200)["recall@10"]
        covered += cell["low"] <= 0.02 * 0.145 <= cell["high"]
    assert covered >= 184  # .92: two standard errors below .95
    # one user more who differs is no reason for a narrower interval: it was .0033 wide here
    for one, name in ((0.5, "recall@10"), (-0.5, "ndcg@10")):
        cell = intervals({name: np.repeat([one, 0.0], [1, 299])}, paired=True)[name]
        assert cell["high"] - cell["low"] > 2 * 3.689 / 300


def test_what_can_be_detected_is_no_more_than_there_can_be():
    # a half width of .1 by 2.8016 / 1.96; no difference of shares can be 1.26
    assert (detectable(-0.1, 0.1), detectable(-0.9, 0.9)) == (pytest.approx(0.142939, abs=1e-6), 1)
    assert detectable(-9.0, 9.0, top=10.0) == 10


def test_intervals_leave_out_whom_a_metric_does_not_apply_to():
    values = {"x": np.array([0.0, 1.0, np.nan, 1.0]), "nobody": np.full(4, np.nan), "same": np.full(200, 0.5)}
    values |= {name: np.append(values[name], np.full(196, np.nan)) for name in ("x", "nobody")}
    cells = intervals(values, draws=500, seed=1)
    assert cells["x"]["mean"] == pytest.approx(2 / 3, abs=1e-6) and cells["x"]["n"] == 3
    assert 0 <= cells["x"]["low"] < 2 / 3 < cells["x"]["high"] <= 1
    nobody = {"mean": None, "low": None, "high": None, "n": 0}
    assert cells["nobody"] == nobody == intervals({"x": np.array([])})["x"]
    assert cells["same"] == {"mean": 0.5, "low": 0.5, "high": 0.5, "n": 200}
    # every resample of one user is this user, which is no certainty
    for name in ("x", "svr@10"):
        alone = {name: np.array([0.5] + [np.nan] * 50)}
        assert intervals(alone)[name] == {"mean": 0.5, "low": 0.0, "high": 1.0, "n": 1}
        paired = intervals(alone, paired=True)[name]
        assert (paired["low"], paired["high"]) == (-1.0, 1.0)


def test_intervals_have_the_width_of_the_binomial():
    # 400 users, half of them 1: standard error .5 / 20 = .025, 95 % = .5 +- 1.96 * .025 = .451 .. .549
    values = {"x": np.repeat([0.0, 1.0], 200)}
    cell = intervals(values, draws=4000)["x"]
    assert cell["low"] == pytest.approx(0.451, abs=0.003) and cell["high"] == pytest.approx(0.549, abs=0.003)


def test_figures_have_six_places():
    cell = intervals({"x": np.repeat([1.0, 0.0], [70, 140])}, draws=1, seed=3)["x"]
    assert cell["mean"] == 0.333333 and cell["low"] == cell["high"] == round(cell["low"], 6)  # one resample


def test_many_users_are_resampled_in_blocks():
    # 5,000,000 // 1,000,000 = 5 resamples a block; seven resamples of equal users
    filled = np.full((1_000_000, 1), 0.25)
    assert _resample(filled, filled > 0, 7, 0).tolist() == [[0.25]] * 7


def test_the_seed_decides_and_metrics_share_their_resamples():
    values = np.random.default_rng(0).random(250)
    assert intervals({"x": values}) == intervals({"x": values}) != intervals({"x": values}, seed=1)
    cells = intervals({"x": values, "shifted": values + 1})
    assert cells["shifted"]["low"] == pytest.approx(cells["x"]["low"] + 1, abs=2e-6)
