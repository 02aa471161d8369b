"""Lines of a dialogue become one conversation, and a row of a conversation has every column."""

import pytest

from saferec_builder.sources import Left, ccpe, conversation_rows as conversations, inspired
from saferec_builder.storage import tables
from tests.worlds.dialogues import said, tsv

ROLES = {"ASK": "seeker", "TELL": "recommender"}
CELLS = (  # speaker, number, text, items, turn
    *(("TELL", 4, "Try", ["c", "a"], "2"), ("ASK", 1, "Hi", ["a"], "1"), ("ASK", 2, "there", ["b", "a"], "1")),
    *(("ASK", 3, "again", [], "2"), ("TELL", 5, "one", ["c", "d"], "2"), ("TELL", 6, "more", [], None)),
    ("TELL", 7, "still", [], None),
)


def test_lines_of_one_turn_are_joined_and_an_item_is_of_who_named_it_first():
    lines = []
    for n, (speaker, number, text, items, turn) in enumerate(CELLS, 1):
        row = {"speaker": speaker, "dialog_id": "d", "n": str(number), "text": text}
        lines.append(conversations.line(f"/x/f.tsv:{n}", row, ROLES, "n") | {"items": items, "turn": turn})
    drop = {"place": "f.tsv:9"} | dict.fromkeys(("stage", "source", "reason"), "x")
    result = conversations.of_films("s", lines, [drop])
    turns = [("seeker", "Hi there", ["a", "b"]), ("seeker", "again", []), ("recommender", "Try one", ["c", "a", "d"])]
    turns += [("recommender", "more", []), ("recommender", "still", [])]
    assert said(result.rows) == [turns] and result.drops["place"].to_list() == ["f.tsv:9"]
    named = [conversations.Turn(role=role, text=text, items=items) for role, text, items in turns]
    row = {"conversation": tables.digest("s", "d"), "digest": tables.digest(named), "source": "s", "source_id": "d"}
    row |= {"source_file": "f.tsv", "domain": "film", "seeker": None, "time": None, "turns": named, "accepted": []}
    row |= {"recommended": ["c", "d"], "seen": ["a", "b"], "place": "/x/f.tsv:1", "posts": None, "stated": None}
    assert result.rows.row(0, named=True) == row
    assert conversations.row("s", "d", "f:1", [], digest="own")["digest"] == "own"
    assert conversations.read([], [], {"b": 1, "a": 2}).figures == {"a_left_out": 2, "b_left_out": 1}


def test_a_cell_may_hold_json():
    for value, expected in (
        (["a"], ["a"]),
        ('["a"]', ["a"]),
        ("[a", "[a"),
        ("[" * 100_000, "[" * 100_000),
        (None, None),
    ):
        assert conversations.unpacked(value) == expected
    for value, reason in (('{"a": 1, "a": 2}', "key twice"), ('"\\ud83d"', "lone surrogate")):
        with pytest.raises(Left) as left:
            conversations.unpacked(value)
        assert left.value.reason == reason


def test_a_dialogue_that_comes_twice_in_a_file_is_said_once(tmp_path):
    # two files in one, as written by `cat`: the second `a` is longer, `b` is new; each turn of `a` was read twice
    path = tmp_path / "ccpe.csv"
    first = ["a,0,USER,hello", "a,1,ASSISTANT,hi"]
    second = ["a,0,USER,x", "a,1,ASSISTANT,y", "a,2,USER,z", "b,0,USER,w"]
    path.write_text("\n".join(["dialog_id,utterance_index,speaker,text", *first, *second]) + "\n")
    result = ccpe.read(path)
    assert [[turn[1] for turn in turns] for turns in said(result.rows)] == [["hello", "hi"], ["w"]]
    assert result.drops.select("place", "reason").rows() == [(f"ccpe.csv:{n}", "same id") for n in (4, 5, 6)]


def test_no_word_of_a_line_that_slipped_stands_in_a_drop(tmp_path):
    path = tmp_path / "dev.tsv"
    lines = [("d1", 0, "Priya Sharma", 1, "thanks", ""), ("d2", "I have HIV and", "SEEKER", 0, "A film", "")]
    path.write_text(tsv([*lines, ("", 0, "SEEKER", 0, "A film", "")]))
    assert inspired.read(path).drops["detail"].to_list() == [
        "found something like 'xxxxx xxxxxx' (x: a letter, 9: a digit), expected SEEKER or RECOMMENDER",
        "utt_id: found something like 'x xxxx xxx xxx' (x: a letter, 9: a digit), expected a whole number, 0 or more",
        "a line needs a dialog_id",
    ]
