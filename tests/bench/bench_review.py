"""Pushing 5,000 tasks with predictions to a real Label Studio: ours, with key check and ledger, and the bare SDK.

Both send the same payload in the same batches to empty projects of one server, one after the other, twice in turn; the
SDK runs in the server's own environment. Rates are of wall time: the server's work is part of it.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

from annotation import answers, label_studio, managed, sheets, sync
from saferec_builder import store, tables, traits
from saferec_builder.cli.servers import _ledger
from saferec_builder.cli.workspace import make
from tests.bench.figures import figure
from tests.servers.fixtures import memory

TASKS = 5_000
SDK = """
import json, sys, time
from label_studio_sdk import LabelStudio
url, token, project, path, size = sys.argv[1:]
tasks = json.load(open(path))
client = LabelStudio(base_url=url, api_key=token, timeout=600)
start = time.perf_counter()
for n in range(0, len(tasks), int(size)):
    client.projects.import_tasks(id=int(project), request=tasks[n:n + int(size)], return_task_ids=True)
print(time.perf_counter() - start)
"""


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
    made = {sheet.key: label_studio.task_of(sheet, "bench", taxonomy) for sheet in many(TASKS)}
    payload = home / "payload.json"
    payload.write_text(json.dumps(list(made.values())))
    server = label_studio.Server(facts["url"], facts["token"], timeout=600)
    python = managed.install(print) / "bin" / "python"
    ours = bare = 0.0
    for turn in range(2):
        project = server.make(f"sdk {turn}", "bench", label_studio.interface(taxonomy))
        words = [python, "-c", SDK, facts["url"], facts["token"], project.id, payload, server.chunk]
        bare += float(subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout)
        project = server.make(f"ours {turn}", f"bench {turn}", label_studio.interface(taxonomy))
        ws = store.open_workspace(home / "ws")
        start = time.perf_counter()
        done = sync.push(server, project.id, made, _ledger(ws, server.tool, f"bench {turn}"))
        ours += time.perf_counter() - start
        assert done.added == server.count(project.id) == TASKS
        again = sync.push(server, project.id, made, _ledger(ws, server.tool, f"bench {turn}"))
        assert (again.added, again.skipped) == (0, TASKS)
        assert store.read(ws, tables.SENT).filter(pl.col("state") == "there").height == TASKS * (turn + 1)
    figure("review.push_over_sdk", bare / ours, "ratio", ">= 0.7")
    figure("review.push_rate", 2 * TASKS / ours, "tasks/s", "reported")


def many(count: int) -> list[sheets.Sheet]:
    found = []
    for n in range(count):
        text = f"I faint when I see blood, and this is request {n}. Something funny for tonight?"
        span = {"turn": 0, "start": 19, "end": 24, "quote": "blood"}
        unit = {"trait": "gore", "verdict": "present", "form": "explicit", "spans": [span], "said": None}
        unit |= {"own_verdict": None, "own_form": None, "own_spans": None}
        turns = [{"role": "seeker", "text": text}, {"role": "recommender", "text": "How about a comedy?"}] * 3
        task = answers.Task("sensitivity", f"c{n}", "d", "ann", "reviewer")
        found.append(sheets.Sheet(f"task-{n}", task, "proposed", "", "Does this person ...?", turns, [unit]))
    return found
