"""A review server in memory, for tests of what happens between it and a workspace."""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from annotation import connections
from annotation.tools import sync, task_conversion as sheets
from annotation.tools.server_errors import Broken, Unsure
from saferec_builder.core.errors import ReviewError
from tests.worlds import review_world
from tests.worlds.review_world import CLAIMS, Verdict


class Killed(BaseException):
    """The process dies here."""


class Memory:
    """A review server that fails as planned, one entry of `plan` for each import; its contents are the truth."""

    tool, chunk, page_size, url = "label_studio", 1, 40, "memory"

    def __init__(self) -> None:
        self.plan, self.down = list[str](), False
        self.made, self.number = dict[str, str](), 0
        self.held = dict[str, tuple[str, dict[str, Any], str]]()  # task -> its project, what was sent, its reviewer
        self.answers = dict[str, Verdict]()  # task -> the answer of its reviewer
        self.words = dict[str, dict[str, Any]]()  # task -> other fields of its response
        self.late = list[tuple[str, dict[str, Any]]]()
        self.pages = dict[str, str]()  # project -> its page as somebody edited it
        self.touches = dict[str, datetime]()  # task -> when somebody answered it
        self.unread = 0  # how many more times answers cannot be read

    def _up(self) -> None:
        if self.down:
            raise ReviewError("memory does not answer")

    def projects(self, mark: str) -> list[sync.Project]:
        self._up()
        return [sync.Project(place, name, place) for place, name in self.made.items() if place.startswith(mark)]

    def place(self, mark: str, role: str, cards: int) -> str:
        return mark

    def project(self, mark: str, name: str, account: str, taxonomy: Any, closed: Collection[str] = ()) -> sync.Project:
        return sync.project(self.projects, lambda word: self._make(word, name), mark, closed)

    def project_page(self, mark: str, taxonomy: Any) -> str:
        return "as sent"

    def project_page_there(self, project: sync.Project) -> str:
        return self.pages.get(project.id, "as sent")

    def _make(self, place: str, name: str) -> sync.Project:
        self.made[place] = name
        return sync.Project(place, name, place)

    def task_of(self, sheet: sheets.Sheet, taxonomy: Any) -> dict[str, Any]:
        fields = {"key": sheet.key, "subject": sheet.task.subject, "ask": sheet.ask}
        return fields | {"asked": sheet.asked, "taxonomy": taxonomy.digest}

    def page_of(self, task: dict[str, Any]) -> str:
        return ""

    def count(self, project: str) -> int:
        self._up()
        return sum(place == project for place, *_ in self.held.values())

    def keys(self, project: str, page: int | None = None) -> list[tuple[str, str, bool]]:
        self._up()
        pairs = [(remote, task) for remote, (place, task, _) in self.held.items() if place == project]
        pairs = pairs if page is None else pairs[page * self.page_size :][: self.page_size]
        return [(task["key"], remote, remote in self.answers) for remote, task in pairs]

    def delete(self, task: str) -> None:
        del self.held[task]

    def send(self, project: str, tasks: list[dict[str, Any]]) -> list[str]:
        self._up()
        fault = self.plan.pop(0) if self.plan else ""
        if fault == "refused":
            raise ReviewError("memory: 400: not today")
        if fault == "failed":
            raise Broken("memory: 500")
        if fault == "killed before":
            raise Killed
        if fault in ("late", "slow"):
            self.late += [(project, task) for task in tasks]
            raise Killed if fault == "late" else Unsure("memory: no answer")
        ids = [self._add(project, task) for task in (tasks[: len(tasks) // 2] if fault == "half" else tasks)]
        if fault == "killed":
            raise Killed
        self.down = fault == "died"
        if fault in ("died", "lost", "half", "done"):
            raise Broken("memory: 500") if fault == "done" else Unsure("memory: no answer")
        return ids

    def _add(self, project: str, task: dict[str, Any]) -> str:
        self.number += 1
        self.held[str(self.number)] = (project, task, self.made[project])
        return str(self.number)

    def arrive(self) -> None:
        for project, task in self.late:
            self._add(project, task)
        self.late = []

    def names(self, accounts: dict[str, str], names: Any) -> dict[str, str]:
        return {name: name for name in names}

    def answer(self, remote: str, said: Verdict) -> None:
        self.number += 1
        self.answers[remote], self.touches[remote] = said, datetime.fromtimestamp(self.number, UTC)

    def touched(self, project: sync.Project, seen: sync.Touched) -> sync.Touched:
        self._up()
        return frozenset((task, when) for task, when in self.touches.items() if self.held[task][0] == project.id)

    def responses(
        self, project: sync.Project, people: dict[str, str], ours: sheets.Ours, tasks: Collection[str], *_: object
    ) -> Iterator[sheets.Response]:
        self._up()
        if self.unread:
            self.unread -= 1
            raise Broken("memory: 502")
        for remote, (place, task, name) in self.held.items():
            if place == project.id and (verdict := self.answers.get(remote)) and (not tasks or remote in tasks):
                spans = {t: [review_world.span(task["subject"], quote)] for t, quote in verdict.present.items()}
                fields = {"key": task["key"], "who": people.get(name, "user-unknown"), "place": f"memory {remote}"}
                fields |= {"outcome": verdict.outcome, "asked": task["asked"], "taxonomy": task["taxonomy"]}
                fields |= {"present": list(verdict.present), "spans": spans, "project": place}
                fields |= {"time": self.touches.get(remote)}
                yield sheets.Response(**fields | self.words.get(remote, {}))

    def tasks(self) -> Counter[tuple[str, str]]:
        return Counter((name, task["subject"]) for _, task, name in self.held.values())

    def suggested(self) -> set[tuple[str, str, str]]:
        claimed = {(subject, trait) for subject, trait, *_ in CLAIMS}
        rows = [(name, task["subject"], t) for _, task, name in self.held.values() for t in task["asked"]]
        return {row for row in rows if row[1:] not in claimed}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    server = Memory()
    monkeypatch.setattr(connections, "connect", lambda *words: server)
    monkeypatch.setattr(sync.push, "__defaults__", (0.01,))
    return server
