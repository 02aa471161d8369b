"""Records what a push is about to send: tasks become assigned once they have arrived, even if the push is killed.

A push notes what it is about to send (`note`), sends it (`sent`), assigns what has arrived (`adopt`) and drops its
notes (`close`). After a push that was killed or lost the server's answer, the next push or pull adopts, before it reads
the workspace. The notes lie in a file that only its owner can read; it is deleted with the last note.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import polars as pl

from annotation import task_assignment
from annotation.review_state import ReviewState, gather
from annotation.tools import files
from annotation.tools.tasks_and_answers import TASK_AND_TEXT, Task, base_id, ids, tasks as tasks_of
from saferec_builder.core import os_error_messages
from saferec_builder.core.errors import ReviewError, SafeRecError, StoreError, UsageError, whole_object
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

Sent = TypeVar("Sent")
# `new` is false for a task that was assigned before and now gets a decoy
MORE = {"new": pl.Boolean(), "trait": pl.String(), "spans": pl.List(tables.SPAN), "file": pl.String()}
NOTES = pl.Schema({**tables.ASSIGNMENTS.schema, **MORE})


def _path(ws: Workspace) -> Path:
    return ws.root / ".outbox.json"


def _read(ws: Workspace) -> pl.DataFrame:
    path = _path(ws)
    if not path.exists():
        return pl.DataFrame(schema=NOTES)
    try:
        return pl.DataFrame((whole_object(path.read_bytes()) or {})["tasks"], schema=NOTES, orient="row")
    except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
        raise StoreError(
            f"{path}: damaged: put your copy of it back, or delete it: tasks of a push that broke off may then be sent"
            " to somebody else too"
        ) from None


def _write(ws: Workspace, rows: pl.DataFrame) -> None:
    """Writes the notes; deletes the file if there are none."""
    if rows.is_empty():
        _path(ws).unlink(missing_ok=True)
    else:
        whole_files.write_private(_path(ws), json.dumps({"tasks": rows.rows()}).encode())


def note(
    ws: Workspace, new: pl.DataFrame, assigned: pl.DataFrame, planted: pl.DataFrame, files: Mapping[str, Path]
) -> None:
    """Adds notes. `new`: tasks that nobody has; `assigned`: tasks that somebody has; `planted`: decoys in either;
    `files`: reviewer -> file of their tasks."""
    with_decoy = assigned.join(planted, on=tables.TASK, how="semi", maintain_order="left")
    rows = pl.concat([new.with_columns(new=True), with_decoy.with_columns(new=False)])
    rows = rows.join(planted.select(*tables.TASK, "trait", "spans"), on=tables.TASK, how="left", maintain_order="left")
    path_of = {name: str(path.resolve()) for name, path in files.items()}
    file = pl.Series("file", [path_of.get(name, "") for name in rows["reviewer"]], dtype=pl.String)
    rows = rows.with_columns(file).select(*NOTES)
    others = _read(ws).join(rows, on=TASK_AND_TEXT, how="anti", maintain_order="left")
    _write(ws, pl.concat([others, rows]))


def _pending(ws: Workspace) -> pl.DataFrame:
    """The notes whose task is not yet assigned, or whose decoy is not yet recorded."""
    rows = _read(ws)
    if rows.is_empty():
        return rows
    assigned, planted = (workspace.read(ws, t).select(*t.key, there=True) for t in (tables.ASSIGNMENTS, tables.DECOYS))
    rows = rows.join(assigned, on=tables.ASSIGNMENTS.key, how="left", maintain_order="left")
    rows = rows.join(planted, on=tables.DECOYS.key, how="left", maintain_order="left", suffix="_decoy")
    task = pl.col("new") & pl.col("there").is_null()
    decoy = pl.col("trait").is_not_null() & pl.col("there_decoy").is_null()
    return rows.filter(task | decoy).select(*NOTES)


def adopt(ws: Workspace, seen: Iterable[str] = (), files: Iterable[Path] = ()) -> bool:
    """Records the tasks and decoys that have arrived; returns whether there were any.

    A task has arrived if the ledger says so, if its file contains it, or if a pull has met it: `seen` are ids of tasks
    on a server, `files` the files that came back.
    """
    rows = _pending(ws)
    if rows.is_empty():
        return False
    on_server, cells = {*seen, *_ledger_ids(ws, "there")}, _cells({*files, *map(Path, filter(None, rows["file"]))})
    in_files = {task for task, _ in cells}
    tasks, decoys = [], []
    for task, row in zip(ids(rows), rows.iter_rows(named=True), strict=True):
        if task in on_server or task in in_files:
            tasks += [row] * row["new"]
            # an older file may have the task without the decoy
            decoys += [row] * bool(row["trait"] and (task in on_server or (task, row["trait"]) in cells))
    for table, notes in ((tables.DECOYS, decoys), (tables.ASSIGNMENTS, tasks)):  # decoys first: no answer to one counts
        workspace.append(ws, table, pl.DataFrame(notes, schema=NOTES).select(*table.schema))
    return bool(tasks or decoys)


def sent(ws: Workspace, send: Callable[[], Sent], new: pl.DataFrame) -> Sent:
    """Sends, and assigns what has arrived: everything, or what arrived before an error."""
    try:
        result = send()
    except (SafeRecError, OSError) as fault:
        adopt(ws)
        assigned = workspace.read(ws, tables.ASSIGNMENTS)
        _write(ws, pl.concat([_read(ws).filter("new").join(assigned, on=TASK_AND_TEXT, how="semi"), in_doubt(ws)]))
        reason = os_error_messages.line(fault) if isinstance(fault, OSError) else str(fault)
        if reason is None or new.is_empty() or isinstance(fault, UsageError):
            raise
        count = new.join(assigned, on=TASK_AND_TEXT, how="semi").height
        raise ReviewError(
            f"{reason}: {count:,} of {new.height:,} new tasks arrived and are assigned: the same command sends the rest"
        ) from None
    adopt(ws)
    return result


def adopted(state: ReviewState, seen: Iterable[str] = (), files: Iterable[Path] = ()) -> ReviewState:
    """The review state, including what has arrived from an interrupted push."""
    return gather(state.ws) if adopt(state.ws, seen, files) else state


def in_doubt(ws: Workspace) -> pl.DataFrame:
    """The notes of tasks that a push began to send to a server, and that may or may not have arrived."""
    rows = _pending(ws).filter(new=True, file="")
    if rows.is_empty():
        return rows
    started = _ledger_ids(ws)
    return rows.filter([task in started for task in ids(rows)])


def tasks(ws: Workspace) -> dict[str, Task]:
    """id -> task, for the tasks that a push may have sent and that are not assigned yet."""
    return tasks_of(_pending(ws))


def remaining_budget(ws: Workspace, names: Iterable[str], proposals: pl.DataFrame, budget: int) -> int:
    """The part of a budget of units that an interrupted push to these people has not assigned yet, so that a second run
    assigns only the rest. -1 if all is assigned, since 0 means no budget."""
    rows = _read(ws).filter(pl.col("reviewer").is_in(list(names)), new=True, role="reviewer")
    rows = rows.filter(pl.col("why") != task_assignment.CONTROL)  # controls are not part of the budget
    if not budget or rows.is_empty():
        return budget
    assigned = rows.join(workspace.read(ws, tables.ASSIGNMENTS), on=TASK_AND_TEXT, how="semi")
    costs = assigned.join(task_assignment.costs(proposals), on=tables.SUBJECT, how="left")["cost"].fill_null(1)
    spent = int(costs.sum())
    return budget - spent if spent < budget else -1


def close(ws: Workspace) -> None:
    """Drops the notes after a successful push, except those of requests without an answer, which may still arrive."""
    _write(ws, in_doubt(ws))


def erase(ws: Workspace, revisions: Collection[tuple[str, str]]) -> None:
    """Deletes the notes on these texts (subject, digest)."""
    rows = _read(ws)
    erased = pl.Series([pair in revisions for pair in rows.select("subject", "digest").iter_rows()], dtype=pl.Boolean)
    if erased.any():
        _write(ws, rows.filter(~erased))


def _ledger_ids(ws: Workspace, state: str = "") -> set[str]:
    """The ids of the tasks in the ledgers of servers, in this state or in any."""
    rows = tables.last(workspace.read(ws, tables.SENT), "tool", "place", "task")
    return {base_id(task) for task in (rows.filter(state=state) if state else rows)["task"]}


def _cells(paths: Iterable[Path]) -> set[tuple[str, str]]:
    """(task, trait) of every row in these files; a missing or unreadable file has none."""
    cells: set[tuple[str, str]] = set()
    for path in paths:
        try:
            cells |= {(base_id(line.cell("task")), line.trait) for line in files.lines(path)}
        except ReviewError:
            continue
    return cells
