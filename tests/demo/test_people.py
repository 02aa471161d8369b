"""Simulated reviewers err at the stated rates."""

from pathlib import Path

import pytest

from annotation.tools.tasks_and_answers import tasks
from saferec_builder.core.errors import UsageError
from saferec_builder.demo import people
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import rows_of, save


def test_simulated_reviewers_err_at_the_stated_rate(tmp_path: Path) -> None:
    text = "1. seeker: I look away whenever blood is drawn, always have."
    gold = [{"trait": "needles", "form": "implicit", "turn": 0, "quote": "I look away whenever blood is drawn"}]
    head = ["task", "text", "trait", "proposed_quote", "verdict", "form", "quote", "turn", "seconds"]
    blank = [{"task": f"task-{n}", "text": text, "trait": trait} for n in range(2000) for trait in ("needles", "*")]
    path = save(tmp_path / "ann.csv", blank, head)
    assert people.fill(path, {f"task-{n}": gold for n in range(2000)}) == 4000
    rows = rows_of(path)
    needles = [r for r in rows if r["trait"] == "needles"]
    missed = sum(r["verdict"] == "absent" for r in needles) / len(needles)
    assert abs(missed - people.MISSED) < 4 * (0.06 * 0.94 / 2000) ** 0.5  # four standard errors
    added = sum(r["verdict"] != "none" for r in rows if r["trait"] == "*")
    assert 0 < added < 24  # 2,000 x .004 = 8, sd 2.8


def test_the_folder_of_another_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Its texts have other digests, so that its tasks are none of these: it ended in a KeyError."""
    path = tmp_path / "demo" / "review" / "ann.csv"
    path.parent.mkdir(parents=True)
    save(path, [{"task": "task-0", "trait": "*"}], ["task", "trait", "verdict"])
    with pytest.raises(
        UsageError, match="demo: made by another version of this program, or holds other data, too: del"
    ):
        people.fill(path, {})


def test_who_has_added_data_to_a_demo_is_told_so(workspace: store.Workspace) -> None:
    """An item or a task of the user's own ended the next `demo` in a KeyError."""
    store.append(workspace, tables.CATALOG_ROWS, world.catalog())
    given = ("sensitivity", "own", "ann", "reviewer", "d", "proposed", "b")
    store.append(workspace, tables.ASSIGNMENTS, tables.ASSIGNMENTS.frame([given]))
    path = people.path_of(workspace.root, "ann")
    path.parent.mkdir()
    save(path, [{"task": name, "trait": "*"} for name in tasks(store.read(workspace, tables.ASSIGNMENTS))])
    with pytest.raises(UsageError, match="or holds other data, too: delete it, or name another with --to"):
        people.answer(workspace, {}, ["ann"])
