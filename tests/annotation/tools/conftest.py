"""A reviewer's file as it was pushed."""

from pathlib import Path

import pytest

from tests.worlds.review_csv import anns


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    return anns(tmp_path / "ann.csv")
