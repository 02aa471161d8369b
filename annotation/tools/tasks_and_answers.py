"""Types that all review tools share: the id of a task, what a task stands for, and the answers that came back."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

import polars as pl

from saferec_builder.core.errors import ReviewError
from saferec_builder.storage.tables import digest, keyed_digest

SAID_AGAIN = "said again further down"
UNKNOWN = "\ufffd"  # stands for U+0000 in what people wrote: PostgreSQL keeps no such text
VERDICTS = ("present", "absent", "unsure")


class Turn(TypedDict):
    """What one person says in a text; of an item, its plot."""

    role: str
    text: str


Turns = list[Turn]
# (kind, subject, reviewer, role) -> trait -> the taxonomies of the answers
Answered = dict[tuple[str, str, str, str], dict[str, set[str]]]


def task_id(kind: str, subject: str, text: str, reviewer: str, role: str) -> str:
    """Begins with letters, so that no spreadsheet takes it for the number 1.2E+05."""
    return f"task-{digest(kind, subject, text, reviewer, role)}"


def asked_id(task: str, asked: list[str]) -> str:
    """The key of a task on a server as the version before made it: anybody can who knows the text."""
    return f"{task}-{digest(*sorted(asked))}"


def keyed_id(secret: bytes, tool: str, task: str, asked: Iterable[str]) -> str:
    """A task is also about what is asked: the taxonomy as it stands, and the traits that have a card. Asked about
    others later, people get another task: the former never showed these. Nobody without the workspace's secret makes
    this key."""
    return f"{task}-{keyed_digest(secret, 'task', tool, task, *sorted(asked))}"


SHEET = "-csv"  # ends the key of a task in a file


def sheet_id(secret: bytes, task: str, asked: Iterable[str]) -> str:
    """The key of a task in a file; `asked` are the taxonomy and the traits of its rows."""
    return keyed_id(secret, "files", task, asked) + SHEET


def mark(trait: str, span: Mapping[str, object]) -> str:
    """Names a span without its words, as the table keyed holds it."""
    return f"{trait} {span.get('turn')} {span.get('start')} {span.get('end')}"


def base_id(key: str) -> str:
    """The `task_id` in it."""
    return "-".join(key.split("-")[:2])


def unit_id(task: str, trait: str) -> str:
    return f"unit-{digest(task, trait)}"


def warning(severe: Iterable[str], hard: bool) -> str:
    """Of a task with these traits (names), or that is `hard` for what it does not show; empty: of none."""
    named = "; ".join(severe)
    return f"May be hard to read{f' ({named})' * bool(named)}. You may leave it." if named or hard else ""


class Refused(ReviewError):
    """A row that cannot be taken as it stands: a short countable reason, and what was found and expected."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Task:
    """What a task id stands for."""

    kind: str
    subject: str
    digest: str
    reviewer: str
    role: str

    @property
    def id(self) -> str:
        return task_id(self.kind, self.subject, self.digest, self.reviewer, self.role)


TASK = tuple(each.name for each in fields(Task))  # the columns that name a task as it was shown


def per_task(units: pl.DataFrame) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    """Each task of these units (routing.UNITS), in their order, with its rows."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in units.iter_rows(named=True):
        found.setdefault((row["kind"], row["subject"], row["reviewer"], row["role"]), []).append(row)
    return ((Task(*(rows[0][name] for name in TASK)), rows) for rows in found.values())


def ids(rows: pl.DataFrame) -> list[str]:
    """The `task_id` of each row."""
    return [task_id(*row) for row in rows.select(TASK).iter_rows()]


def tasks(rows: pl.DataFrame) -> dict[str, Task]:
    """`task_id` -> the task, of all that are named in these rows."""
    found = (Task(*row) for row in rows.select(TASK).unique(maintain_order=True).iter_rows())
    return {task.id: task for task in found}


def shown(assignments: pl.DataFrame, texts: pl.DataFrame) -> dict[str, Task]:
    """`task_id` -> the task, of every text that a person may have seen: an assignment is for all revisions of one."""
    subject = ["kind", "subject"]
    return tasks(assignments.drop("digest").join(texts.select(*subject, "digest"), on=subject))


Dropped = tuple[str, str, str, str, str]


@dataclass
class Pulled:
    """The last answer per unit and person (columns of reviews but `review`), and what became of the other rows."""

    answers: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[str, ...], str] = field(default_factory=dict)
    drops: list[Dropped] = field(default_factory=list)
    returned: dict[Dropped, Dropped] = field(default_factory=dict)  # of these drops -> the row of REJECTED
    tool: str = "files"
    empty: list[Task | None] = field(default_factory=list)  # of rows without an answer: their task, where it is ours
    unkeyed: int = 0  # answers to tasks that the version before handed out: taken by their assignment
    once: set[tuple[str, ...]] = field(default_factory=set)  # of `answers`: to such tasks, in files
    missing: dict[str, int] = field(default_factory=dict)  # reviewer -> unanswered tasks of projects that are gone
    vanished: dict[str, int] = field(default_factory=dict)  # reviewer -> tasks whose pulled answers are gone there
    edited: list[str] = field(default_factory=list)  # reviewers whose project has another page than was sent
    no_sheets: list[str] = field(default_factory=list)  # files of a folder that were passed over
    repeated: int = 0  # answers that a later row gives again, word for word

    def add(self, place: str, answer: dict[str, Any]) -> None:
        key = tuple(answer[c] for c in ("kind", "subject", "trait", "reviewer", "role"))
        before = self.answers.pop(key, None)
        if before == answer:
            self.repeated += 1
        elif before:
            self.drop(self.places[key], SAID_AGAIN, f"{answer['trait']}: {place} counts")
        self.answers[key], self.places[key] = answer, place

    def drop(self, place: str, reason: str, detail: str, author: Task | None = None, link: str = "") -> None:
        """`author`: the task and its reader, whose answer it is and who is told at the next push."""
        row = ("review", self.tool, place, reason, detail)
        if author:
            row = (*row[:4], f"{detail} ({' '.join(filter(None, [author.reviewer, link]))})")
            self.returned[row] = (author.id, author.reviewer, link or place, reason, detail)
        self.drops.append(row)

    def mend(self, task: Task) -> None:
        """Its author has answered it since, and nothing of that was dropped: what was before is no rejection."""
        mended = {drop for drop, row in self.returned.items() if row[0] == task.id}
        self.returned = {drop: row for drop, row in self.returned.items() if drop not in mended}
        self.drops = [drop for drop in self.drops if drop not in mended]
