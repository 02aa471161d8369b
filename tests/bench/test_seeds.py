"""The interval over seeds and users."""

import numpy as np
import pytest

from tests.bench.seeds import over_seeds


def test_seeds_and_users_are_two_levels():
    # seeds alone differ: means 1, 2, 3 of any number of users, half a width of 4.3027 * 1 / sqrt(3) = 2.4841
    cell = over_seeds(np.repeat([[1.0], [2.0], [3.0]], 50, axis=1))
    assert (cell["mean"], cell["low"], cell["n"]) == (2, pytest.approx(2 - 2.4841, abs=1e-4), 50)
    # users alone differ: more seeds add no information on 0, 1, 0, 1, ...: 1.96 * sqrt(.25 * 400 / 399 / 400)
    cell = over_seeds(np.tile([0.0, 1.0], (3, 200)))
    assert (cell["low"], cell["high"]) == (pytest.approx(0.4508, abs=2e-3), pytest.approx(0.5492, abs=2e-3))
    # a metric that does not apply to a user, as recall without safe truth
    assert over_seeds(np.array([[1.0, 2.0, np.nan], [1.0, 4.0, np.nan]]))["n"] == 2
    for values in (np.array([[1.0], [2.0]]), np.full((2, 3), np.nan)):  # one user, or none
        assert over_seeds(values)["low"] is None
