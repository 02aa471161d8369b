"""CCPE's dialogues."""

import gzip
import json

import pytest

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import ccpe
from tests.worlds.dialogues import said


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = ("a,0,ASSISTANT,what do you like", 'a,2,USER,"quiet, slow films"', "a,1,USER,hm", "b,0,USER,")
    path.write_text("\n".join(("dialog_id,utterance_index,speaker,text", *rows)))
    result = ccpe.read(path)
    turns = [("recommender", "what do you like", []), ("seeker", "hm", []), ("seeker", "quiet, slow films", [])]
    assert said(result.rows)[0] == turns
    assert result.rows["recommended"].to_list() == [[], []]


def utterance(index, speaker, text, **fields):
    return {"index": index, "speaker": speaker, "text": text, **fields}


PUBLISHED = [
    {
        "conversationId": "CCPE-1",
        "utterances": [
            utterance(0, "ASSISTANT", "what do you like"),
            utterance(2, "USER", "quiet, slow films ", segments=[{"startIndex": 0, "endIndex": 5, "text": "quiet"}]),
            utterance(1, "USER", "hm"),
        ],
    },
    {"conversationId": "CCPE-2", "utterances": [utterance(0, "NARRATOR", "hm")]},
    {"conversationId": "CCPE-3", "utterances": []},
    {"conversationId": "CCPE-4", "utterances": [utterance(0, "USER", "Calm ones.")]},
]


def test_the_published_list_gives_the_conversations_of_the_table(tmp_path):
    (tmp_path / "data.json").write_bytes(gzip.compress(json.dumps(PUBLISHED, indent=2).encode()))  # also packed
    rows = 'CCPE-1,0,ASSISTANT,what do you like\nCCPE-1,1,USER,hm\nCCPE-1,2,USER,"quiet, slow films"'
    (tmp_path / "t.csv").write_text(f"dialog_id,utterance_index,speaker,text\n{rows}\nCCPE-4,0,USER,Calm ones.")
    published, table = (ccpe.read(tmp_path / name) for name in ("data.json", "t.csv"))
    files = "place", "source_file"
    assert published.rows.drop(files).equals(table.rows.drop(files)) and published.rows.height == 2
    assert published.rows["place"].to_list() == ["data.json:1", "data.json:4"]
    reasons = [("data.json:2", "unknown speaker"), ("data.json:3", "wrong type")]
    assert published.drops.select("place", "reason").rows() == reasons


def test_a_list_that_is_cut_is_no_table(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(PUBLISHED)[:-9])
    with pytest.raises(SourceError, match=r"not a JSON file.*: expected the data.json of CCPE-M"):
        ccpe.read(tmp_path / "data.json")
