"""One conversation as a CSV for its reviewer: written, changed and read back."""

from pathlib import Path

import polars as pl

from annotation.routing import UNITS, texts
from annotation.tools import file_answers, files
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import sheets
from annotation.tools.tasks_and_answers import Pulled, shown as tasks_of
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables
from tests.worlds.csv_rows import rows_of, save

TAXONOMY = traits.load()

TEXT = [
    ("seeker", "I can’t watch  needles — my hands go cold 😱. =SUM(A1)"),
    ("recommender", "OK, no needles then | try Alien (1979)"),
    ("seeker", 'needles again | he said "never"'),
]

SPAN = {"turn": 0, "start": 15, "end": 22, "quote": "needles"}


def world() -> tuple[pl.DataFrame, pl.DataFrame]:
    """One conversation, assigned to ann and to the adjudicator cy."""
    turns = [{"role": role, "text": text, "items": []} for role, text in TEXT]
    row = {"conversation": "c1", "digest": "d1", "turns": turns}
    people = [("ann", "reviewer", "proposed"), ("cy", "adjudicator", "disagreement")]
    assignments = [("sensitivity", "c1", name, role, "d1", reason, "push-1") for name, role, reason in people]
    return tables.ASSIGNMENTS.frame(assignments), texts(tables.CONVERSATIONS.frame([row]))


def unit(trait: str, **more) -> dict:
    fixed = {"kind": "sensitivity", "subject": "c1", "reviewer": "ann", "role": "reviewer", "digest": "d1"}
    return dict.fromkeys(UNITS) | fixed | {"why": "proposed", "trait": trait} | more


def write(path: Path, *units: dict, text: pl.DataFrame | None = None, shown: str = "g", lists=TAXONOMY) -> Path:
    """The file of these units' reviewer; `shown` is its guideline, `lists` its taxonomy."""
    frame = pl.DataFrame(list(units), schema=UNITS)
    made = sheets(frame, world()[1] if text is None else text, lists, {}, lambda task, _: task)
    files.push(made, lists, shown, {units[0]["reviewer"]: path})
    return path


def pull(
    paths: list[Path], assigned: pl.DataFrame, text: pl.DataFrame, named: list[Path] | None = None, **more
) -> Pulled:
    """The answers in these files, of any task that is assigned; all are `named` unless said otherwise."""
    tasks = tasks_of(assigned, text)
    fixed = {"tasks": tasks, "texts": text, "taxonomy": TAXONOMY, "old": tasks}
    records = file_answers.Records(**fixed | {"before": {}, "keyed": {}, "marked": {}, "former": {}} | more)
    return file_answers.pull(paths, records, paths if named is None else named)


def back(*paths: Path):
    return pull(list(paths), *world())


def anns(path: Path) -> Path:
    """ann's file: needles proposed, gore proposed, and the rest."""
    needles = unit("needles", verdict="present", form="explicit", spans=[SPAN])
    return write(path, needles, unit("gore", verdict="unsure", spans=[]), unit("*"), shown=guideline())


def fill(path: Path, *cells: dict[str, str], **how) -> Path:
    """Writes the given cells into the file's rows, in order; further rows are added with the task's id."""
    rows = rows_of(path)
    rows += [{"task": rows[0]["task"]} for _ in cells[len(rows) :]]
    return save(path, [row | more for row, more in zip(rows, cells, strict=False)], **how)


def answers(*paths: Path) -> dict[str, tuple]:
    return {a["trait"]: (a["verdict"], [s["quote"] for s in a["spans"]]) for a in back(*paths).answers.values()}


def reasons(*paths: Path) -> list[str]:
    return [reason for _, _, _, reason, _ in back(*paths).drops]
