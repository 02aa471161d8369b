"""Fixtures with the small release and its rows, for tests of answers to it."""

import pytest

from tests.worlds import small_release
from training import data


@pytest.fixture
def release(tmp_path):
    return data.open_release(small_release.write(tmp_path / "small"))


@pytest.fixture
def rows(release):
    return data.rows(release.folder, "grpo", "test")


@pytest.fixture
def train(release):
    return data.rows(release.folder, "grpo", "train")
