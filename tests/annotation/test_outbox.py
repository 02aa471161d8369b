"""What a push was about to send: a kill or a refusal anywhere, and each task is there once."""

import csv
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl
import pytest

from saferec_builder.storage import database, tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.pushes import ALL, FILES, TWO, given, in_files, nothing_is_left, planted, shown_in_files
from tests.worlds.review_memory import Killed
from tests.worlds.review_world import TEXTS, Verdict
from tests.worlds.reviewing import yes
from tests.worlds.settings import review_settings

SOAK = bool(os.environ.get("SAFEREC_SOAK"))
SEEDS = 120 if SOAK else 3  # of six pushes each, half of which break off


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    review_world.fill(workspace)
    review_settings(workspace.root, decoys=0.5)
    return workspace


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], bool]:
    """Dies at the at-th write of the workspace or of a file, before and after it in turn; says whether it did."""
    count = [0]

    def dying(name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any) -> Any:
            count[0] += 2
            if count[0] - 1 == at:
                raise Killed(name)
            done = write(*words)
            if count[0] == at:
                raise Killed(name)
            return done

        return run

    monkeypatch.setattr(os, "replace", dying("replace", os.replace))
    monkeypatch.setattr(database, "append", dying("append", database.append))
    return lambda: count[0] >= at


@pytest.mark.slow
def test_a_push_to_files_that_is_killed_anywhere_assigns_what_lies_there(ws, cli, tmp_path, injected):
    """The same command again, and another one: with somebody else, and no decoys."""
    import shutil

    kills = 0
    for then, decoys, step in ((ALL, 0.5, 1), (("--reviewer", "bo", "--reviewer", "di", "--all"), 0, 1 if SOAK else 4)):
        for at in range(1, 1_000, step):
            here = tmp_path / f"{decoys}-{at}"
            shutil.copytree(ws.root, here)
            copy = store.Workspace.open(here)
            with pytest.MonkeyPatch.context() as patch:
                reached = killing(patch, at)
                try:
                    cli("review", "push", *FILES, *ALL, "-C", here)
                except Killed:
                    kills += 1
            known = given(copy)
            assert known <= in_files(copy) and planted(copy) <= shown_in_files(copy)
            review_settings(here, decoys=decoys)
            assert cli("review", "push", *FILES, *then, "-C", here).code == 0
            assert known <= given(copy) == in_files(copy) and nothing_is_left(copy)
            assert planted(copy) == shown_in_files(copy)
            readers = Counter(subject for _, subject in given(copy))
            assert readers == dict.fromkeys(TEXTS, 2)
            if not reached():
                break
    assert kills > 20
    injected("kills of a push to files, at every write", kills)


def test_answers_in_a_file_of_a_push_that_was_killed_are_taken(ws, cli, monkeypatch):
    """Its reader did not know; the file may have another name by now."""
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
    ran = cli("review", "pull", *FILES, file, "-C", ws.root, "--json")
    assert (ran.code, ran.json["dropped"], ran.json["added"]) == (0, {}, 4), ran.err
    assert given(ws) == {(who, c) for who in ("ann", "bo") for c in ("c1", "c2")}  # bo's file lies there too
    assert cli("review", "push", *FILES, *TWO, "-C", ws.root, "--json").json["added"] == 0
    assert rows_of(ws.root / "review" / "ann.csv") == []


def test_no_file_takes_its_place_before_all_are_written(ws, cli, monkeypatch):
    """Half a push would be dealt anew: Ctrl-C between two files gave other tasks than an undisturbed run."""
    replaced, written, real = [], [], csv.DictWriter.writerows

    def writes(self: Any, rows: Iterable[dict[str, str]]) -> None:
        written.append(len(replaced))
        real(self, rows)

    def replaces(tmp: Any, path: Any, replace: Callable[..., None] = os.replace) -> None:
        replaced.extend([path] if str(path).endswith(".csv") else [])
        replace(tmp, path)

    monkeypatch.setattr(csv.DictWriter, "writerows", writes)
    monkeypatch.setattr(os, "replace", replaces)
    assert cli("review", "push", *FILES, *ALL, "-C", ws.root).code == 0
    assert (written, len(replaced)) == ([0, 0], 2)  # ann and bo


@pytest.mark.parametrize("fault", [["refused"], ["failed"] * 4, ["died"]], ids=lambda fault: fault[0])
@pytest.mark.parametrize("before", [0, 3, 7])
def test_what_came_through_is_assigned_and_a_rerun_sends_the_rest(ws, cli, memory, fault, before):
    words = ("review", "push", *ALL, "-C", ws.root)
    memory.plan = [""] * before + fault
    ran = cli(*words)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"{before} of 8 new tasks arrived and are assigned: the same command sends the rest" in ran.err
    there = list(memory.tasks())  # in the order of their arrival
    assert given(ws) == set(there[:before])
    memory.down = False
    again = cli(*words, "--json")
    # what arrived as the server died is handed out before anything is sent
    assert (again.json["added"], again.json["skipped"]) == (8 - len(there), len(there))
    assert memory.tasks() == dict.fromkeys(((who, c) for who in ("ann", "bo") for c in TEXTS), 1)
    assert given(ws) == {*memory.tasks()} and planted(ws) == memory.suggested() and nothing_is_left(ws)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_breaks_the_assignments_are_what_stands_on_the_server(ws, cli, memory, seed, injected):
    """Every push by other people, with other decoys and budgets; everybody answers at once what they find."""
    rng, faults, dropped = random.Random(seed), 0, 0
    kinds = ["refused", "failed", "killed before", "killed", "died", "lost", "late"]
    memory.chunk = rng.choice([1, 2, 3])
    for _ in range(6):
        people = rng.sample(["ann", "bo", "di", "el"], rng.choice([2, 3]))
        memory.plan = [rng.choice(["", "", *kinds]) for _ in range(rng.randrange(8))]
        words = [word for name in people for word in ("--reviewer", name)]
        more = rng.choice([["--all"], ["--all", "--budget", "3"], []])
        review_settings(ws.root, decoys=rng.choice([0.0, 0.5]))
        broke, memory.down = False, False
        try:
            ran = cli("review", "push", *words, *more, "-C", ws.root)
            broke = ran.code != 0
            assert ran.code == 0 or (ran.err.count("error: ") == 1 and "Traceback" not in ran.err), ran.err
        except Killed:
            broke = True
        faults += broke
        assert given(ws) <= {*memory.tasks()}  # nothing is handed out that nobody has
        if rng.random() < 0.5:
            memory.arrive()
        memory.down = False
        first = {
            task["key"]: remote for remote, (_, task, _) in reversed(memory.held.items())
        }  # of a twin the older one
        memory.answers |= {remote: Verdict() for remote in first.values() if rng.random() < 0.5}
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
    said = store.read(ws, tables.REVIEWS).filter(pl.col("trait") == "*").select("reviewer", "subject")
    heard = {(name, task["subject"]) for r, (_, task, name) in memory.held.items() if r in memory.answers}
    assert heard == set(said.iter_rows())
    injected("pushes to a server in memory that broke off", faults)


def test_a_plan_that_changed_since_a_kill_gives_nobody_a_task_twice(ws, cli, memory):
    """ann's first task arrived, and nobody wrote it down: without ann the next push knows, and so does a pull."""
    memory.plan = ["killed"]
    with pytest.raises(Killed):
        cli("review", "push", *TWO, "-C", ws.root)
    assert not given(ws)
    (first,) = memory.tasks()
    found = {"c1": {"gore": "blood"}, "c2": {"accidents_disasters": "crash"}}[first[1]]
    memory.answers = {remote: Verdict(found) for remote in memory.held}
    pulled = cli("review", "pull", "-C", ws.root, "--json")
    assert (pulled.json["dropped"], pulled.json["added"]) == ({}, 2)
    assert given(ws) == {first}
    assert cli("review", "push", "--reviewer", "bo", "--reviewer", "di", "-C", ws.root).code == 0
    # c1 and c2 have two readers each: first's, and three more tasks
    assert Counter(subject for _, subject in given(ws)) == {"c1": 2, "c2": 2}
    assert given(ws) == {*memory.tasks()} and first in given(ws)


def test_a_mistake_leaves_no_note(ws, cli, memory, monkeypatch):
    toml = ws.root / "saferec.toml"
    toml.write_text(toml.read_text() + '\n[review.accounts]\nann = "x@example.org"\nbo = "x@example.org"\n')
    ran = cli("review", "push", *ALL, "-C", ws.root)
    assert (ran.code, "one person is never two readers" in ran.err, "new tasks" in ran.err) == (1, True, False)
    assert not given(ws) and nothing_is_left(ws)


def test_the_note_is_its_owners_alone_and_a_damaged_one_is_one_line(ws, cli, memory):
    memory.plan = ["killed"]
    with pytest.raises(Killed):
        cli("review", "push", *ALL, "-C", ws.root)
    note = ws.root / ".outbox.json"
    assert note.stat().st_mode & 0o777 == 0o600
    for text in ("{", "[]", '{"tasks": 5}', '{"tasks": [[1, 2]]}'):
        note.write_text(text)
        ran = cli("review", "push", *ALL, "-C", ws.root)
        assert (ran.code, ran.err.count("\n"), f"{note}: damaged" in ran.err) == (1, 1, True), ran.err
