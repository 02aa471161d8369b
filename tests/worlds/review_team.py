"""Reviewers' files, and who was assigned what."""

from pathlib import Path

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world, settings
from tests.worlds.csv_rows import edit
from tests.worlds.reviewing import yes

ANN, BO, DI = (("--reviewer", name) for name in ("ann", "bo", "di"))
TWO = (*ANN, *BO)
FILES = ("--tool", "files")
OLD = {"gore": "Blood and wounds.", "accidents_disasters": "Crashes."}


@pytest.fixture
def of_two(workspace: store.Workspace) -> store.Workspace:
    """The workspace of review_world with a taxonomy of two traits."""
    review_world.fill(workspace)
    settings.taxonomy(workspace.root, **OLD)
    return workspace


def rest(path: Path, verdict: str, quote: str = "") -> None:
    """Edits the file as in a spreadsheet: all asked traits are present; c1's last row gets this verdict and quote."""
    last = {"verdict": verdict, "quote": quote}
    edit(path, lambda row: last if row["trait"] == "*" and "blood" in row["text"] else yes(row))


def given(ws: store.Workspace, subject: str) -> list[str]:
    return sorted(store.read(ws, tables.ASSIGNMENTS).filter(subject=subject)["reviewer"])
