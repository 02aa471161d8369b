"""Returns rejected answers to their authors: the next pushes say why, until an answer to the task is accepted.

reads  the table `rejected`, the units of open tasks
gives  these units with `rejected`: the lines that are shown above the task
"""

import polars as pl

from annotation.tools.task_conversion import FORGED, SKIPPED
from annotation.tools.tasks_and_answers import TASK_AND_TEXT, Pulled, Task, ids
from saferec_builder.storage import database, tables, workspace
from saferec_builder.storage.workspace import Workspace


def attach(units: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """`units` with the lines about the last rejected answer to their task; null if there is none."""
    answer = pl.col("place").str.replace(r":\d+$", "")  # without the row number: an answer in a file has several rows
    last = rejected.filter(answer == answer.last().over("task"))
    lines: dict[str, list[str]] = {}
    for task, place, reason, detail in last.select("task", "place", "reason", "detail").iter_rows():
        if reason != SKIPPED:  # a skipped task is not asked again
            lines.setdefault(task, []).append(_line(place, reason, detail))
    values = [lines.get(key) for key in ids(units)]
    return units.with_columns(pl.Series("rejected", values, dtype=pl.List(pl.String)))


def _line(place: str, reason: str, detail: str) -> str:
    cause = "somebody else changed it there" if reason == FORGED else f"{reason}: {detail}"
    return f"Your last answer could not be taken ({place}): {cause}. Please answer once more."


def waiting(units: pl.DataFrame) -> dict[str, int]:
    """reviewer -> open tasks in which an answer was rejected."""
    back = units.filter(pl.col("rejected").is_not_null()).select(TASK_AND_TEXT).unique()
    return dict(back.group_by("reviewer").len().iter_rows())


def keep(ws: Workspace, pulled: Pulled) -> None:
    """Stores the rejections; deletes earlier ones of tasks with an accepted answer or with a new rejection. The table
    `drops` keeps all of them."""
    new = tables.REJECTED.frame(pulled.returned.values())
    answered = {tuple(answer[name] for name in TASK_AND_TEXT) for answer in pulled.answers.values()}
    accepted = {Task(*row).id for row in answered}
    earlier = workspace.read(ws, tables.REJECTED).filter(pl.col("task").is_in([*accepted, *new["task"]]))
    outdated = earlier.join(new, on=earlier.columns, how="anti", nulls_equal=True)
    database.erase(ws.database, [(tables.REJECTED, outdated.select("task"))], [(tables.REJECTED, new)])
