"""Fixture: a reviewer's file as a push wrote it."""

from pathlib import Path

import pytest

from tests.worlds.review_csv import anns


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    return anns(tmp_path / "ann.csv")
