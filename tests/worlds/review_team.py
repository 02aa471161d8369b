"""A review server in memory, people's files, and who was given what."""

import itertools
from pathlib import Path
from typing import Any

from annotation.tools import sync, task_conversion as sheets
from annotation.tools.task_conversion import READ, Response
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit
from tests.worlds.reviewing import yes


class Memory:
    """A review server in memory; `answered` are the tasks that their person has read."""

    tool, chunk, url = "label_studio", 100, "http://labels.invalid"

    def __init__(self) -> None:
        self.rooms: dict[str, sync.Project] = {}
        self.held: dict[str, tuple[Any, dict[str, Any], str]] = {}
        self.answered: list[str] = []
        self.numbers = itertools.count(10)
        self.words: dict[str, dict[str, Any]] = {}  # what else their person says

    def place(self, mark: str, role: str, cards: int) -> str:
        return mark

    def project(self, mark: str, name: str, account: str, taxonomy: Any) -> sync.Project:
        return self.rooms.setdefault(mark, sync.Project(len(self.rooms), name, f"{mark} 1"))

    def projects(self, mark: str) -> list[sync.Project]:
        return [room for place, room in self.rooms.items() if place.startswith(mark)]

    def task_of(self, sheet: sheets.Sheet, guideline: str, taxonomy: Any) -> dict[str, Any]:
        return {"key": sheet.key, "ask": sheet.ask, "asked": sheet.asked, "taxonomy": taxonomy.digest}

    def count(self, project: Any) -> int:
        return len(self.keys(project))

    def keys(self, project: Any) -> list[tuple[str, str, bool]]:
        return [(t["key"], n, n in self.answered) for n, (room, t, _) in self.held.items() if room == project]

    def send(self, project: Any, tasks: list[dict[str, Any]]) -> list[str]:
        name = next(room.name for room in self.rooms.values() if room.id == project)
        ids = [str(next(self.numbers)) for _ in tasks]
        self.held |= {n: (project, task, name) for n, task in zip(ids, tasks, strict=True)}
        return ids

    def delete(self, task: str) -> None:
        del self.held[task]

    def names(self, accounts: dict[str, str], names: Any) -> dict[str, str]:
        return {}

    def page_of(self, task: dict[str, Any]) -> str:
        return ""

    def responses(self, project: sync.Project, people: dict[str, str], *_: Any) -> Any:
        for n, (room, task, name) in self.held.items():
            if room == project.id and n in self.answered:
                fixed = {"key": task["key"], "who": name, "place": n, "outcome": READ, "asked": task["asked"]}
                yield Response(**fixed | {"taxonomy": task["taxonomy"]} | self.words.get(n, {}))


ANN, BO, DI = (("--reviewer", name) for name in ("ann", "bo", "di"))
TWO = (*ANN, *BO)
FILES = ("--tool", "files")


def rest(path: Path, verdict: str, quote: str = "") -> None:
    """What a spreadsheet makes of it: all that is asked is present, and this is the last row of c1."""
    last = {"verdict": verdict, "quote": quote}
    edit(path, lambda row: last if row["trait"] == "*" and "blood" in row["text"] else yes(row))


def given(ws: store.Workspace, subject: str) -> list[str]:
    return sorted(store.read(ws, tables.ASSIGNMENTS).filter(subject=subject)["reviewer"])
