"""CCPE's dialogues."""

import csv
import io

import pytest

from saferec_builder.sources import ccpe
from tests.worlds.dialogues import said


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = [("a", 0, "ASSISTANT", "what do you like"), ("a", 2, "USER", "quiet, slow films"), ("a", 1, "USER", "hm")]
    out = io.StringIO()
    csv.writer(out).writerows([("dialog_id", "utterance_index", "speaker", "text"), *rows, ("b", 0, "USER", "")])
    path.write_text(out.getvalue())
    found = ccpe.read(path)
    first = [("recommender", "what do you like", []), ("seeker", "hm", []), ("seeker", "quiet, slow films", [])]
    assert said(found.rows)[0] == first
    assert found.rows["recommended"].to_list() == [[], []]


def test_a_dialogue_that_comes_twice_in_a_file_is_said_once(tmp_path):
    # two files in one, as `cat` leaves them: the second `a` is longer, `b` is new; each turn of `a` was there twice
    path = tmp_path / "ccpe.csv"
    first = ["a,0,USER,hello", "a,1,ASSISTANT,hi"]
    second = ["a,0,USER,x", "a,1,ASSISTANT,y", "a,2,USER,z", "b,0,USER,w"]
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *first, *second]) + "\n")
    found = ccpe.read(path)
    assert [[turn[1] for turn in turns] for turns in said(found.rows)] == [["hello", "hi"], ["w"]]
    assert found.drops.select("place", "reason").rows() == [(f"ccpe.csv:{n}", "same id") for n in (4, 5, 6)]


@pytest.mark.parametrize(
    ("lines", "texts", "dropped"),
    [
        # the quote of line 2 takes line 3 with it, and of two rows that are gone two are told
        (['a,0,USER,"open', "b,0,USER,x"], [], ["ccpe.csv:2", "ccpe.csv:3"]),
        (['a,0,USER,"open', 'b,0,USER,"x, y"', "c,0,USER,z"], ["z"], ["ccpe.csv:2", "ccpe.csv:3"]),
        (['a,0,USER,"two', 'lines, ""quoted"""', "c,0,USER,z"], ['two\nlines, "quoted"', "z"], []),
    ],
)
def test_a_quote_that_nobody_closes_is_told(tmp_path, lines, texts, dropped):
    path = tmp_path / "ccpe.csv"
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *lines]) + "\n")
    found = ccpe.read(path)
    assert [turn[1] for turns in said(found.rows) for turn in turns] == texts
    assert found.drops.select("place", "reason").rows() == [(place, "not CSV") for place in dropped]
