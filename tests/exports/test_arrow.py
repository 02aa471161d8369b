"""Prompts and lists as columns."""

import polars as pl

from exports import arrow as shapes, formats as rows
from saferec_builder.storage import tables


def turn(role, text):
    return {"role": role, "text": text, "items": []}


def prompts(*talks, cut=99, added=None, disclosed=None):
    turns = pl.Series(list(talks), dtype=pl.List(tables.TURN))
    size = len(talks)
    extra, place = (pl.Series(values or [None] * size, dtype=pl.String) for values in (added, disclosed))
    kind = rows.schemas()["sft"].field("prompt").type.value_type
    return shapes.prompts(turns, pl.Series([cut] * size), pl.Series([True] * size), kind, extra, place).to_pylist()


def test_a_prompt_takes_turns_and_ends_with_the_user():
    texts = ["Hi", " I faint at blood ", "Noted", "  ", "Any year?", "1990s", "Let me think"]
    turns = [turn("recommender" if n in (2, 4, 6) else "seeker", text) for n, text in enumerate(texts)]
    expected = [
        {"role": "user", "content": "Hi\nI faint at blood"},
        {"role": "assistant", "content": "Noted\nAny year?"},
        {"role": "user", "content": "1990s"},
    ]
    # adjacent rows stay separate, also where a row has no text
    assert prompts(turns, [], [turn("recommender", "Hm")], turns) == [expected, [], [], expected]
    assert prompts(turns, cut=2) == [expected[:1]]


def test_an_injected_sentence_may_stand_in_the_first_word_of_the_seeker():
    turns = [turn("recommender", "Yes?"), turn("seeker", "Hi"), turn("recommender", "And?"), turn("seeker", "A film")]
    chats = prompts(turns, turns, added=["I faint."] * 2, disclosed=["first", "last"])
    assert [[m["content"] for m in p] for p in chats] == [
        ["Yes?", "Hi I faint.", "And?", "A film"],
        ["Yes?", "Hi", "And?", "A film I faint."],
    ]


def test_a_list_is_numbered_lines_in_the_order_of_its_ids():
    frame = pl.DataFrame({"item": ["d", "e", "a"], "title": ["D", "E", "A\n9. Saw"], "year": [2004, None, 2001]})
    ids = pl.Series([["d", "e"], [], ["a"]], dtype=pl.List(pl.String))
    # a title stays on one line, whatever the source contains
    assert shapes.Names(frame).lines(ids).to_pylist() == ["1. D (2004)\n2. E", "", "1. A 9. Saw (2001)"]
    names = shapes.Names(frame)
    assert names.lists(ids, names.titles).to_pylist() == [["D", "E"], [], ["A 9. Saw"]]
    assert names.lists(ids, names.pairs).to_pylist() == [[["D", "2004"], ["E", ""]], [], [["A 9. Saw", "2001"]]]
    talks = pl.Series(
        [[turn("seeker", "a"), turn("recommender", "b")], [turn("seeker", "c")], []], dtype=pl.List(tables.TURN)
    )
    kind = rows.schemas()["conversations"].field("turns").type.value_type
    expected = [
        [{"role": "seeker", "text": "a"}, {"role": "recommender", "text": "b"}],
        [{"role": "seeker", "text": "c"}],
        [],
    ]
    assert shapes.turns(talks, pl.Series([True] * 3), kind).to_pylist() == expected
    assert shapes.turns(talks, pl.Series([False, True, True]), kind).to_pylist() == [[], *expected[1:]]
