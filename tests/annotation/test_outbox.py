"""The record of what a push is about to send: after a kill or a refusal anywhere, each task exists once."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from annotation.push import push
from annotation.review_destinations import Files
from saferec_builder.storage import database, tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.pushes import ALL, FILES, TWO, given, in_files, nothing_is_left, planted, shown_in_files
from tests.worlds.review_memory import Killed
from tests.worlds.review_world import TEXTS, Verdict
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings

SOAK = bool(os.environ.get("SAFEREC_SOAK"))
SEEDS = 120 if SOAK else 3  # each has six pushes, half of which break off


ws = review_world.ws_with_decoys


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], bool]:
    """Dies at the `at`-th write of the workspace or of a file, in turn before and after it; returns whether it did."""
    count = [0]

    def dying(name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any) -> Any:
            count[0] += 2
            if count[0] - 1 == at:
                raise Killed(name)
            result = write(*words)
            if count[0] == at:
                raise Killed(name)
            return result

        return run

    monkeypatch.setattr(os, "replace", dying("replace", os.replace))
    monkeypatch.setattr(database, "append", dying("append", database.append))
    return lambda: count[0] >= at


@pytest.mark.slow
def test_a_push_to_files_that_is_killed_anywhere_assigns_what_lies_there(ws, tmp_path, injected):
    """Then the same push runs again, or another one: with another person, and no decoys."""
    kills = 0
    for people, decoys, step in ((("ann", "bo"), 0.5, 1), (("bo", "di"), 0, 1 if SOAK else 4)):
        for at in range(1, 1_000, step):
            folder = shutil.copytree(ws.root, tmp_path / f"{decoys}-{at}")
            copy = store.Workspace.open(folder)
            with pytest.MonkeyPatch.context() as patch:
                reached = killing(patch, at)
                try:
                    push(copy, ("ann", "bo"), to=Files(), everything=True)
                except Killed:
                    kills += 1
            assigned = given(copy)
            assert assigned <= in_files(copy) and planted(copy) <= shown_in_files(copy)
            review_settings(folder, decoys=decoys)
            push(store.Workspace.open(folder), people, to=Files(), everything=True)
            assert assigned <= given(copy) == in_files(copy) and nothing_is_left(copy)
            assert planted(copy) == shown_in_files(copy)
            readers = Counter(subject for _, subject in given(copy))
            assert readers == dict.fromkeys(TEXTS, 2)
            if not reached():
                break
    assert kills > 20
    injected("kills of a push to files, at every write", kills)


@pytest.mark.slow
def test_answers_in_a_file_of_a_push_that_was_killed_are_taken(ws, cli, monkeypatch):
    """The reader did not know of the kill; the file may have another name by now."""
    review_settings(ws.root, decoys=0)
    append = store.append

    def dies(ws: store.Workspace, table: tables.Table, *words: Any) -> int:
        if table not in (tables.DESIGN, tables.ASKED, tables.KEYED):
            raise Killed
        return append(ws, table, *words)

    monkeypatch.setattr(store, "append", dies)
    with pytest.raises(Killed):
        cli("review", "push", *FILES, *TWO, "-C", ws.root)
    monkeypatch.undo()
    assert not given(ws)
    file = ws.root / "from-ann.csv"
    (ws.root / "review" / "ann.csv").rename(file)
    edit(file, yes)
    result = cli("review", "pull", *FILES, file, "-C", ws.root, "--json")
    assert (result.code, result.json["dropped"], result.json["added"]) == (0, {}, 4), result.err
    assert given(ws) == {(name, c) for name in ("ann", "bo") for c in ("c1", "c2")}  # bo's file exists too
    assert cli("review", "push", *FILES, *TWO, "-C", ws.root, "--json").json["added"] == 0
    assert rows_of(ws.root / "review" / "ann.csv") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "fault"), [(0, ["refused"]), (3, ["failed"] * 4), *((n, ["died"]) for n in (0, 3, 7))], ids=str
)
def test_what_came_through_is_assigned_and_a_rerun_sends_the_rest(ws, cli, memory, fault, before):
    words = ("review", "push", *ALL, "-C", ws.root)
    memory.plan = [""] * before + fault
    result = cli(*words)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{before} of 8 new tasks arrived and are assigned: the same command sends the rest" in result.err
    arrived = list(memory.tasks())  # in the order of their arrival
    assert given(ws) == set(arrived[:before])
    memory.down = False
    rerun = cli(*words, "--json")
    # what arrived as the server died is assigned before anything is sent
    assert (rerun.json["added"], rerun.json["skipped"]) == (8 - len(arrived), len(arrived))
    assert memory.tasks() == dict.fromkeys(((name, c) for name in ("ann", "bo") for c in TEXTS), 1)
    assert given(ws) == {*memory.tasks()} and planted(ws) == memory.suggested() and nothing_is_left(ws)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_breaks_the_assignments_are_what_stands_on_the_server(ws, cli, memory, seed, injected):
    """Each push has other people, other decoys and budgets; everybody answers their tasks at once."""
    rng, faults, dropped = random.Random(seed), 0, 0
    kinds = ["refused", "failed", "killed before", "killed", "died", "lost", "late"]
    memory.chunk = rng.choice([1, 2, 3])
    for _ in range(6):
        people = rng.sample(["ann", "bo", "di", "el"], rng.choice([2, 3]))
        memory.plan = [rng.choice(["", "", *kinds]) for _ in range(rng.randrange(8))]
        words = [word for name in people for word in ("--reviewer", name)]
        options = rng.choice([["--all"], ["--all", "--budget", "3"], []])
        review_settings(ws.root, decoys=rng.choice([0.0, 0.5]))
        failed, memory.down = False, False
        try:
            result = cli("review", "push", *words, *options, "-C", ws.root)
            failed = result.code != 0
            assert result.code == 0 or (result.err.count("error: ") == 1 and "Traceback" not in result.err), result.err
        except Killed:
            failed = True
        faults += failed
        assert given(ws) <= {*memory.tasks()}  # no task is assigned that nobody has
        if rng.random() < 0.5:
            memory.arrive()
        memory.down = False
        # the older one of twins
        oldest = {task["key"]: remote for remote, (_, task, _) in reversed(memory.held.items())}
        memory.answers |= {remote: Verdict() for remote in oldest.values() if rng.random() < 0.5}
        if memory.made:
            pulled = cli("review", "pull", "-C", ws.root, "--json")
            dropped += pulled.json["dropped"].get("not pushed", 0)
    memory.plan = []
    memory.arrive()
    assert cli("review", "push", *TWO, "--reviewer", "di", "--reviewer", "el", "--all", "-C", ws.root).code == 0
    assert not memory.made or cli("review", "pull", "-C", ws.root).code == 0
    assert dropped == 0
    assert memory.tasks() == dict.fromkeys(given(ws), 1)
    assert planted(ws) == memory.suggested()
    reviewed = store.read(ws, tables.REVIEWS).filter(pl.col("trait") == "*").select("reviewer", "subject")
    answered = {(name, task["subject"]) for r, (_, task, name) in memory.held.items() if r in memory.answers}
    assert answered == set(reviewed.iter_rows())
    injected("pushes to a server in memory that broke off", faults)


@pytest.mark.slow
def test_a_plan_that_changed_since_a_kill_gives_nobody_a_task_twice(ws, cli, memory):
    """ann's first task arrived unrecorded: the next push, without ann, knows of it, and so does a pull."""
    memory.plan = ["killed"]
    with pytest.raises(Killed):
        cli("review", "push", *TWO, "-C", ws.root)
    assert not given(ws)
    (arrived,) = memory.tasks()
    quotes = {"c1": {"gore": "blood"}, "c2": {"accidents_disasters": "crash"}}[arrived[1]]
    memory.answers = {remote: Verdict(quotes) for remote in memory.held}
    pulled = cli("review", "pull", "-C", ws.root, "--json")
    assert (pulled.json["dropped"], pulled.json["added"]) == ({}, 2)
    assert given(ws) == {arrived}
    assert cli("review", "push", "--reviewer", "bo", "--reviewer", "di", "-C", ws.root).code == 0
    # c1 and c2 have two readers each: the task that arrived, and three more
    assert Counter(subject for _, subject in given(ws)) == {"c1": 2, "c2": 2}
    assert given(ws) == {*memory.tasks()} and arrived in given(ws)


def test_a_mistake_leaves_no_note(ws, cli, memory, monkeypatch):
    toml = ws.root / "saferec.toml"
    toml.write_text(toml.read_text() + '\n[review.accounts]\nann = "x@example.org"\nbo = "x@example.org"\n')
    result = cli("review", "push", *ALL, "-C", ws.root)
    assert (result.code, "one person is never two readers" in result.err, "new tasks" in result.err) == (1, True, False)
    assert not given(ws) and nothing_is_left(ws)


def test_the_note_is_its_owners_alone_and_a_damaged_one_is_one_line(ws, cli, memory):
    memory.plan = ["killed"]
    with pytest.raises(Killed):
        cli("review", "push", *ALL, "-C", ws.root)
    note = ws.root / ".outbox.json"
    assert note.stat().st_mode & 0o777 == 0o600
    for text in ("{", "[]", '{"tasks": 5}', '{"tasks": [[1, 2]]}'):
        note.write_text(text)
        result = cli("review", "push", *ALL, "-C", ws.root)
        assert (result.code, result.err.count("\n"), f"{note}: damaged" in result.err) == (1, 1, True), result.err
