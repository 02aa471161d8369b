"""Types that all review tools share: tasks, their ids and keys, and the answers that were pulled."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

import polars as pl

from saferec_builder.core.errors import ReviewError
from saferec_builder.storage.tables import ANSWER, SUBJECT, digest, keyed_digest

SAID_AGAIN = "said again further down"
VERDICTS = ("present", "absent", "unsure")


class Turn(TypedDict):
    """One turn of a conversation; for an item, its plot."""

    role: str
    text: str


Turns = list[Turn]
# (kind, subject, reviewer, role) -> trait -> the taxonomies of the answers
Answered = dict[tuple[str, str, str, str], dict[str, set[str]]]


def keyed_id(secret: bytes, tool: str, task: str, asked: Iterable[str]) -> str:
    """The key of a task for a tool. It depends on what is asked (the taxonomy, and the traits that have a card): if
    other traits are asked later, people get a new task, since the old one never showed these. Nobody without the
    workspace's secret can make it."""
    return f"{task}-{keyed_digest(secret, 'task', tool, task, *sorted(asked))}"


SHEET = "-csv"  # the end of a task's key in a file


def sheet_id(secret: bytes, guideline: str, task: str, asked: Iterable[str]) -> str:
    """The key of a task in a file; `asked` holds the taxonomy and the traits of its rows."""
    return keyed_id(secret, "files", task, [guideline, *asked]) + SHEET


def mark(trait: str, span: Mapping[str, object]) -> str:
    """Names a span without its words, as stored in the table `keyed`."""
    return f"{trait} {span.get('turn')} {span.get('start')} {span.get('end')}"


def base_id(key: str) -> str:
    """The `Task.id` that the key begins with."""
    return "-".join(key.split("-")[:2])


def unit_id(task: str, trait: str) -> str:
    return f"unit-{digest(task, trait)}"


class Refused(ReviewError):
    """A row that cannot be accepted: a short reason that can be counted, and what was found and expected."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Task:
    """What a task id identifies: one text for one reviewer in one role."""

    kind: str
    subject: str
    digest: str
    reviewer: str
    role: str

    @property
    def id(self) -> str:
        """Begins with letters, so that no spreadsheet reads it as a number such as 1.2E+05."""
        return f"task-{digest(*vars(self).values())}"


TASK_AND_TEXT = tuple(column.name for column in fields(Task))  # the columns that identify a task and the text it showed


def rows_by_task(units: pl.DataFrame) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    """Each task of these units (routing.UNITS), in their order, with its rows."""
    rows_by_task: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in units.iter_rows(named=True):
        rows_by_task.setdefault((row["kind"], row["subject"], row["reviewer"], row["role"]), []).append(row)
    return ((Task(*(rows[0][name] for name in TASK_AND_TEXT)), rows) for rows in rows_by_task.values())


def ids(rows: pl.DataFrame) -> list[str]:
    """The `Task.id` of each row."""
    return [Task(*row).id for row in rows.select(TASK_AND_TEXT).iter_rows()]


def tasks(rows: pl.DataFrame) -> dict[str, Task]:
    """`Task.id` -> the task, for all tasks in these rows."""
    unique_tasks = (Task(*row) for row in rows.select(TASK_AND_TEXT).unique(maintain_order=True).iter_rows())
    return {task.id: task for task in unique_tasks}


def shown(assignments: pl.DataFrame, texts: pl.DataFrame) -> dict[str, Task]:
    """`Task.id` -> the task, for every text that a person may have seen: an assignment covers all its revisions."""
    return tasks(assignments.drop("digest").join(texts.select(*SUBJECT, "digest"), on=SUBJECT))


Dropped = tuple[str, str, str, str, str]


@dataclass
class Pulled:
    """The last answer per unit and person (columns of reviews except `review`), and what happened to the other rows."""

    answers: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[str, ...], str] = field(default_factory=dict)
    drops: list[Dropped] = field(default_factory=list)
    returned: dict[Dropped, Dropped] = field(default_factory=dict)  # a row of `drops` -> its row of REJECTED
    tool: str = "files"
    empty: list[Task | None] = field(default_factory=list)  # per row without an answer: its task, or None if not ours
    unkeyed: int = 0  # tasks of the previous version whose answers were accepted without a key
    once: set[tuple[str, ...]] = field(default_factory=set)  # keys of `answers` to such tasks in files
    missing: dict[str, int] = field(default_factory=dict)  # reviewer -> unanswered tasks whose project is missing
    vanished: dict[str, int] = field(default_factory=dict)  # reviewer -> tasks whose pulled answers the server has lost
    edited: list[str] = field(default_factory=list)  # reviewers whose project has another page than we sent
    no_sheets: list[str] = field(default_factory=list)  # skipped files of a folder, of any format
    unread: set[str] = field(default_factory=set)  # columns of files that no sheet has, and that say something
    repeated: int = 0  # answers that a later row repeats word for word
    rows: int = 0  # of files

    def add(self, place: str, answer: dict[str, Any]) -> None:
        if note := answer["note"]:  # as the database stores it, or the next pull would take it for a new answer
            answer = answer | {"note": note.replace("\0", "\ufffd")}
        key = tuple(answer[c] for c in ANSWER)
        previous = self.answers.pop(key, None)
        if previous == answer:
            self.repeated += 1
        elif previous:
            self.drop(self.places[key], SAID_AGAIN, f"{answer['trait']}: {place} counts")
        self.answers[key], self.places[key] = answer, place

    def drop(self, place: str, reason: str, detail: str, author: Task | None = None, link: str = "") -> None:
        """`author`: the task of the answer; its reviewer is notified at the next push."""
        row = ("review", self.tool, place, reason, detail)
        if author:
            row = (*row[:4], f"{detail} ({' '.join(filter(None, [author.reviewer, link]))})")
            self.returned[row] = (author.id, author.reviewer, link or place, reason, detail)
        self.drops.append(row)

    def mend(self, task: Task) -> None:
        """Removes the task's earlier drops: its author has answered it since, and nothing of that was dropped."""
        outdated = {drop for drop, row in self.returned.items() if row[0] == task.id}
        self.returned = {drop: row for drop, row in self.returned.items() if drop not in outdated}
        self.drops = [drop for drop in self.drops if drop not in outdated]
