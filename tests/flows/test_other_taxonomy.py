"""The taxonomy changes during review: answers on the new traits stay, and nobody is asked again without need."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from annotation import servers
from annotation.review_history import NO_TRAIT, OTHER_TAXONOMY
from annotation.review_state import gather
from annotation.tools.task_conversion import RATHER_NOT
from saferec_builder.storage import tables, workspace as store
from tests.worlds import pushes, review_world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.pushes import OLD, TWO
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict
from tests.worlds.settings import taxonomy

pytestmark = pytest.mark.slow  # the whole pipeline, command by command

ws, review = pushes.of_two, review_world.review


def nothing(subject: str, asked: list[str]) -> review_world.Verdict:
    return review_world.Verdict()


def open_for(ws: store.Workspace, name: str) -> int:
    """Returns how many `*` answers of this person do not count for the current taxonomy."""
    rests = gather(store.Workspace.open(ws.root)).standing.filter(reviewer=name, trait="*")
    return rests["out"].count()


def test_an_older_file_pulled_again_does_not_undo_what_was_said_of_the_new_list(
    ws: store.Workspace, review: Any, tmp_path: Path
) -> None:
    files, push, pull = review_world.Files(ws), ("push", "--tool", "files"), ("pull", "--tool", "files")
    review(*push, *TWO)
    files.answer("ann", nothing)
    path = ws.root / "review" / "ann.csv"
    old = tmp_path / "z-old.csv"
    shutil.copy(path, old)
    review(*pull, path)
    taxonomy(ws.root, **OLD, needles="Injections.")
    review(*push, *TWO)
    assert review(*pull, old)["added"] == 0 and open_for(ws, "ann") == 2
    files.answer("ann", nothing)
    assert review(*pull, path, old)["added"] == 2 and open_for(ws, "ann") == 0  # the last file is not the latest answer
    assert review(*pull, old)["added"] == 0 and open_for(ws, "ann") == 0
    assert review(*pull, path)["added"] == 0


def test_a_file_that_speaks_for_the_new_list_is_not_overwritten(ws: store.Workspace, review: Any, cli: Any) -> None:
    files, push = review_world.Files(ws), ("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    for more in ({}, {"needles": "Injections."}):
        taxonomy(ws.root, **OLD, **more)
        assert cli(*push).code == 0
        files.answer("ann", nothing)
        refused = cli(*push)
        assert refused.code == 1 and "not in the workspace yet" in refused.err
        review("pull", "--tool", "files", ws.root / "review" / "ann.csv")


def test_what_was_said_of_a_trait_that_left_the_list_is_pulled_and_holds_back_nothing(
    ws: store.Workspace, review: Any, cli: Any
) -> None:
    """The row of accidents was refused, and with it the `*` of c2; once pulled, push asked for another pull."""
    files, push = review_world.Files(ws), ("review", "push", "--tool", "files", *TWO, "-C", ws.root)
    taxonomy(ws.root, **OLD, needles="Injections.", torture="Torture.")
    assert cli(*push).code == 0
    file = ws.root / "review" / "ann.csv"
    verdicts = {"c1": Verdict({"needles": "blood", "torture": "faint"}), "c2": Verdict(unsure=["accidents_disasters"])}
    files.answer("ann", lambda subject, asked: verdicts[subject])
    taxonomy(ws.root, gore=OLD["gore"], torture="Torture.")
    for added in (6, 0):
        pulled = review("pull", "--tool", "files", file)
        assert (pulled["added"], pulled["dropped"]) == (added, {})
    assert gather(store.Workspace.open(ws.root)).left_out == {NO_TRAIT: 2, OTHER_TAXONOMY: 2}
    edit(file, lambda row: {"verdict": "present"} if row["trait"] == "accidents_disasters" else {})
    refused = cli(*push)
    assert refused.code == 1 and ": 1 answers in there are not in the workspace yet" in refused.err
    edit(file, lambda row: {"verdict": "unsure"} if row["trait"] == "accidents_disasters" else {})
    assert cli(*push).code == 0
    assert {row["trait"] for row in rows_of(file)} == {"gore", "torture", "*"}


def test_who_answered_a_task_of_before_finds_it_no_second_time(
    ws: store.Workspace, review: Any, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    """In older versions the name of a task did not depend on the taxonomy: open tasks are replaced."""
    with monkeypatch.context() as patch:
        patch.setattr(servers, "keyed_id", lambda secret, tool, task, asked: task)
        review("push", *TWO)
    first = {n for n, (_, _, name) in memory.held.items() if name == "ann"}
    memory.answers = {min(first): Verdict()}
    sent = review("push", *TWO)["sent"]  # before anything was pulled
    assert (sent["ann"]["added"], sent["ann"]["taken_back"]) == (1, 1)
    assert (sent["bo"]["added"], sent["bo"]["taken_back"]) == (2, 2)
    assert review("pull")["added"] == 2
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 1}
    remaining = [n for n, (_, _, name) in memory.held.items() if name == "ann" and n not in memory.answers]
    assert len(remaining) == 1
    assert store.read(ws, tables.REVIEWS).filter(trait="*").height == 1


def test_nobody_leaves_unticked_what_was_not_on_their_list(
    ws: store.Workspace, review: Any, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    push = ("push", *TWO)
    review(*push)
    memory.answers = {n: Verdict() for n, (_, _, name) in memory.held.items() if name == "ann"}
    review("pull")
    taxonomy(ws.root, **OLD, needles="Injections.")
    review(*push)
    new = next(n for n, (_, _, name) in memory.held.items() if name == "ann" and n not in memory.answers)
    memory.answers[new] = Verdict()
    quote = review_world.span(*("c1", "blood") if "gore" in memory.held[new][1]["asked"] else ("c2", "crash"))
    memory.words[new] = {"present": ["needles"], "spans": {"needles": [quote]}}
    review("pull")
    memory.words[new]["outcome"] = RATHER_NOT  # only the answers on the old traits are left
    assert review("pull")["added"] == 2  # that they hand it back, and the answer on needles
    reviews = store.read(ws, tables.REVIEWS).filter(trait="needles")
    assert reviews["verdict"].to_list() == ["present", None]


def test_other_words_for_a_trait_open_that_trait_and_no_other(ws: store.Workspace, review: Any, cli: Any) -> None:
    """Two people read c1 (asked about gore) and c2 (asked about crashes) and find nothing: the other trait of each is
    absent by `*`. A new wording reopens gore where only `*` covers it, in c2; a new trait closes nothing."""
    files, push, pull = review_world.Files(ws), ("push", "--tool", "files"), ("pull", "--tool", "files")

    def agreed() -> set[tuple[str, str]]:
        assert cli("adjudicate", "-C", ws.root).code == 0
        labels = tables.last(store.read(ws, tables.LABELS), "subject", "trait").filter(method="agreed")
        return set(labels.select("subject", "trait").iter_rows())

    review(*push, *TWO)
    for name in ("ann", "bo"):
        files.answer(name, nothing)
    review(*pull, ws.root / "review")
    expected = {(subject, trait) for subject in ("c1", "c2") for trait in OLD}
    assert agreed() == expected
    taxonomy(ws.root, **(OLD | {"gore": "Blood, wounds and operations."}), needles="Injections.")
    assert agreed() == expected - {("c2", "gore")}
    assert open_for(ws, "ann") == 2  # and is asked again
    review(*push, *TWO)
    for name in ("ann", "bo"):
        files.answer(name, nothing)
    review(*pull, ws.root / "review")
    assert agreed() == expected | {("c1", "needles"), ("c2", "needles")}
