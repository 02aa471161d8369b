"""Push and pull through faults before a real Label Studio: nothing lost or doubled. `make soak` injects 200 faults.

Client timeouts are real (the client gives up, the server goes on), so are the locks (another connection holds the
write lock of the server's SQLite file) and the kills (the command runs in a process of its own, which gets SIGKILL).
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from annotation.follow import follow
from annotation.review_destinations import LabelStudio
from annotation.tools import label_studio_client as adapter, local_label_studio as managed, sync
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.faulty import FAULTS, MORE, Proxy
from tests.worlds import review_world
from tests.worlds.review_world import Verdict

FEW = int(os.environ.get("SAFEREC_FAULTS", "12"))
PATIENCE = 2.0  # seconds until the client gives up
QUIET = 1.5  # seconds without change after which an unanswered request counts as dead
PEOPLE = ("ann", "bo")
pytestmark = [pytest.mark.servers, pytest.mark.timeout(3_600)]


@dataclass
class Broken:
    """The command line, which reaches the server through the faulty proxy."""

    ws: store.Workspace
    proxy: Proxy
    tool: review_world.LabelStudio
    cli: object

    def words(self, verb: str) -> list[str]:
        options = ["--all", *(word for name in PEOPLE for word in ("--reviewer", name))] if verb == "push" else []
        return ["review", verb, *options, "--url", self.proxy.url, "--token", self.tool.facts["token"], *self.rest]

    @property
    def rest(self) -> list[str]:
        return ["-C", str(self.ws.root), "--json"]

    def run(self, verb: str) -> Ran:
        return self.cli(*self.words(verb))  # type: ignore[operator]

    def wait_long(self) -> None:
        """For a test in which nothing has to time out, however busy the machine is."""
        adapter.Server.__init__.__defaults__ = (120.0,)  # `broken` restores it

    def killed(self, verb: str, *more: str) -> None:
        """Runs the command in a process of its own; the proxy kills it at the request that the plan names."""
        code = "from saferec_builder.cli.app import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *self.words(verb), *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.proxy.victim = process.pid
        process.wait()


@pytest.fixture
def broken(workspace, label_studio, cli, monkeypatch) -> Iterator[Broken]:
    home, facts = label_studio
    review_world.fill(workspace)
    monkeypatch.setattr(adapter.Server, "chunk", 1)
    monkeypatch.setattr(adapter.Server.__init__, "__defaults__", (PATIENCE,))
    monkeypatch.setattr(sync.push, "__defaults__", (QUIET,))
    proxy = Proxy(facts["url"], home / "data" / "label_studio.sqlite3", PATIENCE)
    tool = review_world.LabelStudio(workspace, home, facts)
    tool.server.timeout = 120.0
    for name in PEOPLE:
        managed.account(home, tool.server, name)
    yield Broken(workspace, proxy, tool, cli)
    proxy.away()


def test_every_task_is_there_once(broken, injected):
    proxy, rng = broken.proxy, random.Random(1)
    while proxy.met.total() < FEW * 3 / 4:
        forget(broken)
        proxy.methods = rng.choice([("POST",), ("POST", "GET"), ("GET",)])
        if rng.random() < 0.3:
            proxy.faults.extend(["kill"])
            broken.killed("push")
        proxy.faults.extend(rng.choice(FAULTS) for _ in range(rng.randint(1, 6)))
        until_it_works(broken, "push")
        time.sleep(MORE)  # late requests have arrived
        assert broken.run("push").code == 0
        all_is_there_once(broken)
    print(f"on push: {dict(proxy.met)}")
    injected("faults before Label Studio, on push", proxy.met.total())


def test_who_follows_gets_every_answer_once(broken, injected):
    """Faults hit the looks and the pulls of `pull --follow`, at any of their requests; some kill it."""
    ws, proxy, tool, rng = broken.ws, broken.proxy, broken.tool, random.Random(3)
    (ws.root / "label-studio").symlink_to(tool.home)
    assert broken.run("push").code == 0
    proxy.methods = ("GET",)
    server, looks = LabelStudio(proxy.url, tool.facts["token"]), iter(())
    expected, rounds = Counter[tuple[str, str]](), 0

    def look() -> None:
        nonlocal looks
        try:
            next(looks)
        except (ReviewError, StopIteration):  # an error before its first pull ends it: its user starts it again
            looks = follow(ws, server, every=0)

    while (faults := proxy.met.total() - proxy.met["pass"]) < FEW:
        rounds += 1
        verdict = Verdict({"gore": "blood"}) if rounds % 2 else Verdict(unsure=["gore"])
        for name in PEOPLE:
            tool.answer(name, lambda subject, asked, said=verdict: said if subject == "c1" else None)
        expected += Counter((name, "present" if rounds % 2 else "unsure") for name in PEOPLE)
        if rng.random() < 0.2:
            proxy.faults.extend(["pass"] * rng.randrange(7) + ["kill"])
            broken.killed("pull", "--follow")
        for _ in range(rng.randint(2, 8)):
            proxy.faults.extend(["pass"] * rng.randrange(4) + [rng.choice(FAULTS)])
        while proxy.faults:
            look()
        for _ in "abc":
            look()
        gore = store.read(ws, tables.REVIEWS).filter(trait="gore")
        assert Counter(gore.select("reviewer", "verdict").iter_rows()) == expected, proxy.met
    print(f"on pull --follow: {dict(proxy.met)}")
    injected("faults before Label Studio, on pull --follow", faults)


def standing(broken: Broken, name: str) -> Counter[str]:
    """Counts each conversation in somebody's project."""
    return Counter(review_world.subject_of(t["data"]["turns"][0]["text"]) for t in broken.tool._tasks(name))


def assigned(broken: Broken, name: str) -> set[str]:
    return set(store.read(broken.ws, tables.ASSIGNMENTS).filter(reviewer=name)["subject"])


def all_is_there_once(broken: Broken) -> None:
    for name in PEOPLE:
        assert standing(broken, name) == dict.fromkeys(review_world.TEXTS, 1), (name, broken.proxy.met)
        assert assigned(broken, name) == set(review_world.TEXTS), (name, broken.proxy.met)


@pytest.mark.parametrize("fault", [["deny"], ["fail"] * sync.ATTEMPTS, ["refuse"] * sync.ATTEMPTS], ids=lambda f: f[0])
def test_a_push_that_is_refused_halfway_assigns_what_arrived(broken, fault):
    """ann has a project and four tasks, bo a project and one; then the server refuses everything."""
    broken.wait_long()
    broken.proxy.faults.extend(["pass"] * 7 + fault)
    result = broken.run("push")
    assert (result.code, result.err.count("\n")) == (1, 1), result.err
    assert "5 of 8 new tasks arrived and are assigned: the same command sends the rest" in result.err
    assert not broken.proxy.faults
    for name, tasks in zip(PEOPLE, (4, 1), strict=True):
        copies = standing(broken, name)
        assert len(copies) == tasks and assigned(broken, name) == set(copies)
    broken.proxy.met.clear()
    broken.proxy.faults.extend(["pass"] * 10)
    again = broken.run("push")
    assert (again.json["added"], again.json["skipped"]) == (3, 5)
    assert broken.proxy.met["pass"] == 3  # three imports, and no other request
    all_is_there_once(broken)


def test_what_a_killed_push_has_sent_is_adopted_with_its_answers(broken, cli):
    """Killed as the import for ann is answered: the server holds four tasks, the workspace knows of none. Nobody pushes
    again before ann answers all that she sees; the next push names other reviewers."""
    broken.wait_long()
    broken.proxy.faults.extend(["pass", "kill"])  # the project is made, then the import
    broken.killed("push")
    assert broken.proxy.met["kill"] == 1
    copies = standing(broken, "ann")
    assert len(copies) == 4 and not assigned(broken, "ann") and not assigned(broken, "bo")
    (broken.ws.root / "label-studio").symlink_to(broken.tool.home)
    assert broken.tool.answer("ann", lambda subject, asked: Verdict()) == 4
    pulled = broken.run("pull")
    assert pulled.json["dropped"] == {} and pulled.json["added"] > 0, pulled.err
    answered = store.read(broken.ws, tables.REVIEWS).filter(trait="*", reviewer="ann")
    assert set(answered["subject"]) == set(copies) == assigned(broken, "ann")
    others = ("--reviewer", "bo", "--reviewer", "cy", "--all")
    managed.account(broken.tool.home, broken.tool.server, "cy")
    server = ("--url", broken.proxy.url, "--token", broken.tool.facts["token"])
    assert cli("review", "push", *others, *server, *broken.rest).json["added"] == 8 - 4
    assignments = store.read(broken.ws, tables.ASSIGNMENTS)
    assert Counter(assignments["subject"]) == dict.fromkeys(review_world.TEXTS, 2)
    for name in (*PEOPLE, "cy"):
        assert standing(broken, name) == dict.fromkeys(assigned(broken, name), 1)


def until_it_works(broken: Broken, verb: str) -> None:
    """Runs the command until it works, as a person does; each failure is one line."""
    for _ in range(20):
        result = broken.run(verb)
        assert result.code == 0 or result.err.count("\n") == 1, result.err
        if result.code == 0 and not broken.proxy.faults:
            return
    raise AssertionError(f"{verb} never worked: {broken.proxy.met}")


def forget(broken: Broken) -> None:
    """Wipes the server: deletes every project of this workspace."""
    for name in PEOPLE:
        while project := broken.tool.project(name):
            broken.tool.rest("DELETE", f"/api/projects/{project.id}")
