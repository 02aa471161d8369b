"""Simulated reviewers: they read the texts in the files that `review push` wrote, and fill the files in.

They know the generator's truth and err at a stated rate, independently of each other, so that there are disputes to
adjudicate. Their reviews are marked `simulated` when they are pulled, and `--hub` refuses a release with them.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from annotation.tools.tasks_and_answers import base_id, tasks
from saferec_builder import catalog
from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.demo import world
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace

REVIEWERS = ("ann", "bo")
ADJUDICATOR = "cy"
MISSED = 0.06  # chance that a reviewer overlooks a true sensitivity
SEEN = 0.02  # chance that a reviewer accepts a false suggestion
ADDED = 0.004  # chance per conversation that a reviewer adds a false one that was not suggested
RULED_WRONG = 0.01  # chance that the adjudicator rules against the truth

Gold = list[world.Mark]
Row = dict[str, str]


def path_of(folder: Path, name: str) -> Path:
    """The file that a push writes for a reviewer."""
    return folder / "review" / f"{name}.csv"


def answer(ws: Workspace, truth: Mapping[str, Gold], names: Sequence[str]) -> dict[Path, int]:
    """Fills in the files of these people; returns file -> number of rows. `truth` is by conversation."""
    items, _ = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    by_subject = {**truth, **truth_of_plots(items, ws.taxonomy)}
    given = tasks(workspace.read(ws, tables.ASSIGNMENTS))
    by_task = {name: by_subject[task.subject] for name, task in given.items() if task.subject in by_subject}
    paths = {name: path_of(ws.root, name) for name in names}
    return {path: fill(path, by_task, adjudicator=name == ADJUDICATOR) for name, path in paths.items()}


def truth_of_plots(items: pl.DataFrame, taxonomy: Taxonomy) -> dict[str, Gold]:
    """Item id -> the marks that a reviewer of its plot should set, for those of catalog.merge that are the demo's."""
    by_title = {(item.title, item.year): item for item in world.items()}
    return {
        row["item"]: [
            {"trait": slug, "form": "explicit", "turn": 0, "quote": row["plot"]}
            for slug in by_title[row["title"], row["year"]].breaks(taxonomy)
        ]
        for row in items.select("item", "title", "year", "plot").to_dicts()
        if (row["title"], row["year"]) in by_title
    }


def fill(path: Path, truth: Mapping[str, Gold], *, adjudicator: bool = False) -> int:
    """Answers every row of a pushed file and returns how many there are. `truth` is by task. Raises UsageError for a
    task without one."""
    rows: list[Row] = pl.read_csv(path, infer_schema=False).fill_null("").to_dicts()
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    for task, units in tasks.items():
        task = base_id(task)
        if task not in truth:  # another version mined other texts from the same files
            origin = "made by another version of this program, or holds other data, too"
            raise UsageError(f"{path.parent.parent}: {origin}: delete it, or name another with --to")
        rng = random.Random(f"{path.name} {task}")  # independent of other reviewers, the same in every run
        _answer(units, truth[task], rng, adjudicator=adjudicator)
    if rows:
        with replacing(path) as tmp:
            pl.DataFrame(rows).write_csv(tmp, include_bom=True, quote_style="always", line_terminator="\r\n")
    return len(rows)


def _answer(units: list[Row], gold: Gold, rng: random.Random, *, adjudicator: bool) -> None:
    proposed = {row["trait"] for row in units}
    for row in units:
        row["seconds"] = str(rng.randint(4, 40))
        marks = [g for g in gold if g["trait"] == row["trait"]]
        if row["trait"] == "*":
            added = [g for g in gold if g["trait"] not in proposed and rng.random() >= MISSED]
            added += _invented(row, proposed, gold, rng)
            _write(row, " ".join(g["trait"] for g in added) or "none", added)
        elif marks and rng.random() >= (RULED_WRONG if adjudicator else MISSED):
            _write(row, "present", marks)
        elif not marks and row["proposed_quote"] and rng.random() < (RULED_WRONG if adjudicator else SEEN):
            row["verdict"] = "present"  # the suggestion stays, with its quote
        else:
            row["verdict"] = "absent"


def _write(row: Row, verdict: str, marks: Gold) -> None:
    row["verdict"], row["form"] = verdict, marks[0]["form"] if marks else ""
    row["quote"] = " | ".join(g["quote"] for g in marks)
    row["turn"] = " | ".join(str(g["turn"] + 1) for g in marks)


def _invented(row: Row, proposed: set[str], gold: Gold, rng: random.Random) -> Gold:
    absent = [t for t in world.TRAITS if t not in proposed | {g["trait"] for g in gold}]
    if not absent or rng.random() >= ADDED:
        return []
    # an item's name is above its plot, which is turn 1
    first = next(line for line in row["text"].split("\n") if line.startswith("1. ")).split(": ", 1)[1]
    return [{"trait": rng.choice(absent), "form": "implicit", "turn": 0, "quote": first[:60].rsplit(" ", 1)[0]}]
