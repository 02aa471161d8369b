"""Faults between us and a review server in memory: no task is lost or doubled; and faults that people cause."""

import os
import random
from typing import Any

import pytest

from annotation.tools import label_studio_client as label_studio_server, sync
from annotation.tools.server_errors import Unsure
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
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
    assert (rerun.added, rerun.skipped, len(server.held), requests) == (0, 10_000, 10_000, [])


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
    assert (report.gone, report.added, report.skipped) == (1, 1, 2)


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
