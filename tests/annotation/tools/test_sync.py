"""Faults between us and a review server in memory: no task is lost or doubled."""

import os
import random
from typing import Any

import pytest

from annotation.tools import sync
from annotation.tools.server_errors import Unsure
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import workspace as store
from tests.worlds.review_memory import Killed, Memory
from tests.worlds.review_world import Verdict

SEEDS = 60 if os.environ.get("SAFEREC_SOAK") else 30  # of seven faults each


@pytest.fixture
def server() -> Memory:
    """A server in memory with one project, `p`."""
    server = Memory()
    server.made["p"] = "ann"
    return server


def tasks(*keys: str) -> dict[str, dict[str, Any]]:
    return {key: {"key": key} for key in keys}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_task_is_there_once_whatever_breaks(server, seed, injected):
    rng, rows, sent = random.Random(seed), [], tasks(*map(str, range(17)))
    server.chunk, count = 4, server.count
    server.plan = rng.choices(["failed", "done", "lost", "half", "slow", "late", "killed before", "killed"], k=7)

    def counted(project):
        if rng.random() < 0.3:  # tasks that were on their way when the sender gave up arrive some time later
            server.arrive()
        return count(project)

    server.count = counted
    for _ in range(30):  # a person runs the command until it works
        ledger = sync.Ledger.of(rows, rows.extend)
        try:
            sync.push(server, "p", sent, ledger, quiet=0.01)
        except (Killed, ReviewError):
            continue
        if not server.plan and not server.late:
            break
    sync.push(server, "p", sent, sync.Ledger.of(rows, rows.extend), quiet=0.01)
    held = {task["key"]: remote for remote, (_, task, _) in server.held.items()}
    assert held.keys() == sent.keys() and len(server.held) == len(sent)
    assert sync.Ledger.of(rows, rows.extend).there == held
    injected("faults of a review server in memory", 7 - len(server.plan))


def test_ten_thousand_tasks_are_a_few_requests_and_a_rerun_is_one(server):
    rows, requests, sent = [], [], tasks(*map(str, range(10_000)))
    server.chunk, server.keys = 1_000, lambda project: requests.append("keys") or []
    assert sync.push(server, "p", sent, sync.Ledger.of(rows, rows.extend)).added == 10_000
    rerun = sync.push(server, "p", sent, sync.Ledger.of(rows, rows.extend))
    assert (rerun.added, rerun.already_there, len(server.held), requests) == (0, 10_000, 10_000, [])


def test_answered_copies_are_kept_and_the_empty_one_goes(server):
    server.send("p", [{"key": "a"}, {"key": "a"}, {"key": "b"}])
    server.answers = {"2": Verdict()}
    assert sync.push(server, "p", tasks("a", "b"), sync.Ledger()).twins == 1
    assert [*server.held] == ["2", "3"]


def test_a_task_that_somebody_deleted_is_sent_again_and_said(server):
    rows = []
    sync.push(server, "p", tasks(*"abc"), sync.Ledger.of(rows, rows.extend))
    server.delete("2")
    report = sync.push(server, "p", tasks(*"abc"), sync.Ledger.of(rows, rows.extend))
    assert (report.gone, report.added, report.already_there) == (1, 1, 2)


def test_what_is_answered_while_tasks_are_taken_back_stays(server):
    """Hundreds are deleted one by one: an answer given meanwhile to a task further on was lost. For every few deletions
    all tasks were listed again: 8,010,000 rows for 20,000 tasks."""
    ledger, sent, delete, keys = sync.Ledger(), tasks(*map(str, range(100))), server.delete, server.keys
    sync.push(server, "p", sent, ledger, quiet=0.01)
    remotes, listed = {**ledger.there}, list[tuple[str, str, bool]]()

    def slow(task):
        delete(task)
        if task == remotes["41"]:
            server.answers[remotes["75"]] = Verdict()  # of the same page

    def watched(project, page=None):
        listed.extend(rows := keys(project, page))
        return rows

    server.delete, server.keys = slow, watched
    assert sync.withdraw(server, "p", set(sent), ledger) == 99
    assert [*server.held] == [*ledger.there.values()] == [remotes["75"]]
    assert len(listed) <= 2 * len(sent)
    server.delete = delete
    assert sync.withdraw(server, "p", set(sent), ledger, {"75"}) == 1 and not server.held


def test_a_project_is_made_where_none_is_open_and_tried_four_times(server, monkeypatch):
    projects, pauses = [sync.Project(n, "x", f"a mark {n}") for n in "12"], list[float]()
    monkeypatch.setattr(sync.time, "sleep", pauses.append)
    usable = sync.project(lambda mark: projects, lambda word: projects[0], "a mark", {"1"})
    assert usable is projects[1] and usable.mark == "a-mark"
    monkeypatch.setattr(server, "_make", lambda *_: (_ for _ in ()).throw(Unsure("no answer")))
    with pytest.raises(ReviewError, match="the server could not make a project: see its log"):
        server.project("a mark", "ann", "ann", None)
    assert pauses == [0.2, 0.4, 0.8, 1.6]


def test_two_pushes_at_once_are_one(workspace, cli):
    with store.alone(workspace, "review push"):
        result = cli("review", "push", "--reviewer", "ann", "-C", workspace.root)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "another `review push` is at work" in result.err
