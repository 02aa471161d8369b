"""A push assigns exactly the tasks that arrived: refused halfway, killed anywhere, run again with other people."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from annotation.page.tasks import Tasks
from annotation.push import push
from annotation.review_destinations import Files, ReviewPage
from saferec_builder.storage import tables, whole_files, workspace as store
from tests.worlds import review_page, review_world
from tests.worlds.pushes import ALL, FILES, TWO, given, in_files, nothing_is_left, planted, shown_in_files
from tests.worlds.review_world import TEXTS
from tests.worlds.settings import review_settings

# ---- files


ws = review_world.ws_with_decoys


@pytest.mark.slow
def test_a_file_that_cannot_be_written_commits_nothing(ws, cli, monkeypatch):
    """ann's file does not take its place either: half a push would be dealt again."""
    words, replacing = ("review", "push", *FILES, *ALL, "-C", ws.root), whole_files.replacing

    def refusing(path: Path, *mode: int) -> Any:
        if path.name == "bo.csv":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return replacing(path, *mode)

    monkeypatch.setattr(whole_files, "replacing", refusing)
    result = cli(*words)
    assert (result.code, result.err.count("\n")) == (1, 1), result.err
    assert "bo.csv: No space left" in result.err and "0 of 8 new tasks arrived and are assigned" in result.err
    assert given(ws) == in_files(ws) == set()
    assert cli(*words).code == 1 and not given(ws)  # still no room
    monkeypatch.setattr(whole_files, "replacing", replacing)
    assert cli(*words, "--json").json["added"] == 8
    assert given(ws) == in_files(ws) == {(name, c) for name in ("ann", "bo") for c in TEXTS}
    assert planted(ws) == shown_in_files(ws) and nothing_is_left(ws)


@pytest.mark.slow
def test_a_budget_is_for_both_the_push_that_broke_off_and_the_one_after(ws, cli, monkeypatch):
    """Four units in all: two readers of c1 and of c2, with one claim each."""
    words = ("review", "push", *FILES, *TWO, "--band", 0, "--json", "-C", ws.root)
    replace = os.replace

    def breaks(tmp: Any, path: Any) -> None:  # bo's file is in its place by then
        if str(path).endswith("ann.csv"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        replace(tmp, path)

    monkeypatch.setattr(os, "replace", breaks)
    assert cli(*words, "--budget", 3).code == 1
    monkeypatch.undo()
    arrived = given(ws)
    assert {name for name, _ in arrived} == {"bo"}
    assert cli(*words, "--budget", 3).json["added"] == 3 - len(arrived)
    assert cli(*words, "--budget", 3).json["added"] == 1  # that push ended well: the next one has its own budget


# ---- the page


@pytest.mark.slow
def test_a_page_that_is_open_shows_what_was_proposed_since(ws):
    """Until a restart it asked about the earlier proposals only: its `*` answered for cards that were never shown."""
    review_settings(ws.root, decoys=0.0)
    push(ws, ("ann", "bo"), to=ReviewPage())
    page = Tasks(ws)
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([review_world.claim("c2", "gore", "present", "crash")]))
    assert push(ws, ("ann", "bo"), to=ReviewPage()).counts.added == 0
    trait_sets = {tuple(card["trait"] for card in task["cards"]) for task in review_page.shown(page, "ann")}
    assert trait_sets - {()} == {("gore",), ("accidents_disasters", "gore")}  # audits, which are drawn, have no card


def test_a_push_without_anything_new_says_what_else_can_be_read(workspace, cli):
    """It said `new: none`, although two of four conversations were assigned to nobody."""
    review_world.fill(workspace)
    words = ("review", "push", *FILES, *TWO, "-C", workspace.root, "--json")
    first, second = cli(*words).json, cli(*words).json
    assert first["new"] == {"proposed": 4} and "unassigned" not in first
    assert (second["new"], second["unassigned"]) == ({}, 2)
    assert "the draw ([review] audit = 0) left them out" in second["next"] and "again with --all" in second["next"]
    assert cli(*words, "--all").json["new"] == {"audit": 4}
    assert "unassigned" not in cli(*words, "--all").json


@pytest.mark.slow
def test_a_push_of_more_than_a_day_says_how_long_it_takes(ws, monkeypatch):
    """`propose --items` put 3,800 items into two people's sheets, without a word about the time that they take."""
    monkeypatch.setattr("annotation.push._seconds", lambda state: 36_000.0)  # 10 hours for each claim
    assert "time" not in push(ws, ["ann", "bo"], to=Files(), budget=1).counts.figures  # who limits a push knows
    result = push(ws, ["ann", "bo"], to=Files())
    hours = 10 * result.assignments.height
    assert hours and str(result.counts.figures["time"]).startswith(f"about {hours} hours of reading, of all ")
