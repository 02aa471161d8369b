"""Who is named for a push, what is assigned and shown after one, and reviewers' files."""

from pathlib import Path

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world, settings
from tests.worlds.csv_rows import edit
from tests.worlds.review_world import CLAIMS
from tests.worlds.reviewing import yes

ANN, BO, DI = (("--reviewer", name) for name in ("ann", "bo", "di"))
TWO = (*ANN, *BO)
ALL = (*TWO, "--all")
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


def readers(ws: store.Workspace, subject: str) -> list[str]:
    return sorted(store.read(ws, tables.ASSIGNMENTS).filter(subject=subject)["reviewer"])


def given(ws: store.Workspace) -> set[tuple[str, str]]:
    return set(store.read(ws, tables.ASSIGNMENTS).select("reviewer", "subject").iter_rows())


def planted(ws: store.Workspace) -> set[tuple[str, str, str]]:
    return set(store.read(ws, tables.DECOYS).select("reviewer", "subject", "trait").iter_rows())


def nothing_is_left(ws: store.Workspace) -> bool:
    return not (ws.root / ".outbox.json").exists()


def in_files(ws: store.Workspace) -> set[tuple[str, str]]:
    return {(who, subject) for who in ("ann", "bo", "di") for subject in review_world.Files(ws).tasks(who)}


def shown_in_files(ws: store.Workspace) -> set[tuple[str, str, str]]:
    """(reviewer, conversation, trait) of suggestions that nobody proposed."""
    tasks = {who: review_world.Files(ws).tasks(who) for who in ("ann", "bo", "di")}
    claimed = {(subject, trait) for subject, trait, *_ in CLAIMS}
    return {(w, s, t) for w, of in tasks.items() for s, traits in of.items() for t in traits if (s, t) not in claimed}
