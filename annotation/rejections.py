"""Answers that could not be taken go back to their authors: the next push says why, until one is taken.

reads  the table rejected, the units of open tasks
gives  these units with `rejected`: what is said above the task
"""

import polars as pl

from annotation.tools.task_conversion import FORGED, SKIPPED
from annotation.tools.tasks_and_answers import TASK, Pulled, Task, ids
from saferec_builder.storage import database, tables, workspace
from saferec_builder.storage.workspace import Workspace


def attach(units: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """`units` with the lines about the last answer to their task that was rejected; null where there is none."""
    answer = pl.col("place").str.replace(r":\d+$", "")  # the row of a file is one of several
    last = rejected.filter(answer == answer.last().over("task"))
    said: dict[str, list[str]] = {}
    for task, place, reason, detail in last.select("task", "place", "reason", "detail").iter_rows():
        if reason != SKIPPED:  # who would rather not is not asked again
            said.setdefault(task, []).append(_line(place, reason, detail))
    told = [said.get(key) for key in ids(units)]
    return units.with_columns(pl.Series("rejected", told, dtype=pl.List(pl.String)))


def _line(place: str, reason: str, detail: str) -> str:
    why = "somebody else changed it there" if reason == FORGED else f"{reason}: {detail}"
    return f"Your last answer could not be taken ({place}): {why}. Please answer once more."


def waiting(units: pl.DataFrame) -> dict[str, int]:
    """reviewer -> open tasks in which an answer was rejected."""
    back = units.filter(pl.col("rejected").is_not_null()).select(TASK).unique()
    return dict(back.group_by("reviewer").len().iter_rows())


def keep(ws: Workspace, pulled: Pulled) -> None:
    """Writes down what was rejected; an earlier rejection goes once an answer to its task was taken, or was rejected
    for what is wrong with it now. The table drops keeps all of them."""
    new = tables.REJECTED.frame(pulled.returned.values())
    answered = {tuple(answer[name] for name in TASK) for answer in pulled.answers.values()}
    taken = {Task(*row).id for row in answered}
    had = workspace.read(ws, tables.REJECTED).filter(pl.col("task").is_in([*taken, *new["task"]]))
    mended = had.join(new, on=had.columns, how="anti", nulls_equal=True)
    database.erase(ws.database, [(tables.REJECTED, mended.select("task"))], [(tables.REJECTED, new)])
