"""CCPE's dialogues."""

import csv
import io

from saferec_builder.sources import ccpe
from tests.worlds.dialogues import said


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = [("a", 0, "ASSISTANT", "what do you like"), ("a", 2, "USER", "quiet, slow films"), ("a", 1, "USER", "hm")]
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("dialog_id", "utterance_index", "speaker", "text"), *rows, ("b", 0, "USER", "")])
    path.write_text(buffer.getvalue())
    result = ccpe.read(path)
    turns = [("recommender", "what do you like", []), ("seeker", "hm", []), ("seeker", "quiet, slow films", [])]
    assert said(result.rows)[0] == turns
    assert result.rows["recommended"].to_list() == [[], []]


def test_a_dialogue_that_comes_twice_in_a_file_is_said_once(tmp_path):
    # two files in one, as written by `cat`: the second `a` is longer, `b` is new; each turn of `a` was read twice
    path = tmp_path / "ccpe.csv"
    first = ["a,0,USER,hello", "a,1,ASSISTANT,hi"]
    second = ["a,0,USER,x", "a,1,ASSISTANT,y", "a,2,USER,z", "b,0,USER,w"]
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *first, *second]) + "\n")
    result = ccpe.read(path)
    assert [[turn[1] for turn in turns] for turns in said(result.rows)] == [["hello", "hi"], ["w"]]
    assert result.drops.select("place", "reason").rows() == [(f"ccpe.csv:{n}", "same id") for n in (4, 5, 6)]
