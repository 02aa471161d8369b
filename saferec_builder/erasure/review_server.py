"""Tasks about people who are erased, in the database of the workspace's own Label Studio and on a team's server."""

import json
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import polars as pl

from annotation import connections, servers
from annotation.page import links
from annotation.review_destinations import Argilla, LabelStudio
from annotation.tools import local_label_studio as managed
from annotation.tools.tasks_and_answers import base_id
from saferec_builder.core.errors import whole_object
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

_IDS = "(SELECT value FROM json_each(?))"  # SQLite takes only so many values one by one


def elsewhere(ws: Workspace, tasks: Collection[str]) -> pl.DataFrame:
    """Rows of SENT: what a team's servers hold of these tasks, as far as is known."""
    rows = tables.last(workspace.read(ws, tables.SENT), "tool", "place", "task").filter(pl.col("state") != "gone")
    rows = rows.filter(pl.col("tool") != links.TOOL)  # the page shows what the workspace holds
    mine = rows.filter(pl.Series([base_id(task) in tasks for task in rows["task"]], dtype=pl.Boolean))
    return mine.filter(~pl.col("place").is_in(_places(_database(ws))))


def erase_there(ws: Workspace, to: LabelStudio | Argilla, tasks: Collection[str]) -> int:
    """Deletes them on a team's server, with their answers."""
    return servers.erase(ws, connections.connect(ws, to), tasks)


def erase_here(ws: Workspace, tasks: Collection[str], *, dry: bool = False) -> int:
    """Deletes them, and all that hangs on them, in the database of the workspace's own server, which is stopped."""
    path = _database(ws)
    if not path.is_file() or not tasks:
        return 0
    if not dry:
        managed.down(connections.home(ws))
        managed.clear_exports(connections.home(ws))
    with closing(sqlite3.connect(path)) as db:
        named = [(n, str((whole_object(data) or {}).get("key"))) for n, data in _tasks(db)]
        doomed = [n for n, key in named if base_id(key) in tasks]
        if not dry and doomed:
            db.execute("PRAGMA secure_delete=ON")
            with db:
                _delete(db, "task", doomed)
        if not dry:  # also where a run before was killed just here
            db.execute("VACUUM")
        return len(doomed)


def _database(ws: Workspace) -> Path:
    return connections.home(ws) / "data" / "label_studio.sqlite3"


def _places(path: Path) -> list[str]:
    """The marks of its projects, as the ledger has them."""
    if not path.is_file():
        return []
    with closing(sqlite3.connect(path)) as db:
        try:
            return [str(text).split("\n")[0] for (text,) in db.execute("SELECT description FROM project")]
        except sqlite3.OperationalError:  # a server that has never started has no tables
            return []


def _tasks(db: sqlite3.Connection) -> list[tuple[int, str]]:
    try:
        return db.execute("SELECT id, data FROM task").fetchall()
    except sqlite3.OperationalError:
        return []


def _delete(db: sqlite3.Connection, table: str, ids: list[int]) -> None:
    """Rows of this table, and before them those of every table that refers to them, whatever its name."""
    if not ids:
        return
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        for reference in db.execute(f'PRAGMA foreign_key_list("{name}")').fetchall():
            if reference[2] == table:
                theirs = db.execute(f'SELECT rowid FROM "{name}" WHERE "{reference[3]}" IN {_IDS}', [json.dumps(ids)])
                _delete(db, name, [n for (n,) in theirs])
    db.execute(f'DELETE FROM "{table}" WHERE rowid IN {_IDS}', [json.dumps(ids)])
