"""Erases review tasks about people, in the database of the workspace's own Label Studio and on a team's server."""

import json
import sqlite3
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

import polars as pl

from annotation import connections
from annotation.page import links
from annotation.tools import local_label_studio as managed
from annotation.tools.tasks_and_answers import base_id
from saferec_builder.core.errors import whole_object
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

_IDS = "(SELECT value FROM json_each(?))"  # SQLite limits the number of values in a statement


def on_team_servers(ws: Workspace, tasks: Collection[str]) -> pl.DataFrame:
    """Rows of SENT for those of these tasks that, as far as is known, are on a team's servers."""
    rows = tables.last(workspace.read(ws, tables.SENT), "tool", "place", "task").filter(pl.col("state") != "gone")
    rows = rows.filter(pl.col("tool") != links.TOOL)  # the page keeps nothing: it shows what the workspace holds
    matches = rows.filter(pl.Series([base_id(task) in tasks for task in rows["task"]], dtype=pl.Boolean))
    return matches.filter(~pl.col("place").is_in(_places(_database(ws))))


def stops_own(ws: Workspace, tasks: Collection[str]) -> bool:
    """Whether `erase_own` stops the workspace's own server, if it runs: for any task, as it may be there."""
    return bool(tasks) and _database(ws).is_file()


def erase_own(ws: Workspace, tasks: Collection[str], *, dry: bool = False) -> int:
    """Stops the workspace's own server, and deletes the tasks and all rows that refer to them; returns how many."""
    path = _database(ws)
    if not stops_own(ws, tasks):
        return 0
    if not dry:
        managed.down(connections.server_folder(ws))
        managed.clear_exports(connections.server_folder(ws))
    with closing(sqlite3.connect(path)) as db:
        rows = []
        with suppress(sqlite3.OperationalError):  # a server that has never started has no tables
            rows = db.execute("SELECT id, data FROM task").fetchall()
        erased = [n for n, data in rows if base_id(str((whole_object(data) or {}).get("key"))) in tasks]
        if not dry and erased:
            db.execute("PRAGMA secure_delete=ON")
            with db:
                _delete_rows(db, "task", erased)
        if not dry:  # also if an earlier run was killed at this point
            db.execute("VACUUM")
        return len(erased)


def _database(ws: Workspace) -> Path:
    return connections.server_folder(ws) / "data" / "label_studio.sqlite3"


def _places(path: Path) -> list[str]:
    """The marks of the server's projects, as the table SENT has them in `place`."""
    if not path.is_file():
        return []
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.OperationalError):
        return [str(text).split("\n")[0] for (text,) in db.execute("SELECT description FROM project")]
    return []


def _delete_rows(db: sqlite3.Connection, table: str, ids: list[int]) -> None:
    """Deletes rows of this table, but first those of every table that refers to them, whatever its name."""
    if not ids:
        return
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        for reference in db.execute(f'PRAGMA foreign_key_list("{name}")').fetchall():
            if reference[2] == table:
                linked = db.execute(f'SELECT rowid FROM "{name}" WHERE "{reference[3]}" IN {_IDS}', [json.dumps(ids)])
                _delete_rows(db, name, [n for (n,) in linked])
    db.execute(f'DELETE FROM "{table}" WHERE rowid IN {_IDS}', [json.dumps(ids)])
