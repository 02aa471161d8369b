"""Keeps a record of what a push is about to send: it counts as assigned once it has arrived, whoever dies between.

note    before anything is sent: the new tasks, and what is planted in tasks
sent    sends, and adopts
adopt   what has arrived since becomes assignments and decoys: at the end of a push, and of one that was killed or lost
        the server's answer, before the next push or pull looks at the workspace
close   after a push that went well: nothing is left to adopt but what was never heard of again

The notes lie in a file that only its owner can read, and that goes with the last of them.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import polars as pl

from annotation import task_assignment as dealing
from annotation.review_state import Desk, gather
from annotation.tools import files
from annotation.tools.tasks_and_answers import TASK, Task, base_id, ids, tasks as tasks_of
from saferec_builder.core import os_error_messages as refusals
from saferec_builder.core.errors import ReviewError, SafeRecError, StoreError, UsageError, whole_object
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

Sent = TypeVar("Sent")
# not new: assigned before, and now a decoy is planted in it
MORE = {"new": pl.Boolean(), "trait": pl.String(), "spans": pl.List(tables.SPAN), "file": pl.String()}
NOTES = pl.Schema({**tables.ASSIGNMENTS.schema, **MORE})


def _place(ws: Workspace) -> Path:
    return ws.root / ".outbox.json"


def _read(ws: Workspace) -> pl.DataFrame:
    path = _place(ws)
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
    """An empty one leaves no file."""
    if rows.is_empty():
        _place(ws).unlink(missing_ok=True)
    else:
        whole_files.write_private(_place(ws), json.dumps({"tasks": rows.rows()}).encode())


def note(
    ws: Workspace, new: pl.DataFrame, given: pl.DataFrame, planted: pl.DataFrame, files: Mapping[str, Path]
) -> None:
    """`new` are tasks that nobody has yet, `given` those that somebody has, `planted` decoys in either; `files`: whose
    tasks go into which."""
    names = ["kind", "subject", "reviewer"]
    before = given.join(planted, on=names, how="semi", maintain_order="left")
    rows = pl.concat([new.with_columns(new=True), before.with_columns(new=False)])
    rows = rows.join(planted.select(*names, "trait", "spans"), on=names, how="left", maintain_order="left")
    file = {name: str(path.resolve()) for name, path in files.items()}
    place = pl.Series("file", [file.get(name, "") for name in rows["reviewer"]], dtype=pl.String)
    rows = rows.with_columns(place).select(*NOTES)
    kept = _read(ws).join(rows, on=TASK, how="anti", maintain_order="left")
    _write(ws, pl.concat([kept, rows]))


def _waiting(ws: Workspace) -> pl.DataFrame:
    """The notes of what is no assignment, or no decoy, so far."""
    rows = _read(ws)
    if rows.is_empty():
        return rows
    given, planted = (workspace.read(ws, t).select(*t.key, there=True) for t in (tables.ASSIGNMENTS, tables.DECOYS))
    rows = rows.join(given, on=tables.ASSIGNMENTS.key, how="left", maintain_order="left")
    rows = rows.join(planted, on=tables.DECOYS.key, how="left", maintain_order="left", suffix="_decoy")
    task = pl.col("new") & pl.col("there").is_null()
    decoy = pl.col("trait").is_not_null() & pl.col("there_decoy").is_null()
    return rows.filter(task | decoy).select(*NOTES)


def adopt(ws: Workspace, seen: Iterable[str] = (), files: Iterable[Path] = ()) -> bool:
    """Writes down what has arrived; says whether there was any.

    It has where the ledger says so, where the file that it went to holds it, or where a pull has met it: `seen` are
    ids of tasks on a server, `files` what came back.
    """
    rows = _waiting(ws)
    if rows.is_empty():
        return False
    there, cells = {*seen, *_sent(ws, "there")}, _cells({*files, *map(Path, filter(None, rows["file"]))})
    held = {task for task, _ in cells}
    tasks, decoys = [], []
    for task, row in zip(ids(rows), rows.iter_rows(named=True), strict=True):
        if task in there or task in held:
            tasks += [row] * row["new"]
            # a file may be an older one, in which the task stands without it
            decoys += [row] * bool(row["trait"] and (task in there or (task, row["trait"]) in cells))
    for table, found in ((tables.DECOYS, decoys), (tables.ASSIGNMENTS, tasks)):  # no answer to a decoy is taken for one
        workspace.append(ws, table, pl.DataFrame(found, schema=NOTES).select(*table.schema))
    return bool(tasks or decoys)


def sent(ws: Workspace, send: Callable[[], Sent], new: pl.DataFrame) -> Sent:
    """Sends, and assigns what has arrived: all of it, or what came through before somebody refused or died."""
    try:
        what = send()
    except (SafeRecError, OSError) as fault:
        adopt(ws)
        given = workspace.read(ws, tables.ASSIGNMENTS)
        _write(ws, pl.concat([_read(ws).filter("new").join(given, on=TASK, how="semi"), in_doubt(ws)]))
        why = refusals.line(fault) if isinstance(fault, OSError) else str(fault)
        if why is None or new.is_empty() or isinstance(fault, UsageError):
            raise
        came = new.join(given, on=TASK, how="semi").height
        raise ReviewError(
            f"{why}: {came:,} of {new.height:,} new tasks arrived and are assigned: the same command sends the rest"
        ) from None
    adopt(ws)
    return what


def adopted(desk: Desk, seen: Iterable[str] = (), files: Iterable[Path] = ()) -> Desk:
    """The desk with what has arrived of a push that broke off."""
    return gather(desk.ws) if adopt(desk.ws, seen, files) else desk


def in_doubt(ws: Workspace) -> pl.DataFrame:
    """What a push began to send to a server, and nobody knows whether it has arrived."""
    rows = _waiting(ws).filter(new=True, file="")
    if rows.is_empty():
        return rows
    begun = _sent(ws)
    return rows.filter([task in begun for task in ids(rows)])


def tasks(ws: Workspace) -> dict[str, Task]:
    """id -> the tasks that a push may have sent, and that are no assignments so far."""
    return tasks_of(_waiting(ws))


def people(ws: Workspace) -> set[str]:
    """Who may have tasks that are no assignments so far."""
    return set(_waiting(ws)["reviewer"])


def left(ws: Workspace, names: Iterable[str], proposals: pl.DataFrame, budget: int) -> int:
    """Of a budget of units, what a push to these people that broke off has not assigned: run again it assigns the rest,
    and no more. Below nothing where all was assigned, as 0 stands for no budget."""
    rows = _read(ws).filter(pl.col("reviewer").is_in(list(names)), new=True, role="reviewer")
    rows = rows.filter(pl.col("why") != dealing.CONTROL)  # these come on top
    if not budget or rows.is_empty():
        return budget
    given = rows.join(workspace.read(ws, tables.ASSIGNMENTS), on=TASK, how="semi")
    costs = given.join(dealing.costs(proposals), on=["kind", "subject"], how="left")["cost"].fill_null(1)
    spent = int(costs.sum())
    return budget - spent if spent < budget else -1


def close(ws: Workspace) -> None:
    """After a push that went well. A request without an answer may still arrive, however late: its notes stay."""
    _write(ws, in_doubt(ws))


def erase(ws: Workspace, revisions: Collection[tuple[str, str]]) -> None:
    """Its notes on these texts (subject, digest) go."""
    rows = _read(ws)
    theirs = pl.Series([pair in revisions for pair in rows.select("subject", "digest").iter_rows()], dtype=pl.Boolean)
    if theirs.any():
        _write(ws, rows.filter(~theirs))


def _sent(ws: Workspace, state: str = "") -> set[str]:
    """Ids of the tasks that the ledgers of servers name, in this state or in any."""
    rows = tables.last(workspace.read(ws, tables.SENT), "tool", "place", "task")
    return {base_id(task) for task in (rows.filter(state=state) if state else rows)["task"]}


def _cells(paths: Iterable[Path]) -> set[tuple[str, str]]:
    """(task, trait) of every row in these files; one that is gone, or cannot be read, holds none."""
    found: set[tuple[str, str]] = set()
    for path in paths:
        try:
            found |= {(base_id(line.cell("task")), line.trait) for line in files.lines(path)}
        except ReviewError:
            continue
    return found
