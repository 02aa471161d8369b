"""A reviewer's file as it was pushed."""

from pathlib import Path

import polars as pl
import pytest

from annotation.routing import UNITS
from annotation.tools.files import push
from annotation.tools.guidelines import guideline
from saferec_builder.storage import whole_files
from tests.worlds.review_csv import SPAN, TAXONOMY, unit, world


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    """ann's file: needles proposed, gore proposed, and the rest."""
    rows = [
        unit("needles", verdict="present", form="explicit", spans=[SPAN]),
        unit("gore", verdict="unsure"),
        unit("*"),
    ]
    _, text = world()
    path = tmp_path / "ann.csv"
    frame = pl.DataFrame(rows, schema=UNITS)
    assert push(frame, text, TAXONOMY, guideline(), whole_files.replacing, {"ann": path}) == {"ann": 3}
    return path
