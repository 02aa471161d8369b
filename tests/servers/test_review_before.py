"""A Label Studio filled by an earlier version stays usable: its answers count once, and nothing is asked twice.

The server of tests/data/workspace_handed_out.tar.xz is rebuilt from server.json, with the ids that a new server gives.
"""

import json
import sqlite3

import pytest

from annotation.tools import local_label_studio as managed
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.before import HANDED_OUT, all_rows, are_as_they_were, unpacked
from tests.worlds.pushes import ALL

pytestmark = pytest.mark.servers


def test_a_server_of_before_goes_on(tmp_path, label_studio, cli):
    ws = unpacked(HANDED_OUT, tmp_path)
    tool, options = review_world.LabelStudio.own(ws, label_studio), ("-C", ws.root, "--json")
    projects = json.loads((ws.root / "server.json").read_text("utf-8"))
    task_ids = {project["who"]: there(tool, project) for project in projects}
    with sqlite3.connect(ws.root / "workspace.db") as db:
        for project in projects:
            for task, new in zip(project["tasks"], task_ids[project["who"]], strict=True):
                cursor = db.execute("UPDATE sent SET remote = ? WHERE remote = ?", (f"new {new}", task["remote"]))
                assert cursor.rowcount == 1
        db.execute("UPDATE sent SET remote = REPLACE(remote, 'new ', '')")
    earlier = all_rows(ws)

    def answer(who: str, *subjects: str) -> None:
        (project,) = (project for project in projects if project["who"] == who)
        for task, new in zip(project["tasks"], task_ids[who], strict=True):
            if task["subject"] in subjects:
                tool.post(who, new, {"result": task["result"], "lead_time": 9.0})

    def pull() -> tuple[int, dict[str, int], int | None]:
        result = cli("review", "pull", *options)
        assert result.code == 0, result.err
        return result.json["added"], result.json["dropped"], result.json.get("tasks_of_the_version_before")

    answer("ann", "c1", "c3")
    answer("bo", "c2")
    assert pull() == (5, {}, 3)
    sent = cli("review", "push", *ALL, *options).json
    assert sent["added"] == 0  # no new reviewer
    assert sent["sent"]["ann"] == {"added": 2, "already_there": 0, "taken_back": 2}  # on a page with cards
    assert sent["sent"]["bo"] == {"added": 3, "already_there": 0, "taken_back": 3}
    assert pull()[:2] == (0, {})
    new = tool.rest("GET", "/api/tasks", project=tool.projects("ann")[-1].id, fields="all")["tasks"]
    assert len(new) == 2
    for task in new:
        cards = [
            {"id": "c", "from_name": f"verdict_{n}", "to_name": f"about_{n}", "type": "choices"}
            | {"value": {"choices": [card["choices"][1]["alias"]]}}
            for n, card in enumerate(task["data"]["cards"])
        ]
        tool.post("ann", task["id"], {"result": cards, "lead_time": 9.0})
    assert pull()[:2] == (3, {})
    assert pull()[:2] == (0, {})
    rows = store.read(ws, tables.REVIEWS)
    assert rows.n_unique(["reviewer", "subject", "trait"]) == rows.height == 8
    verdicts = {row[:3]: row[3] for row in rows.select("reviewer", "subject", "trait", "verdict").iter_rows()}
    assert (verdicts["ann", "c1", "gore"], verdicts["bo", "c2", "accidents_disasters"]) == ("present", "absent")
    assert are_as_they_were(ws, earlier) <= {"reviews", "keyed", "task_pages", "sent", "drops", "asked"}


def there(tool: review_world.LabelStudio, made: dict) -> list[int]:
    """Makes the project again on this server, and returns the ids of its tasks."""
    managed.account(tool.home, tool.server, made["who"])
    project = tool.rest("POST", "/api/projects", made["project"])["id"]
    body = [{"data": task["data"], "predictions": task["predictions"]} for task in made["tasks"]]
    reply = tool.rest("POST", f"/api/projects/{project}/import", body, return_task_ids="true")
    return reply["task_ids"]
