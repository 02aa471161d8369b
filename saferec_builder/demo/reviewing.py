"""Simulates the review step: simulated people answer the tasks of a push from the demo's truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from annotation.tools.tasks_and_answers import tasks
from saferec_builder import catalog
from saferec_builder.demo import items_without_warnings as flags, people
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

REVIEWERS = ("ann", "bo")
ADJUDICATOR = "cy"


def path_of(folder: Path, name: str) -> Path:
    """The file that a push writes for a reviewer."""
    return folder / "review" / f"{name}.csv"


def answer(ws: Workspace, truth: Mapping[str, people.Gold], names: Sequence[str]) -> dict[Path, int]:
    """Fills in the files of these people; returns file -> number of rows. `truth` is by conversation."""
    items, _ = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    by_subject = {**truth, **flags.truth(items, ws.taxonomy)}
    by_task = {name: by_subject[task.subject] for name, task in tasks(workspace.read(ws, tables.ASSIGNMENTS)).items()}
    paths = {name: path_of(ws.root, name) for name in names}
    return {path: people.fill(path, by_task, adjudicator=name == ADJUDICATOR) for name, path in paths.items()}
