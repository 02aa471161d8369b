"""Faults between us and a review server in memory: no task is lost or doubled; and faults that people cause."""

import os
import random
from collections import Counter
from typing import Any

import pytest

from annotation.tools import label_studio_client as label_studio_server, sync
from annotation.tools.server_errors import Broken, Unsure
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import tables, workspace as store
from tests.servers.faulty import FAULTS
from tests.worlds import review_world
from tests.worlds.review_world import Verdict

SEEDS = 60 if os.environ.get("SAFEREC_SOAK") else 30  # of seven faults each


class Killed(BaseException):
    """The process dies here."""


class Fake:
    """A server in memory that fails as real ones do; `held` has the tasks that are really there."""

    chunk = 4

    def __init__(self, rng: random.Random, kinds: list[str]) -> None:
        self.rng, self.kinds, self.held, self.late = rng, kinds, list[tuple[str, str]](), list[str]()
        self.number = 0

    def count(self, project: Any) -> int:
        self._arrive()
        return len(self.held)

    def keys(self, project: Any) -> list[tuple[str, str, bool]]:
        self._arrive()
        return [(key, remote, False) for key, remote in self.held]

    def delete(self, task: str) -> None:
        self.held = [row for row in self.held if row[1] != task]

    def send(self, project: Any, tasks: list[dict[str, Any]]) -> list[str]:
        fault = self.kinds.pop() if self.kinds else ""
        if fault in ("fail", "lock"):
            raise Broken("500")
        if fault == "refuse":
            raise Unsure("no answer")
        if fault == "late":
            self.late = [task["key"] for task in tasks]
            raise Unsure("timeout")
        stored = tasks[: self.rng.randrange(len(tasks))] if fault == "half" else tasks
        ids = [self._add(task["key"]) for task in stored]
        if fault == "killed":
            raise Killed
        if fault:
            raise Broken("500") if fault == "done_but_500" else Unsure("timeout after commit")
        return ids

    def _add(self, key: str) -> str:
        self.number += 1
        self.held.append((key, str(self.number)))
        return str(self.number)

    def _arrive(self) -> None:
        """Tasks that were on their way when the sender gave up arrive some time later."""
        if self.late and self.rng.random() < 0.3:
            for key in self.late:
                self._add(key)
            self.late = []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_task_is_there_once_whatever_breaks(seed, injected):
    rng = random.Random(seed)
    kinds = [rng.choice([*FAULTS, "half", "killed"]) for _ in range(7)]
    server, rows = Fake(rng, kinds), []
    tasks = {f"task-{n}": {"key": f"task-{n}"} for n in range(17)}
    for _ in range(30):  # a person runs the command until it works
        ledger = sync.Ledger.of(rows, rows.extend)
        try:
            sync.push(server, 1, tasks, ledger, quiet=0.01)
        except (Killed, ReviewError):
            continue
        if not server.kinds and not server.late:
            break
    sync.push(server, 1, tasks, sync.Ledger.of(rows, rows.extend), quiet=0.01)
    assert Counter(key for key, _ in server.held) == Counter(list(tasks))
    assert sync.Ledger.of(rows, rows.extend).there == dict(server.held)
    injected("faults of a review server in memory", 7 - len(server.kinds))


def test_ten_thousand_tasks_are_a_few_requests_and_a_rerun_is_one():
    server, rows = Fake(random.Random(0), []), []
    server.chunk, requests = 1_000, []
    server.keys = lambda project: requests.append("keys") or []
    tasks = {f"task-{n}": {"key": f"task-{n}"} for n in range(10_000)}
    assert sync.push(server, 1, tasks, sync.Ledger.of(rows, rows.extend)).added == 10_000
    rerun = sync.push(server, 1, tasks, sync.Ledger.of(rows, rows.extend))
    assert (rerun.added, rerun.skipped, len(server.held), requests) == (0, 10_000, 10_000, [])


def test_answered_copies_are_kept_and_the_empty_one_goes():
    server = Fake(random.Random(0), [])
    server.held = [("a", "1"), ("a", "2"), ("b", "3")]
    server.keys = lambda project: [(key, remote, remote == "2") for key, remote in server.held]
    report = sync.push(server, 1, {"a": {"key": "a"}, "b": {"key": "b"}}, sync.Ledger())
    assert (report.twins, server.held) == (1, [("a", "2"), ("b", "3")])


def test_a_task_that_somebody_deleted_is_sent_again_and_said():
    server, rows = Fake(random.Random(0), []), []
    tasks = {key: {"key": key} for key in "abc"}
    sync.push(server, 1, tasks, sync.Ledger.of(rows, rows.extend))
    server.delete("2")
    report = sync.push(server, 1, tasks, sync.Ledger.of(rows, rows.extend))
    assert (report.gone, report.added, report.skipped) == (1, 1, 2)


def test_what_is_answered_while_tasks_are_taken_back_stays(monkeypatch):
    """Hundreds are deleted one by one: an answer given meanwhile to a task later in the list was lost."""
    server, answered = Fake(random.Random(3), []), set[str]()
    tasks = {f"task-{n}": {"key": f"task-{n}"} for n in range(100)}
    ledger = sync.Ledger()
    sync.push(server, "p", tasks, ledger, quiet=0.01)
    delete = server.delete

    def slow(task):
        delete(task)
        answered.add("task-90")

    monkeypatch.setattr(server, "delete", slow)
    real_keys = server.keys
    monkeypatch.setattr(server, "keys", lambda p: [(key, remote, key in answered) for key, remote, _ in real_keys(p)])
    assert sync.withdraw(server, "p", set(tasks), ledger) == 99
    assert [key for key, _ in server.held] == [*ledger.there] == ["task-90"]
    assert sync.withdraw(server, "p", set(tasks), ledger, {"task-90"}) == 1 and not server.held


def test_two_pushes_at_once_are_one(workspace, cli):
    with store.alone(workspace, "review push"):
        result = cli("review", "push", "--reviewer", "ann", "-C", workspace.root)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "another `review push` is at work" in result.err


@pytest.mark.servers
def test_what_people_do_to_a_project_is_named(workspace, label_studio, cli):
    """A real server: a wrong token; a stranger's answer, an empty one, a cancelled one; then an interface edited by
    hand, and two answers on it."""
    ws, (home, facts) = workspace, label_studio
    review_world.fill(ws)
    tool = review_world.LabelStudio(ws, home, facts)
    refused = cli("review", "push", "--reviewer", "ann", "--url", facts["url"], "--token", "0" * 40, "-C", ws.root)
    assert (refused.code, refused.err.count("\n"), "the token was refused" in refused.err) == (1, 1, True), refused.err
    (ws.root / "label-studio").symlink_to(home)
    words = ("-C", ws.root, "--json")
    push = ("review", "push", "--reviewer", "ann", "--reviewer", "bo", "--all", *words)
    assert cli(*push).code == 0
    project = tool.project("ann")

    def say(who: str, subject: str, result: list[dict[str, Any]], **more: Any) -> None:
        """Posts an answer in the newest of ann's projects."""
        tasks = {review_world.subject_of(task["data"]["turns"][0]["text"]): task["id"] for task in tool._tasks("ann")}
        tool.post(who, tasks[subject], {"result": result, **more})

    def pulled() -> dict[str, Any]:
        pull_result = cli("review", "pull", *words)
        assert pull_result.code == 0, pull_result.err
        return dict(pull_result.json)

    yes = Verdict({"gore": "blood"})
    say("bo", "c1", tool.result("c1", yes))  # the task is ann's
    say("ann", "c2", [])
    say("ann", "c3", [], was_cancelled=True)
    assert pulled()["dropped"] == {"not assigned": 1, "not answered": 1}
    config = project.setup[0].replace('alias="needles"', 'alias="nedles"')
    tool.rest("PATCH", f"/api/projects/{project.id}", {"label_config": config, "expert_instruction": "quick!"})
    say("ann", "c1", tool.result("c1", Verdict({"nedles": "blood"})))
    say("ann", "c4", tool.result("c4", Verdict()))
    report = pulled()
    assert report["dropped"] == {"not assigned": 1, "changed there": 3} and report["edited_projects"] == ["ann"]
    assert not store.read(ws, tables.REVIEWS).filter(reviewer="ann", trait="gore").height
    counts = cli(*push).json["sent"]
    assert (counts["ann"]["edited"], counts["ann"]["added"], counts["bo"]["skipped"]) == (1, 3, 4)
    edited, replacement = tool.projects("ann")
    assert "nedles" in edited.setup[0] and replacement.setup == (project.setup[0], label_studio_server.instructions())
    say("ann", "c1", tool.result("c1", yes))
    say("ann", "c4", tool.result("c4", Verdict()))
    report = pulled()
    assert report["dropped"] == {"not assigned": 1, "changed there": 1}  # c2 waits for her
    rows = store.read(ws, tables.REVIEWS)
    assert set(rows.filter(role="other")["reviewer"]) == {"bo"}  # kept, and it counts nowhere
    assert cli("adjudicate", *words).json["reviews_left_out"]["not assigned"] >= 1
    verdicts = rows.filter(reviewer="ann", trait="gore").select("subject", "verdict").rows()
    assert dict(verdicts) == {"c1": "present"}
    assert pulled()["added"] == 0
