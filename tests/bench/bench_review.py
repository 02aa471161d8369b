"""Pushing 5,000 tasks with predictions to a real Label Studio: ours, with key check and ledger, and the bare SDK.

Both send the same batches to empty projects of one server, batch by batch in turn, so that whatever else runs on the
machine slows both. Rates are of wall time: the server's work is part of it.
"""

import shutil
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from annotation.servers import _ledger
from annotation.tools import (
    label_studio,
    label_studio_client as label_studio_server,
    local_label_studio as managed,
    sync,
    tasks_and_answers as answers,
)
from annotation.tools.task_conversion import Sheet
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.workspace import make
from tests.bench.figures import figure
from tests.servers.fixtures import memory

TASKS = 5_000


def main() -> None:
    if not managed.installed():
        sys.exit("Label Studio is not installed: .venv/bin/python -m tests.servers.install")
    home = memory()
    try:
        make(home / "ws", demo=False)
        facts, _ = managed.up(home / "server", print)
        measure(home, facts)
    finally:
        managed.down(home / "server")
        shutil.rmtree(home, ignore_errors=True)


def measure(home: Path, facts: dict[str, Any]) -> None:
    taxonomy = traits.load()
    made = {sheet.key: label_studio.task_of(sheet, taxonomy) for sheet in many(TASKS)}
    server = Beside(facts["url"], facts["token"], timeout=600)
    config = label_studio.interface(taxonomy)
    server.other = server.make("the SDK alone", "bench", config).id
    project, ws = server.make("ours", "bench ours", config), store.Workspace.open(home / "ws")
    start = time.perf_counter()
    done = sync.push(server, project.id, made, _ledger(ws, server.tool, "bench"))
    ours = time.perf_counter() - start - server.bare
    assert done.added == server.count(project.id) == server.count(server.other) == TASKS
    again = sync.push(server, project.id, made, _ledger(ws, server.tool, "bench"))
    assert (again.added, again.skipped) == (0, TASKS)
    assert store.read(ws, tables.SENT).filter(pl.col("state") == "there").height == TASKS
    figure("review.push_over_sdk", server.bare / ours, "ratio", ">= 0.7")


class Beside(label_studio_server.Server):
    """Sends each batch a second time, by the bare SDK to a project of its own; in turn before and after our own."""

    other, bare, turn = 0, 0.0, 0

    def send(self, project: int, tasks: list[dict[str, Any]]) -> list[str]:
        self.turn += 1
        if self.turn % 2:
            self._bare(tasks)
        ids = super().send(project, tasks)
        if not self.turn % 2:
            self._bare(tasks)
        return ids

    def _bare(self, tasks: list[dict[str, Any]]) -> None:
        start = time.perf_counter()
        self.sdk.projects.import_tasks(id=self.other, request=tasks, return_task_ids=True)
        self.bare += time.perf_counter() - start

    @cached_property
    def sdk(self) -> Any:
        from label_studio_sdk import LabelStudio

        return LabelStudio(base_url=self.url, api_key=self.token, timeout=self.timeout)


def many(count: int) -> list[Sheet]:
    found = []
    for n in range(count):
        text = f"I faint when I see blood, and this is request {n}. Something funny for tonight?"
        span = {"turn": 0, "start": 19, "end": 24, "quote": "blood"}
        unit = {"trait": "gore", "verdict": "present", "form": "explicit", "spans": [span], "said": None}
        unit |= {"own_verdict": None, "own_form": None, "own_spans": None}
        turns = [{"role": "seeker", "text": text}, {"role": "recommender", "text": "How about a comedy?"}] * 3
        task = answers.Task("sensitivity", f"c{n}", "d", "ann", "reviewer")
        found.append(Sheet(f"task-{n}", task, "proposed", "", "Does this person ...?", turns, [unit]))
    return found
