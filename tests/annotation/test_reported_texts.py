"""A reader's note that a text tells who somebody is reaches whoever runs the review."""

import polars as pl
import pytest

from annotation.reported_texts import reported, words
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.csv_rows import edit
from tests.worlds.reviewing import TWO, yes

NOTES = (
    "personal data",
    "Personal data: her ward",
    "PERSONAL-DATA",
    "some personal information",
    "holds PII",
    "personal  details",
)


@pytest.mark.parametrize("note", NOTES)
def test_a_report_in_any_words_is_one(note):
    of = world.conversation("c1", "I am the head nurse of ward 7")
    now = world.conversations(of).select("digest", subject="conversation")
    assert reported(world.reviews(world.review(of, note=note)), now) == ["c1"]


def test_a_report_stands_whatever_is_said_or_changed_later():
    of, other = (world.conversation(c, f"I am a nurse in {c}") for c in ("c1", "c2"))
    now = world.conversations(of, other).select("digest", subject="conversation")
    told = world.review(of, note="personal data")
    again = world.reviews(told, world.review(of, note=None) | {"review": "again"}, world.review(other, note="a person"))
    assert reported(again, now) == ["c1"]  # what is said again without it takes nothing back
    assert reported(again, now.filter(subject="c2")) == []  # removed
    assert reported(again, now.with_columns(digest=pl.lit("another"))) == ["c1"]  # another word of it was masked
    taken_back = told | {"verdict": None, "note": "set aside, for personal data lay open"}
    assert reported(world.reviews(taken_back), now) == []


def test_many_are_counted_and_the_first_are_named():
    assert words(["c1"]) == "1 conversation: c1"
    assert (
        words([f"c{n}" for n in range(7)]) == "7 conversations: c0, c1, c2, c3, c4 and 2 more (`review status --json`)"
    )


def test_a_report_is_told_until_the_conversation_is_removed(ws, cli, review, adjudicate):
    """Whoever was asked to report it did, and no command said a word of it."""
    review("push", *TWO)
    note = {"note": "Personal data: their ward"}
    edit(ws.root / "review" / "ann.csv", lambda row: yes(row) | (note if "blood" in row["text"] else {}))
    review("pull", ws.root / "review" / "ann.csv")
    assert review("status")["personal_data"] == adjudicate()["personal_data"] == ["c1"]
    for command in (("review", "status"), ("adjudicate",)):
        out = cli(*command, "-C", ws.root).out
        assert "readers reported personal data in 1 conversation: c1: " in out and "their ward" not in out
    mended = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1").with_columns(digest=pl.lit("mended"))
    store.append(ws, tables.CONVERSATIONS, mended)
    assert review("status")["personal_data"] == ["c1"]
    source, name = mended.select("source", "source_id").row(0)
    (ws.root / "removals.csv").write_text(f"source,source_id,author\n{source},{name},\n")
    assert review("status")["personal_data"] == [] and "personal data" not in cli("adjudicate", "-C", ws.root).out
