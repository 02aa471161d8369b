"""OpenDialKG's dialogues, with their own source name and licence."""

import json

from exports import licences
from saferec_builder.sources import opendialkg
from tests.worlds.source_lines import said


def test_a_row_of_messages_is_of_opendialkg(tmp_path):
    path = tmp_path / "conversations.jsonl"
    row = {"id": "train-0", "messages": [said("user", "Like Home Alone?"), said("assistant", "Ferris Bueller")]}
    path.write_text(json.dumps(row) + "\n" + json.dumps({"id": "x"}) + "\n")
    result = opendialkg.read(path)
    assert result.rows.select("source", "source_id").rows() == [("opendialkg", "train-0")]
    assert result.drops["source"].to_list() == ["opendialkg"]
    assert licences.shares("opendialkg") == "text" and "NC" in licences.LICENCES["opendialkg"].name
