"""The probability of a topic from votes: the densities by hand, the learnt voters against the true ones."""

import numpy as np
import pytest

from saferec_builder.core import vote_model
from saferec_builder.core.vote_model import Voters


def simulated(works, prevalence, hit, slip, rho, seed=0):
    """(yes, no, truth) of works with 1 to 60 votes."""
    rng = np.random.default_rng(seed)
    truth, n = rng.random(works) < prevalence, rng.integers(1, 61, works)
    mean, k = np.where(truth, hit, slip), 1 / rho - 1
    yes = rng.binomial(n, rng.beta(mean * k, (1 - mean) * k))
    return yes, n - yes, truth


def test_one_vote_by_hand():
    # one yes: P(yes | true) = hit = .8, P(yes | not) = slip = .1 whatever rho: .25 * .8 / (.25 * .8 + .75 * .1) = 8/11
    voters = Voters(0.8, 0.1, 0.2, 0.25, 1000, True)
    # two yes, k = 4: hit (3.2 / 4)(4.2 / 5) = .672, slip (.4 / 4)(1.4 / 5) = .028: .168 / (.168 + .021) = 8/9
    posteriors = vote_model.posterior(voters, [1, 2, 0], [0, 0, 0])
    np.testing.assert_allclose(posteriors, [8 / 11, 8 / 9, np.nan])
    tell = [vote_model.posterior(Voters(0.5, slip, 0.2, 0.25, 1000, True), [1], [0])[0] for slip in (0.14, 0.15)]
    assert np.isnan(tell).tolist() == [False, True]  # .36 apart, and less


@pytest.mark.parametrize(
    ("yes", "no", "low", "high"),
    [
        (850, 150, 0.999, 1),  # the share is .85, and the topic is true
        (150, 850, 0.02, 0.1),  # these voters are unknown: a share of no of .85 does not clear
        (8, 0, 0.999, 1),
        (7, 0, 0.9, 0.9),  # a prior alone settles nothing
        (0, 8, 0, 0.001),
        (0, 7, 0.1, 0.1),
        (1, 17, 0, 0.001),  # 18 of 20
        *((9, 89, 0, 0.001), (9, 88, 0.1, 0.1)),  # smoothed, 90 of 100 and 89 of 99
    ],
)
def test_a_work_whose_voters_nobody_knows(yes, no, low, high):
    voters = vote_model.learn({"t": vote_model.votes([yes], [no])})["t"]
    assert voters == Voters(
        pytest.approx(0.8724), 0.06, 0.05, 0.25, 1, False
    )  # the grid's nearest to the priors' modes
    assert low <= vote_model.posterior(voters, [yes], [no])[0] <= high


@pytest.mark.parametrize("error", [0.05, 0.15])
@pytest.mark.parametrize("rho", [0.001, 0.1])
def test_voters_are_learnt_and_their_word_is_calibrated(error, rho):
    yes, no, truth = simulated(3000, 0.2, 1 - error, error, rho)
    voters = vote_model.learn({"t": vote_model.votes(yes, no)})["t"]
    assert (voters.works, voters.learnt) == (3000, True)
    assert (voters.hit, voters.slip, voters.prevalence) == pytest.approx((1 - error, error, 0.2), abs=0.03)
    # on the grids: .5 and 23 or 18 steps of .49 / 25; the last of the first, .06 and 5 steps of .39 / 21; the nearest
    grid = {0.05: (0.5 + 23 * 0.49 / 25, 0.05), 0.15: (0.5 + 18 * 0.49 / 25, 0.06 + 5 * 0.39 / 21)}[error]
    assert (voters.hit, voters.slip, voters.rho) == pytest.approx((*grid, max(rho, 0.002)))
    p = vote_model.posterior(voters, yes, no)
    assert voters.prevalence == pytest.approx((p.sum() + 1) / (3000 + 4), abs=2e-5)  # the mean under Beta(1, 3)
    assert truth[p >= 0.95].mean() >= 0.97 and truth[p <= 0.02].mean() <= 0.015
    assert p.mean() == pytest.approx(truth.mean(), abs=0.02)


def test_rare_topics_are_learnt_together_and_each_is_as_frequent_as_it_is():
    parts = {f"t{n}": simulated(100, share, 0.85, 0.15, 0.05, n) for n, share in enumerate((0.1, 0.5, 0.1, 0.5))}
    voters = vote_model.learn({name: vote_model.votes(yes, no) for name, (yes, no, _) in parts.items()})
    assert {(v.hit, v.slip, v.rho, v.learnt) for v in voters.values()} == {
        (voters["t0"].hit, voters["t0"].slip, voters["t0"].rho, True)
    }
    assert voters["t0"].hit == pytest.approx(0.85, abs=0.06)
    assert voters["t0"].prevalence < 0.2 < 0.35 < voters["t1"].prevalence
    rare = vote_model.learn({"t0": vote_model.votes(*parts["t0"][:2])})["t0"]
    assert (rare.learnt, rare.prevalence) == (False, 0.25)


def test_voters_who_hardly_tell_say_nothing():
    yes, no, _ = simulated(2000, 0.3, 0.55, 0.45, 0.02)
    voters = vote_model.learn({"t": vote_model.votes(yes, no)})["t"]
    assert np.isnan(vote_model.posterior(voters, yes, no)).all()


def test_equal_counts_are_told_once_with_the_works_that_have_them():
    by_work = vote_model.votes([3, 3, 0, 400], [1, 1, 5, 400])
    assert list(zip(by_work.yes, by_work.votes, by_work.works, strict=True)) == [(0, 5, 1), (3, 4, 2), (100, 200, 1)]
    np.testing.assert_array_equal(by_work.works, vote_model.votes([3, 0, 400], [1, 5, 400], [2, 1, 1]).works)
