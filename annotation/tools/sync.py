"""Sends each task to a review server exactly once: looks up what the server holds before it sends a task again.

The ledger records what was sent; the server's count of tasks tells whether the ledger is right. If they differ, or a
request ended without an answer, all keys are read from the server. There must be one writer at a time: the caller holds
a lock.
"""

import secrets
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from annotation.tools.server_errors import Broken, Unsure
from saferec_builder.core.errors import ReviewError

ATTEMPTS = 4
AT_ONCE = 25  # tasks to delete before the server is asked again which ones of their page are answered
Note = Callable[[list[tuple[str, str, str]]], None]  # (task, remote, state) rows for the ledger


Payload = dict[str, Any]  # a task in its tool's format; opaque here
# (task, when it was touched, by the server's clock); '' stands for any task of a project
Touched = frozenset[tuple[str, datetime]]


class Remote(Protocol):
    """The calls of a server that are needed to send each task once."""

    chunk: int
    page_size: int  # tasks per page of `keys`

    def count(self, project: str) -> int: ...
    def send(self, project: str, tasks: list[Payload]) -> list[str]: ...
    def keys(self, project: str, page: int | None = None) -> list[tuple[str, str, bool]]: ...
    def delete(self, task: str) -> None: ...


@dataclass
class Ledger:
    """What one project holds as far as is known; `note` stores every change."""

    there: dict[str, str] = field(default_factory=dict)  # task -> its id on the server
    sending: set[str] = field(default_factory=set)  # tasks in a request whose end is unknown
    note: Note = lambda rows: None
    made: Callable[[], Container[str]] | None = None  # returns every key ever made here; None: all keys are ours

    @staticmethod
    def of(
        rows: Iterable[tuple[str, str, str]], note: Note, made: Callable[[], Container[str]] | None = None
    ) -> "Ledger":
        ledger = Ledger(note=note, made=made)
        for task, remote, state in rows:
            ledger._apply(task, remote, state)
        return ledger

    def write(self, rows: list[tuple[str, str, str]]) -> None:
        self.note(rows)
        for row in rows:
            self._apply(*row)

    def _apply(self, task: str, remote: str, state: str) -> None:
        self.sending.discard(task)
        if state == "there":
            self.there[task] = remote
        elif state == "gone":
            self.there.pop(task, None)
        else:
            self.sending.add(task)


@dataclass
class Pushed:
    """What a push did with the tasks of a reviewer."""

    added: int = 0
    already_there: int = 0  # in words that are not those of the button Skip
    found: int = 0  # on the server, but not in the ledger
    edited: int = 0  # projects that show another page than was sent; a new one is created in their place
    gone: int = 0  # in the ledger, but not on the server any more
    twins: int = 0  # unanswered second copies that were deleted
    taken_back: int = 0


def push(
    server: Remote,
    project: str,
    tasks: dict[str, Payload],
    ledger: Ledger,
    quiet: float = 20.0,
    *,
    done: Pushed | None = None,
) -> Pushed:
    """Sends the tasks that the project does not hold yet, and adds to the counts in `done`. `quiet`: seconds without
    change after which a lost request counts as failed."""
    done = Pushed() if done is None else done
    settled(server, project, ledger, done)
    new = [key for key in tasks if key not in ledger.there]
    done.already_there += len(tasks) - len(new)
    for start in range(0, len(new), server.chunk):
        _send(server, project, {key: tasks[key] for key in new[start : start + server.chunk]}, ledger, done, quiet)
    settled(server, project, ledger, done)
    return done


def settled(server: Remote, project: str, ledger: Ledger, done: Pushed) -> None:
    """Calls `look` if the ledger may be wrong: a request ended without an answer, or the server's count differs."""
    if ledger.sending or server.count(project) != len(ledger.there):
        look(server, project, ledger, done)


def _send(server: Remote, project: str, tasks: dict[str, Payload], ledger: Ledger, done: Pushed, quiet: float) -> None:
    fault: ReviewError = ReviewError("the server took fewer tasks than it was sent: run the command again")
    for attempt in range(ATTEMPTS):
        todo = [key for key in tasks if key not in ledger.there]
        if not todo:
            break
        ledger.write([(key, "", "sending") for key in todo])
        try:
            ids = server.send(project, [tasks[key] for key in todo])
            if len(ids) == len(todo):
                ledger.write([(key, remote, "there") for key, remote in zip(todo, ids, strict=True)])
                break
        except Broken as broken:
            fault = broken
            time.sleep(min(0.2 * 2**attempt, quiet))
        except Unsure as unsure:
            fault = unsure
            settle(server, project, len(ledger.there) + len(todo), quiet)
        look(server, project, ledger, done)
    missing = [key for key in tasks if key not in ledger.there]
    if missing:
        raise fault
    done.added += len(tasks)


def settle(server: Remote, project: str, expected: int, quiet: float) -> None:
    """Waits until the count is as expected or has not changed for `quiet` seconds: a lost request may still run."""
    previous, since, pause = -1, time.monotonic(), min(0.5, quiet / 4)
    while time.monotonic() - since < quiet:
        try:
            count = server.count(project)
        except Unsure:
            count = previous
        if count >= expected:
            return
        if count != previous:
            previous, since = count, time.monotonic()
        time.sleep(pause)


def look(server: Remote, project: str, ledger: Ledger, done: Pushed) -> None:
    """Updates the ledger to what the server holds, and deletes second copies that nobody has answered; ignores tasks
    that somebody else put there."""
    copies_of: dict[str, list[tuple[bool, str]]] = {}
    known_keys = ledger.made() if ledger.made else None
    for key, remote, answered in server.keys(project):
        if known_keys is None or key in known_keys:
            copies_of.setdefault(key, []).append((answered, remote))
    rows = []
    for key, copies in copies_of.items():
        chosen = next((remote for answered, remote in copies if answered), copies[0][1])
        for answered, remote in copies:
            if remote != chosen and not answered:
                server.delete(remote)
                done.twins += 1
        if ledger.there.get(key) != chosen:
            done.found += key not in ledger.sending
            rows.append((key, chosen, "there"))
    missing = [key for key in ledger.there if key not in copies_of]
    done.gone += len(missing)
    rows += [(key, ledger.there[key], "gone") for key in missing]
    rows += [(key, "", "gone") for key in ledger.sending if key not in copies_of]
    ledger.write(rows)


def withdraw(server: Remote, project: str, keys: set[str], ledger: Ledger, erased: Container[str] = frozenset()) -> int:
    """Deletes the tasks that nobody has answered yet, and those in `erased` even if answered; returns how many.

    The server is asked again after every few: somebody may answer a task while others are deleted. Pages are asked for
    one at a time, the last first, as what is deleted on one moves only the tasks of later ones."""
    chosen, tried = keys & ledger.there.keys(), set[str]()
    for page in reversed(range(-(-server.count(project) // server.page_size) if chosen else 0)):
        rest = AT_ONCE + 1
        while rest > AT_ONCE:
            rows = [row for row in server.keys(project, page) if row[0] in chosen and row[1] not in tried]
            deletable = [(key, remote) for key, remote, answered in rows if not answered or key in erased]
            for key, remote in deletable[:AT_ONCE]:
                server.delete(remote)
                ledger.write([(key, remote, "gone")])
                tried.add(remote)
            rest = len(deletable)
    return len(tried)


@dataclass(frozen=True)
class Project:
    """A reviewer's project on the server. `place` (its mark and a random word) identifies it in the ledger."""

    id: str
    name: str
    place: str
    setup: tuple[str, ...] = ()  # what else its tool needs
    active: datetime | None = None  # time of the last work in it, if its tool tells
    made: str = ""  # when it was created, for servers that reuse ids after a wipe

    @property
    def mark(self) -> str:
        return mark_of(self.place)


def mark_of(place: str) -> str:
    """The place without its random word: whose project it is, and for which tasks."""
    return place.replace(" ", "-").rpartition("-")[0]


def project(
    find: Callable[[str], list[Project]], make: Callable[[str], Project], mark: str, closed: Container[str] = ()
) -> Project:
    """The project whose place begins with `mark`: the oldest one, or a new one. Never one of `closed` (ids).

    A new place ends with a random word, so that a project on a wiped server is never mistaken for the former one.
    """
    for attempt in range(ATTEMPTS):
        if projects := [candidate for candidate in find(mark) if candidate.id not in closed]:
            return projects[0]
        try:
            return make(f"{mark} {secrets.token_hex(6)}")
        except Unsure:
            time.sleep(0.2 * 2**attempt)
    raise ReviewError("the server could not make a project: see its log, and run the command again")
