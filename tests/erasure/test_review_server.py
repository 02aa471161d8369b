"""Tasks about erased people in the database of the workspace's own Label Studio; tests/servers/ has the real one."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from saferec_builder.erasure import review_server
from saferec_builder.storage import tables, workspace as store

# answers refer to tasks, drafts to answers, and notes to neither; a name of a table may need quotes
SCHEMA = """
CREATE TABLE project (id INTEGER PRIMARY KEY, description TEXT);
CREATE TABLE task (id INTEGER PRIMARY KEY, data TEXT);
CREATE TABLE answer (id INTEGER PRIMARY KEY, task_id INTEGER REFERENCES task (id), text TEXT);
CREATE TABLE "draft of" (id INTEGER PRIMARY KEY, answer_id INTEGER REFERENCES answer (id));
CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO project VALUES (1, 'mark-1' || char(10) || 'for people');
INSERT INTO answer VALUES (10, 1, 'quetzalwing'), (11, 2, 'b'), (12, 3, 'c');
INSERT INTO "draft of" VALUES (20, 10), (21, 11);
INSERT INTO note VALUES (1, 'n'), (10, 'm');
"""


@pytest.fixture
def database(workspace: store.Workspace) -> Path:
    """Three tasks: of task-1 (in two sheets' keys) and task-2; one more without a key."""
    path = workspace.root / "label-studio" / "data" / "label_studio.sqlite3"
    (path.parent / "export").mkdir(parents=True)
    (path.parent / "export" / "copy.json").touch()
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        data = [{"key": "task-1-aa"}, {"key": "task-2-aa"}, {"key": "task-1-bb"}, {"other": "task-1"}]
        db.executemany("INSERT INTO task VALUES (?, ?)", [*enumerate(map(json.dumps, data), 1)])
    return path


def rows(path: Path) -> dict[str, list[int]]:
    with closing(sqlite3.connect(path)) as db:
        return {
            name: [n for (n,) in db.execute(f'SELECT id FROM "{name}"')]
            for name in ("task", "answer", "draft of", "note")
        }


def test_their_tasks_go_with_all_that_refers_to_them_and_nothing_else(
    workspace: store.Workspace, database: Path
) -> None:
    before = rows(database)
    assert review_server.erase_own(workspace, {"task-1"}, dry=True) == 2
    assert review_server.erase_own(workspace, set()) == 0 == review_server.erase_own(workspace, {"task-9"}, dry=True)
    assert [review_server.stops_own(workspace, tasks) for tasks in ({"task-9"}, set())] == [True, False]
    assert rows(database) == before and (database.parent / "export" / "copy.json").exists()
    assert review_server.erase_own(workspace, {"task-1"}) == 2
    assert rows(database) == {"task": [2, 4], "answer": [11], "draft of": [21], "note": [1, 10]}
    assert b"quetzalwing" not in database.read_bytes() and not [*(database.parent / "export").iterdir()]
    assert review_server.erase_own(workspace, {"task-1"}) == 0


def test_on_a_teams_server_is_what_was_sent_elsewhere_and_is_not_gone(
    workspace: store.Workspace, database: Path
) -> None:
    sent = [("label_studio", f"mark-{n}", "task-1-aa", "1", "there") for n in (1, 2, 3)]
    sent += [
        ("label_studio", "mark-3", "task-1-aa", "1", "gone"),
        ("label_studio", "mark-2", "task-2-aa", "2", "there"),
    ]
    sent += [("page", "ann", "task-1-cc", "", "there")]  # shows what the workspace holds
    store.append(workspace, tables.SENT, tables.SENT.frame(sent))
    on_team = review_server.on_team_servers(workspace, {"task-1"})
    assert on_team.select("place", "task").rows() == [("mark-2", "task-1-aa")]
    database.write_bytes(b"")  # a server that has never started has no tables, so it holds none of these
    assert review_server.on_team_servers(workspace, {"task-1"}).height == 2
    assert review_server.erase_own(workspace, {"task-1"}) == 0
    database.unlink()
    assert review_server.on_team_servers(workspace, {"task-1"}).height == 2
    assert review_server.erase_own(workspace, {"task-1"}) == 0 and not database.exists()
