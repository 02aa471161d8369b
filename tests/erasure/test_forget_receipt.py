"""What `forget` says that it did, and what is left to its owner."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest

from annotation.tools import local_label_studio
from annotation.tools.tasks_and_answers import SHEET
from saferec_builder.core.errors import ReviewError, StoreError, UsageError
from saferec_builder.erasure import forget as stage
from saferec_builder.erasure.people import Erasure, Receipt
from saferec_builder.storage import tables, workspace as store
from tests.worlds.any_rows import rows


@pytest.fixture
def done(tmp_path: Path) -> stage.Forgotten:
    receipts = [Receipt("ann", ["c1"], False, 2), Receipt("bo", [], True)]
    counts = {"tasks": 1, "lines": 1000, "labels": 2, "marks": 0}
    files, emptied = [tmp_path / "a"], [tmp_path / "releases/1.0.0"]
    return stage.Forgotten(receipts, counts, files, emptied, ["this"], False, 3, [tmp_path / "b"])


def test_a_receipt_has_each_wish_count_and_file(done: stage.Forgotten, tmp_path: Path) -> None:
    assert done.total == "2 rows of tables, 1,000 lines of files, 1 task on review servers"
    assert replace(done, rows={"labels": 2}).total == "2 rows of tables, 0 lines of files"
    assert replace(done, rows={"labels": 1, "lines": 1}).total == "1 row of tables, 1 line of files"
    figures = {
        "where": {"tasks": 1, "lines": 1000, "labels": 2},
        "resumed": 3,
        "ann": "1 conversation (people in these have 2 more)",
        "bo": "0 conversations, known before",
        "releases": ["releases/1.0.0"],
        "still_in": ["a"],
        "not_read": ["b"],
        "do_1": "this",
    }
    assert done.figures(tmp_path) == figures
    dry_run = replace(done, dry=True, resumed=0, unread=[], emptied=[], outside=[])
    expected = {"where": figures["where"], "ann": figures["ann"], "bo": figures["bo"], "files": ["a"]}
    assert dry_run.figures(tmp_path) == expected and dry_run.fault is None


def test_the_first_thing_to_look_at_is_said(done: stage.Forgotten, tmp_path: Path) -> None:
    assert done.fault == f"forget: still named in {tmp_path / 'a'}: look there"
    two = replace(done, files=[], unread=[tmp_path / "b", tmp_path / "c"])
    assert two.fault == f"forget: nobody can read {tmp_path / 'b'} and 1 other file: look there"
    assert replace(two, unread=[]).fault is None
    for dry, verb in ((True, "would leave"), (False, "will leave")):
        unmet = replace(done, receipts=[*done.receipts, Receipt("x", [], False)], dry=dry)
        assert "nobody here is meant by x, so nothing was erased for it: if that is how a source" in unmet.fault
        assert f"mining {verb} them out; if it is a typo, run it again" in unmet.fault
        assert ("the name is kept" in unmet.fault) is not dry  # in a dry run nothing is


def test_two_erasures_are_told_as_one(done: stage.Forgotten, tmp_path: Path) -> None:
    """A table of which only the first erased rows was left out."""
    files = [tmp_path / "c", tmp_path / "a"]
    later = replace(done, receipts=[], rows={"labels": 5, "marks": 1}, files=files, outside=["that", "this"], resumed=0)
    merged = stage._merged(done, later)
    assert merged.rows == {"tasks": 1, "lines": 1000, "labels": 7, "marks": 1}
    assert (merged.resumed, merged.receipts) == (3, [])
    assert (merged.files, merged.outside) == ([tmp_path / "a", tmp_path / "c"], ["this", "that"])
    assert (merged.emptied, merged.unread) == (done.emptied, done.unread)


def test_what_is_under_way_is_read_as_it_was_written(tmp_path: Path) -> None:
    erasure = Erasure([("s", "k")], [("c", "d")], {"c": "gone"}, [("s", "i")], [("s", "f")], ["o"], ["b"], ["t"], [])
    (tmp_path / "intent").write_text(json.dumps(asdict(erasure)))
    assert stage._read_intent(tmp_path / "intent") == erasure
    (tmp_path / "intent").write_text("[")
    with pytest.raises(StoreError, match="intent: damaged: put your copy of the workspace back"):
        stage._read_intent(tmp_path / "intent")


def test_tasks_on_a_server_that_is_not_given_or_on_that_of_another_machine_stop_it(workspace: store.Workspace) -> None:
    """In a folder that machines share, rows were deleted under a Label Studio that ran elsewhere."""
    erasure = Erasure(tasks=["task-1", "task-2"])
    stage._check_server(workspace, erasure, None, False)
    sent = [("label_studio", "mark", f"task-{n}-aa", f"{n}", "there") for n in (1, 2, 3)]
    store.append(workspace, tables.SENT, tables.SENT.frame(sent))
    stage._check_server(workspace, erasure, None, True)
    with pytest.raises(ReviewError, match=r"2 tasks about them are on a review server \(label-studio\): give it"):
        stage._check_server(workspace, erasure, None, False)
    (workspace.root / "label-studio").mkdir()
    local_label_studio.save(workspace.root / "label-studio", {"host": "elsewhere", "pid": 1})
    with pytest.raises(ReviewError, match="was started on elsewhere, and only one machine may use its database"):
        stage._check_server(workspace, erasure, None, True)


def test_each_place_out_of_reach_is_one_line(workspace: store.Workspace, tmp_path: Path) -> None:
    ws, inputs = workspace, [("reddit", "RS"), ("messages", "own"), ("x", "own")]
    erasure = Erasure(revisions=[("c", "d")], inputs=inputs)
    backups = "backups and snapshots of this folder"

    def todo(erasure: Erasure, *emptied: Path, team: bool = False, dry: bool = False) -> list[str]:
        return [line.partition(":")[0] for line in stage._todo(ws, erasure, emptied, team=team, dry=dry)]

    assert todo(Erasure()) == [] and todo(replace(erasure, inputs=[])) == [backups]
    dumps = "dumps of comments that were mined with it, wherever they lie"
    assert todo(erasure) == ["RS", "own", dumps, backups]
    (ws.root / "label-studio" / "data").mkdir(parents=True)
    (ws.root / "label-studio" / "data" / "label_studio.sqlite3").touch()
    own = "this workspace's Label Studio, which is stopped for it"  # `next` was to pull from it
    assert own not in todo(erasure) and todo(replace(erasure, tasks=["task-1"]))[0] == own
    assert todo(erasure, team=True)[-2:] == ["the database of the review server, its log and backups", backups]
    emptied = ws.releases / "1.0.0", ws.root / "published"
    copies = ["copies of these releases that `publish --to` made", "models that were trained on these releases"]
    comparisons = "`diff` and the report cannot compare anything with these releases once their data is deleted"
    assert todo(Erasure(before=["c"]), *emptied) == ["release 1.0.0, if it is out", *copies]
    assert todo(Erasure(before=["c"]), *emptied, dry=True)[-1] == comparisons  # afterwards nobody can compare any more
    both = todo(Erasure(before=["c"]), *emptied, ws.releases / "2.0.0")
    assert both == ["releases 1.0.0, 2.0.0, each if it is out", *copies]  # it was a line for each
    for table in (tables.BATCHES, tables.KEYED, tables.SPEND):
        store.append(ws, table, rows(table, 1))
    assert not any(line.startswith("CSVs") for line in todo(erasure))  # a server's tasks have keys, too
    store.append(ws, tables.KEYED, rows(tables.KEYED, 1).with_columns(task=pl.lit(f"task-9{SHEET}")))
    (ws.root / "data").symlink_to(tmp_path.parent)
    (ws.root / "x.zip").write_bytes(b"PK\x03\x04")
    lines = todo(replace(erasure, inputs=[]))
    assert lines[:2] == ["data", "x.zip"] and lines[-1] == backups and len(lines) == 6
    assert lines[3].startswith("CSVs that reviewers have") and lines[4].startswith("whoever serves ")


@pytest.mark.parametrize(("name", "problem"), [("", "empty"), (" \n", "empty"), ("caf\udce9", "not UTF-8")])
def test_what_is_no_name_is_nobody_who_was_forgotten_before(
    workspace: store.Workspace, name: str, problem: str
) -> None:
    """Of a variable that was not set it said `0 conversations, known before`, and ended well; a name of a terminal in
    Latin-1 ended in a traceback."""
    with pytest.raises(UsageError, match=f"forget: a name is {problem}: expected ids and authors, or no name at all"):
        stage.forget(workspace, ["c1", name])
    assert stage.forget(workspace, [" c1\n"], dry=True).receipts == [Receipt("c1", [], False)]


@pytest.mark.slow
def test_a_typo_that_is_given_twice_means_nobody_and_keeps_the_report(workspace: store.Workspace) -> None:
    """The second time it counted as the name of somebody who was erased before, and the report was deleted."""
    store.append(workspace, tables.CONVERSATIONS, rows(tables.CONVERSATIONS, 1))
    (page := workspace.root / "report.html").touch()
    for only in ("", "", "id"):
        result = stage.forget(workspace, "c0l2", only=only)
        assert not result.receipts[0].met and "nobody here is meant by c0l2" in str(result.fault)
        assert result.outside == [] and page.exists()
    (name,) = store.read(workspace, tables.CONVERSATIONS)["source_id"]
    assert stage.forget(workspace, name).receipts[0].conversations and not page.exists()
    page.touch()  # it may be back from a backup, and show them
    assert stage.forget(workspace, name).receipts[0].before and not page.exists()


@pytest.mark.slow
@pytest.mark.parametrize("only", ["", "id"])
def test_who_was_erased_is_known_also_once_another_source_was_mined(workspace: store.Workspace, only: str) -> None:
    """A name stands for somebody in each source, so it was taken for a new one, which means nobody."""
    store.append(workspace, tables.CONVERSATIONS, rows(tables.CONVERSATIONS, 1))
    (name,) = store.read(workspace, tables.CONVERSATIONS)["source_id"]
    assert stage.forget(workspace, name, only=only).receipts[0].conversations
    other = rows(tables.CONVERSATIONS, 2).with_columns(source=pl.lit("ccpe"))
    store.append(workspace, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(other.rows()))
    for _ in range(2):
        result = stage.forget(workspace, name)
        assert result.receipts[0].before and result.fault is None
