"""Sends each task to a review server exactly once: what is there is looked up before anything is sent again.

The ledger remembers what was sent; the server's own count says whether the ledger can be believed. Where they differ,
or a request ended without an answer, the server is asked for every key that it holds. One writer at a time: the caller
holds a lock.
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
AT_ONCE = 25  # tasks that are deleted before the server is asked again which are answered
Note = Callable[[list[tuple[str, str, str]]], None]  # (task, remote, state) rows for the ledger


Payload = dict[str, Any]  # a task as its tool takes it; nobody here looks into it
Touched = frozenset[tuple[str, datetime]]  # (task, when it was touched, by the server's clock); `` is any of a project


class Remote(Protocol):
    """What it takes to have each task once on a server."""

    chunk: int

    def count(self, project: str) -> int: ...
    def send(self, project: str, tasks: list[Payload]) -> list[str]: ...
    def keys(self, project: str) -> list[tuple[str, str, bool]]: ...
    def delete(self, task: str) -> None: ...


@dataclass
class Ledger:
    """What one project is believed to hold, and how to write down what changes."""

    there: dict[str, str] = field(default_factory=dict)  # task -> its id on the server
    sending: set[str] = field(default_factory=set)  # begun, and nobody knows how it ended
    note: Note = lambda rows: None
    made: Callable[[], Container[str]] | None = None  # gives every key that we ever made; None: all there are ours

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
    added: int = 0
    skipped: int = 0
    found: int = 0  # were on the server, though the ledger did not know
    edited: int = 0  # of their projects, found with another page than was sent: another is opened in their stead
    gone: int = 0  # the ledger knew them, the server does not hold them any more
    twins: int = 0  # second copies without an answer, deleted
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
    """Sends the tasks that the project does not hold, and counts on in `done`. `quiet`: seconds without change before a
    lost request is dead."""
    done = Pushed() if done is None else done
    settled(server, project, ledger, done)
    new = [key for key in tasks if key not in ledger.there]
    done.skipped += len(tasks) - len(new)
    for start in range(0, len(new), server.chunk):
        _send(server, project, {key: tasks[key] for key in new[start : start + server.chunk]}, ledger, done, quiet)
    settled(server, project, ledger, done)
    return done


def settled(server: Remote, project: str, ledger: Ledger, done: Pushed) -> None:
    """Looks where the ledger cannot be believed: a request ended without an answer, or the count is another."""
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
    left = [key for key in tasks if key not in ledger.there]
    if left:
        raise fault
    done.added += len(tasks)


def settle(server: Remote, project: str, expected: int, quiet: float) -> None:
    """Waits until the count is as expected or has not moved for `quiet` seconds; a request may still be at work."""
    before, since, pause = -1, time.monotonic(), min(0.5, quiet / 4)
    while time.monotonic() - since < quiet:
        try:
            now = server.count(project)
        except Unsure:
            now = before
        if now >= expected:
            return
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(pause)


def look(server: Remote, project: str, ledger: Ledger, done: Pushed) -> None:
    """Makes the ledger say what the server holds, and deletes second copies that nobody has answered; tasks that
    somebody else put there stay out of it."""
    copies: dict[str, list[tuple[bool, str]]] = {}
    made = ledger.made() if ledger.made else None
    for key, remote, answered in server.keys(project):
        if made is None or key in made:
            copies.setdefault(key, []).append((answered, remote))
    rows = []
    for key, found in copies.items():
        keep = next((remote for answered, remote in found if answered), found[0][1])
        for answered, remote in found:
            if remote != keep and not answered:
                server.delete(remote)
                done.twins += 1
        if ledger.there.get(key) != keep:
            done.found += key not in ledger.sending
            rows.append((key, keep, "there"))
    lost = [key for key in ledger.there if key not in copies]
    done.gone += len(lost)
    rows += [(key, ledger.there[key], "gone") for key in lost]
    rows += [(key, "", "gone") for key in ledger.sending if key not in copies]
    ledger.write(rows)


def withdraw(server: Remote, project: str, keys: set[str], ledger: Ledger, erased: Container[str] = frozenset()) -> int:
    """Deletes those tasks that nobody has answered yet; with an answer only those of `erased`.

    A few at a time, each as it is by then: somebody may answer one while others are deleted."""
    chosen, tried = keys & ledger.there.keys(), set[str]()
    while chosen:
        open_ = ((key, remote) for key, remote, answered in server.keys(project) if not answered or key in erased)
        gone = [(key, remote) for key, remote in open_ if key in chosen and remote not in tried]
        for key, remote in gone[:AT_ONCE]:
            server.delete(remote)
            ledger.write([(key, remote, "gone")])
            tried.add(remote)
        if len(gone) <= AT_ONCE:
            break
    return len(tried)


@dataclass(frozen=True)
class Project:
    """A reviewer's place on the server. `place` is the mark and a random word: what names it in the ledger."""

    id: str
    name: str
    place: str
    setup: tuple[str, ...] = ()  # what its tool needs to know of it besides
    active: datetime | None = None  # when somebody last was at work there, where its tool says so
    made: str = ""  # when it was made, where ids are given out again on a server that was wiped

    @property
    def mark(self) -> str:
        return mark_of(self.place)


def mark_of(place: str) -> str:
    """It without its random word: whose project it is, and for what."""
    return place.replace(" ", "-").rpartition("-")[0]


def project(
    find: Callable[[str], list[Project]], make: Callable[[str], Project], mark: str, closed: Container[str] = ()
) -> Project:
    """The project whose place begins with `mark`, made where there is none; the oldest where there are several. None of
    those in `closed` (ids).

    It ends with a random word, so that a server that was wiped is never taken for the one before.
    """
    for attempt in range(ATTEMPTS):
        if found := [each for each in find(mark) if each.id not in closed]:
            return found[0]
        try:
            return make(f"{mark} {secrets.token_hex(6)}")
        except Unsure:
            time.sleep(0.2 * 2**attempt)
    raise ReviewError("the server could not make a project: see its log, and run the command again")
