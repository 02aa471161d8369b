"""OpenDialKG's sessions, as they are published."""

import csv
import json

import pytest

from saferec_builder.sources import opendialkg
from tests.worlds.dialogues import said

PATH = [0.5, [["Heat", "starred_actors", "Al Pacino"]], "Heat, starred actors, Al Pacino"]
SESSION = [
    {"type": "chat", "sender": "user", "message": "Films like\nHeat?"},
    {"type": "action", "sender": "assistant", "metadata": {"path": PATH}, "action_id": "kgwalk/choose_path"},
    {"type": "chat", "sender": "assistant", "message": 'Try "Ronin", then.'},
    {"type": "chat", "sender": "user", "message": " "},
]


def table(path, *cells, delimiter=",", coding="utf-8"):
    with path.open("w", encoding=coding, newline="") as file:
        rows = [("Messages", "User Rating", "Assistant Rating"), *((cell, "5", "4") for cell in cells)]
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@pytest.mark.parametrize("spelling", [{}, {"delimiter": ";"}, {"coding": "utf-16"}])
def test_the_user_of_a_session_is_the_seeker(tmp_path, spelling):
    result = opendialkg.read(table(tmp_path / "copy", json.dumps(SESSION), **spelling))
    assert said(result.rows) == [[("seeker", "Films like\nHeat?", []), ("recommender", 'Try "Ronin", then.', [])]]
    assert result.rows.select("source", "source_id", "place", "domain").rows() == [
        ("opendialkg", result.rows["digest"][0], "copy:2", None)
    ]
    assert result.figures == {"action_messages_left_out": 1, "empty_messages_left_out": 1}


def test_what_is_no_session_is_left_out(tmp_path):
    other = json.dumps([{"type": "chat", "sender": "moderator", "message": "hm"}])
    result = opendialkg.read(table(tmp_path / "t.csv", "[{", other, '{"type": "chat"}', json.dumps(SESSION)))
    assert result.rows.height == 1 and result.drops["reason"].to_list() == ["wrong type"] * 3
    assert result.drops["detail"][1].startswith("0.sender: found str: Input should be 'user' or 'assistant'")
