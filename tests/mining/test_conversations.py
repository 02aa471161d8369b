"""Conversations: one row per id, the one with more turns of two, no names."""

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
    coarse_first, fine_first = mined(coarse, fine), mined(fine, coarse)
    assert texts(coarse_first[0]) == texts(fine_first[0]) == [["hi", "there"]]
    assert coarse_first[1].equals(fine_first[1])
    assert coarse_first[1].select("place", "reason").rows() == [("f:1", "same id")]


def test_the_very_same_row_twice_is_one_conversation_and_one_drop():
    # also if two files have the same name, so that both rows have the same place
    rows, drops = mined(talk("a", "hi"), talk("a", "hi"))
    assert (rows.height, drops.height) == (1, 1)


def test_across_runs_the_finer_is_a_revision_and_the_coarser_is_dropped():
    coarse, fine = talk("a", "hi  there"), talk("a", "hi", "there")
    coarse_rows, _ = mined(coarse)
    fine_rows, drops = mined(fine, have=coarse_rows)
    assert (fine_rows.height, drops.height) == (1, 0)
    stored_fine, _ = mined(fine)
    rows, drops = mined(coarse, have=stored_fine)
    assert (rows.height, drops["reason"].to_list()) == (0, ["same id"])
    # an older revision that comes again is in the table already: nothing to drop, nothing to add
    rows, drops = mined(coarse, have=pl.concat([coarse_rows, fine_rows]))
    assert (rows["digest"].to_list(), drops.height) == ([coarse["digest"]], 0)


def test_a_changed_text_is_a_revision_even_with_fewer_turns():
    stored, _ = mined(talk("a", "hi", "Heat", "thanks"))
    rows, drops = mined(talk("a", "hello", "Heat"), have=stored)
    assert (rows.height, drops.height) == (1, 0)


def test_pseudonyms_are_keyed_and_stable():
    talks = [talk("a", "x"), talk("b", "x", seeker="bo"), talk("c", "x"), talk("d", "x", seeker=None)]
    rows = mine.pseudonyms(conversations.frame(talks), b"key")
    seekers = dict(rows.select("source_id", "seeker").rows())
    assert seekers["a"] == seekers["c"] != seekers["b"]
    assert seekers["d"] is None
    assert not {"ann", "bo"} & set(seekers.values())
    other_key = mine.pseudonyms(conversations.frame(talks), b"another key")
    assert other_key["seeker"][0] != seekers["a"]
