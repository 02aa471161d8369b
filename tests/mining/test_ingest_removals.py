"""A removal that matches nobody is reported with the nearest ids: otherwise somebody would stay in unnoticed."""

import json
import re

import pytest

from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.reddit_dump import comment, submission
from tests.worlds.source_lines import chat


def file_of(tmp_path, file, *ids):
    path = tmp_path / f"{file}.jsonl"
    path.write_text("\n".join(chat(name, f"Something calm for {name}, please", user=f"u-{name}") for name in ids))
    return path


def wish(ws, *rows):
    (ws.root / "removals.csv").write_text("\n".join(("source,source_id,author", *rows)) + "\n")


def mined(cli, ws, source, *paths):
    return cli("mine", source, *paths, "-C", ws.root, "--json")


def held(ws):
    return set(store.read(ws, tables.CONVERSATIONS)["source_id"])


def test_a_misspelt_id_is_told_with_the_nearest_and_what_was_mined_is_kept(cli, workspace, tmp_path):
    wish(workspace, "messages,talk-0O7,")
    result = mined(cli, workspace, "messages", file_of(tmp_path, "a", "talk-007", "talk-123", "other"))
    assert result.code == 1 and result.err.count("\n") == 1
    assert "removals.csv: 1 removal names nobody in the workspace, in these files" in result.err
    assert "line 2, 'talk-0O7' (nearest: talk-007" in result.err and "other" not in result.err
    assert result.json["added"] == 3 and held(workspace) == {"talk-007", "talk-123", "other"}
    wish(workspace, "messages,talk-007,")
    assert mined(cli, workspace, "messages", tmp_path / "a.jsonl").code == 0


NOBODY = {  # row of removals.csv -> what is told of it
    "messages,,u-aa": "line 2, an author (is it the source's spelling?)",
    "messages,u-a1,": "line 2, 'u-a1' (nearest: a1)",  # this is the author's name, not the id
    "messages,,a1": "line 2, an author",  # and the other way round
    "redial,a1,": "line 2, 'a1' (nearest: a1)",  # of another source
    "messages,zzz,": "line 2, 'zzz' (nearest: none is like it)",
}


@pytest.mark.slow
def test_what_names_nobody(cli, workspace, tmp_path):
    path = file_of(tmp_path, "a", "a1", "b2")
    for row, told in NOBODY.items():
        wish(workspace, row)
        result = mined(cli, workspace, "messages", path)
        assert result.code == 1 and told in result.err and result.json["out"] == 2, result.err
        assert "u-a" not in result.err.replace(repr(row.split(",")[1]), "")  # no name of a person


def test_who_is_written_as_a_wish_but_for_capitals_is_counted_and_not_named(cli, workspace, tmp_path):
    """Only the author with exactly this spelling was removed, and the other was not mentioned."""
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(chat(u, f"Something calm for {u}, please", user=u) for u in ("anna", "ANNA", "bo")))
    wish(workspace, "messages,,anna")
    result = mined(cli, workspace, "messages", path)
    assert result.code == 0 and held(workspace) == {"ANNA", "bo"}
    warning = result.json["authors_as_in_removals_but_for_capitals"]
    assert warning.startswith("1: if one is the same person, add a row") and "ANNA" not in json.dumps(result.json)
    wish(workspace, "messages,,anna", "messages,,ANNA")
    assert "authors_as_in_removals_but_for_capitals" not in mined(cli, workspace, "messages", path).json


@pytest.mark.slow
@pytest.mark.parametrize("row", ["messages,a1,", ",a1,", "messages,,u-a1", "messages,a1,nobody", "messages,x,u-a1"])
def test_who_is_in_the_files_is_left_out_and_stays_known(cli, workspace, tmp_path, row):
    """The removal is written first: they never enter the workspace, and a later file without them is no fault."""
    wish(workspace, row)
    first, second = file_of(tmp_path, "a", "a1", "b2"), file_of(tmp_path, "b", "c3")
    for path in (first, first, second):
        result = mined(cli, workspace, "messages", path)
        assert result.code == 0, result.err
    assert held(workspace) == {"b2", "c3"}
    honoured = store.read(workspace, tables.HONOURED)
    assert honoured.height == 1 and re.fullmatch("[0-9a-f]{16}", honoured["who"][0])  # a keyed pseudonym
    stored = b"".join(path.read_bytes() for path in workspace.root.rglob("honoured/*"))
    assert b"u-a1" not in stored


@pytest.mark.slow
def test_the_order_of_files_and_of_commands(cli, workspace, tmp_path):
    wish(workspace, "messages,b2,")
    first, second = file_of(tmp_path, "a", "a1"), file_of(tmp_path, "b", "b2", "b3")
    result = mined(cli, workspace, "messages", first)
    assert result.code == 1 and "mine the files that hold them too" in result.err and held(workspace) == {"a1"}
    assert mined(cli, workspace, "messages", first, second).code == 0  # in a later file of the command
    assert mined(cli, workspace, "messages", first).code == 0 and held(workspace) == {"a1", "b3"}


@pytest.mark.slow
def test_a_text_that_is_what_it_was_before_the_person_came_is_not_withheld(cli, workspace, tmp_path):
    """The table had that text already, so the later one, which is to be removed, stayed the current one."""
    path, added = tmp_path / "a.jsonl", []
    calm, theirs = chat("a", "Something calm?", user="ann"), chat("a", "Something calm? Bo asks", user="bo")
    for text, row in ((calm, "x"), (theirs, "x"), (calm, "bo"), (calm, "bo"), (theirs, "x"), (calm, "bo")):
        path.write_text(text)
        wish(workspace, f"messages,,{row}")
        summary = mined(cli, workspace, "messages", path).json
        added.append((summary["added"], summary.get("kept_with_later_words")))
    assert added == [(1, None), (1, None), (1, None), (0, None), (0, 1), (0, None)]
    conversations = store.read(workspace, tables.CONVERSATIONS)
    assert conversations["turns"].to_list()[2] == conversations["turns"].to_list()[0]
    assert withheld.reasons(workspace, conversations) == {}


def test_a_text_of_who_is_removed_stays_withheld_where_the_file_names_nobody(cli, workspace, tmp_path):
    path = tmp_path / "a.jsonl"
    for text, row in ((chat("a", "Something calm?", user="bo"), "x"), (chat("a", "Something calm?"), "bo")):
        path.write_text(text)
        wish(workspace, f"messages,,{row}")
        mined(cli, workspace, "messages", path)
    conversations = store.read(workspace, tables.CONVERSATIONS)
    assert len(withheld.reasons(workspace, conversations)) == conversations.height == 1


@pytest.mark.slow
def test_what_another_source_gave_before_counts(cli, workspace, tmp_path):
    rows = [{"conversationId": "77", "initiatorWorkerId": 5, "respondentWorkerId": 6}]
    talk = {"messages": [{"text": "A film?", "senderWorkerId": 5}, {"text": "Hm", "senderWorkerId": 6}]}
    path = tmp_path / "redial.jsonl"
    path.write_text(json.dumps(rows[0] | talk))
    assert mined(cli, workspace, "redial", path).code == 0
    chats = file_of(tmp_path, "a", "a1")
    for row in ("redial,77,", "redial,,5", "redial,,6", ",77,"):
        wish(workspace, row)
        assert mined(cli, workspace, "messages", chats).code == 0, row
    wish(workspace, "redial,5,")  # a worker's number is no conversation's
    assert mined(cli, workspace, "messages", chats).code == 1


@pytest.mark.slow
def test_posts_of_reddit(cli, workspace, tmp_path):
    dump = [submission(1, author="Ann"), comment(10, "s1", author="Helper"), submission(2, author="Bo")]
    path = reddit_dump.write(tmp_path / "all.ndjson", dump)
    wish(workspace, "reddit,c10,", "reddit,,u/Bo")
    for _ in range(2):  # the second time from the shards
        assert mined(cli, workspace, "reddit", path).code == 0
    assert mined(cli, workspace, "messages", file_of(tmp_path, "a", "a1")).code == 0
    wish(workspace, "reddit,c10,", "reddit,,u/Boo", "reddit,t3_s3,")
    result = mined(cli, workspace, "reddit", path)
    assert result.code == 1 and "2 removals name nobody" in result.err and "line 3, an author" in result.err
    assert "line 4, 't3_s3' (nearest: " in result.err and result.json["out"] == 2  # s1, and s2 of Bo, not of Boo


def test_of_many_the_first_are_told(cli, workspace, tmp_path):
    wish(workspace, *(f"messages,x{n},{'y' * 300}" for n in range(40)))
    result = mined(cli, workspace, "messages", file_of(tmp_path, "a", "a1"))
    assert result.code == 1 and "40 removals" in result.err and "line 6" in result.err and "line 7" not in result.err
    assert len(result.err) < 1_600
