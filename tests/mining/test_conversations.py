"""Conversations: one row per id, the finer of two, no names."""

import polars as pl

from saferec_builder.mining import conversations as mine
from saferec_builder.sources import conversation_rows as conversations
from tests.worlds.mined import EMPTY, talk
from tests.worlds.source_lines import texts


def mined(*rows, have=EMPTY):
    return mine.mine(conversations.frame(list(rows)), have)


def test_a_conversation_in_which_nobody_asks_is_dropped():
    rows, drops = mined(talk("a", "hi"), talk("b", "  ", "Heat", place="f:2"), talk("c", place="f:3"))
    assert rows["source_id"].to_list() == ["a"]
    left_out = [("f:2", "no seeker text", ""), ("f:3", "no seeker text", "")]  # a source's id may name somebody
    assert drops.select("place", "reason", "detail").rows() == left_out


def test_the_finer_of_two_stays_whatever_the_order():
    coarse, fine = talk("a", "hi there"), talk("a", "hi", "there", place="f:2")
    forth, back = mined(coarse, fine), mined(fine, coarse)
    assert texts(forth[0]) == texts(back[0]) == [["hi", "there"]]
    assert forth[1].equals(back[1])
    assert forth[1].select("place", "reason").rows() == [("f:1", "same id")]


def test_the_very_same_row_twice_is_one_conversation_and_one_drop():
    # also where two files have one name, so that both rows stand at the same place
    rows, drops = mined(talk("a", "hi"), talk("a", "hi"))
    assert (rows.height, drops.height) == (1, 1)


def test_across_runs_the_finer_is_a_revision_and_the_coarser_is_dropped():
    coarse, fine = talk("a", "hi  there"), talk("a", "hi", "there")
    first, _ = mined(coarse)
    second, drops = mined(fine, have=first)
    assert (second.height, drops.height) == (1, 0)
    first_fine, _ = mined(fine)
    rows, drops = mined(coarse, have=first_fine)
    assert (rows.height, drops["reason"].to_list()) == (0, ["same id"])
    # an older revision that comes again is in the table already: nothing to drop, nothing to add
    rows, drops = mined(coarse, have=pl.concat([first, second]))
    assert (rows["digest"].to_list(), drops.height) == ([coarse["digest"]], 0)


def test_a_changed_text_is_a_revision_even_with_fewer_turns():
    had, _ = mined(talk("a", "hi", "Heat", "thanks"))
    rows, drops = mined(talk("a", "hello", "Heat"), have=had)
    assert (rows.height, drops.height) == (1, 0)


def test_pseudonyms_are_keyed_and_stable():
    talks = [talk("a", "x"), talk("b", "x", seeker="bo"), talk("c", "x"), talk("d", "x", seeker=None)]
    rows = mine.pseudonyms(conversations.frame(talks), b"key")
    by = dict(rows.select("source_id", "seeker").rows())
    assert by["a"] == by["c"] != by["b"]
    assert by["d"] is None
    assert not {"ann", "bo"} & set(by.values())
    other = mine.pseudonyms(conversations.frame(talks), b"another key")
    assert other["seeker"][0] != by["a"]
