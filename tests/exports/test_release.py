"""A release as an object: made from a workspace or opened from its folder, verified, compared and copied."""

from pathlib import Path

import pytest

from exports.release import Release, release
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    rows, said = world.requests()
    return world.fill(workspace, rows[:-1], said[:-1])


def test_a_release_tells_what_it_holds(ws: store.Workspace) -> None:
    made = release(ws, "1.0.0")
    assert made.new and made.version == "1.0.0" and made.folder == ws.releases / "1.0.0"
    assert (made.learned, made.rows["conversations"], made.advice) == (39, 39, None)
    assert not release(ws, "1.0.0").new  # with the same rows it is there already
    opened = Release.open(made.folder)
    assert (opened.version, opened.rows, opened.learned) == ("1.0.0", made.rows, 39)
    found = opened.verify()
    assert (found.name, found.version, found.rows) == (made.manifest["name"], "1.0.0", sum(made.rows.values()))


def test_requests_with_a_sentence_of_ours_are_no_further_conversations(ws: store.Workspace) -> None:
    made = release(ws, "1.0.0", inject="gore")
    assert made.manifest["conditions"]["injected"] == 20
    assert (made.learned, made.rows["grpo"], made.rows["conversations"]) == (39, 59, 39)


def test_two_releases_are_compared_and_one_is_copied(ws: store.Workspace, tmp_path: Path) -> None:
    first = release(ws, "1.0.0")
    world.fill(ws, *world.requests())
    second = release(ws, "1.1.0")
    found = first.diff(second)
    assert (found.before, found.after, found.rows["conversations"]["added"]) == ("1.0.0", "1.1.0", 1)
    assert found.as_json()["from"] == "1.0.0" and "metrics" not in found.as_json()
    copied = second.publish(tmp_path / "out")
    assert (copied.version, copied.to, copied.skipped) == ("1.1.0", tmp_path / "out", 0)
    assert Release.open(tmp_path / "out").verify().files == copied.added
    assert second.publish(tmp_path / "out").added == 0


def test_a_release_outside_a_workspace_is_not_published_past_its_removals(ws: store.Workspace, tmp_path: Path) -> None:
    made = release(ws, "1.0.0")
    made.publish(tmp_path / "out" / "copy")
    with pytest.raises(UsageError, match="no workspace"):
        Release.open(tmp_path / "out" / "copy").publish(tmp_path / "again")
    asked = "source,source_id,author\nmessages,c001,\n"
    (ws.root / "removals.csv").write_text(asked)
    with pytest.raises(ReleaseError, match="removals.csv asks for, first c001: make 2.0.0"):
        made.publish(tmp_path / "later")


def test_what_stops_a_release_leaves_no_folder(workspace: store.Workspace) -> None:
    with pytest.raises(ReleaseError, match="no labels to release.*saferec-build adjudicate"):
        release(workspace, "1.0.0")
    with pytest.raises(ReleaseError, match="expected MAJOR.MINOR.PATCH"):
        release(workspace, "1.0")
    assert not list(workspace.root.rglob("manifest.json"))
    assert store.read(workspace, tables.DROPS).is_empty()
