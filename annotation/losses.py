"""Counts what a review server has lost: projects, and answers that were pulled from it earlier."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import astuple

import polars as pl

from annotation.review_state import ReviewState
from annotation.tools import sync
from annotation.tools.tasks_and_answers import TASK_AND_TEXT, base_id, shown
from saferec_builder.storage import tables, workspace


def unanswered(state: ReviewState, tool: str, projects: list[sync.Project]) -> dict[str, int]:
    """reviewer -> tasks without an answer whose project is missing on the server and has no replacement."""
    sent, marks = _sent(state, tool), {project.mark for project in projects}
    missing = sent.filter([sync.mark_of(place) not in marks for place in sent["place"]])
    tasks, answered = shown(state.assignments, state.known), set(state.reviews.select(TASK_AND_TEXT).iter_rows())
    lost = {tasks[base] for base in map(base_id, missing["task"]) if base in tasks}
    return _counts(task.reviewer for task in lost if astuple(task) not in answered)


def answers(state: ReviewState, tool: str, projects: list[sync.Project], seen: Collection[str]) -> dict[str, int]:
    """reviewer -> tasks of these projects without an answer on the server, although one was pulled. `seen`: ids of
    the tasks that have an answer there."""
    sent = _sent(state, tool).filter(pl.col("place").is_in([project.place for project in projects]))
    tasks = shown(state.assignments, state.known)
    pulled = set(state.reviews.filter(tool=tool).select(TASK_AND_TEXT).iter_rows())
    empty = {tasks[base] for base in map(base_id, sent["task"]) if base in tasks and base not in seen}
    return _counts(task.reviewer for task in empty if astuple(task) in pulled)


def _sent(state: ReviewState, tool: str) -> pl.DataFrame:
    """The tasks that the server holds according to the ledger."""
    return tables.last(workspace.read(state.ws, tables.SENT).filter(tool=tool), "place", "task").filter(state="there")


def _counts(reviewers: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(reviewers).items()))
