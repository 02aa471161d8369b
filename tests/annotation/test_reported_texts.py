"""A reader's note that a text reveals who somebody is reaches whoever runs the review."""

import polars as pl
import pytest

from annotation.reported_texts import reported, words
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world
from tests.worlds.reviewing import TWO, answer, yes

NOTES = ["personal data", "Personal data: her ward", "PERSONAL-DATA", "some personal information", "holds PII"]


@pytest.mark.parametrize("note", [*NOTES, "personal  details"])
def test_a_report_in_any_words_is_one(note):
    conversation = world.conversation("c1", "I am the head nurse of ward 7")
    current = world.conversations(conversation).select("digest", subject="conversation")
    assert reported(world.reviews(world.review(conversation, note=note)), current) == ["c1"]


def test_a_report_stands_whatever_is_said_or_changed_later():
    c1, c2 = (world.conversation(c, f"I am a nurse in {c}") for c in ("c1", "c2"))
    current = world.conversations(c1, c2).select("digest", subject="conversation")
    report = world.review(c1, note="personal data")
    rows = world.reviews(report, world.review(c1, note=None) | {"review": "again"}, world.review(c2, note="a person"))
    assert reported(rows, current) == ["c1"]  # a later answer without the note takes nothing back
    assert reported(rows, current.filter(subject="c2")) == []  # removed
    assert reported(rows, current.with_columns(digest=pl.lit("another"))) == ["c1"]  # another word was masked
    taken_back = report | {"verdict": None, "note": "set aside, for personal data lay open"}
    assert reported(world.reviews(taken_back), current) == []


def test_many_are_counted_and_the_first_are_named():
    assert words(["c1"]) == "1 conversation: c1"
    many = words([f"c{n}" for n in range(7)])
    assert many == "7 conversations: c0, c1, c2, c3, c4 and 2 more (`review status --json`)"


@pytest.mark.slow
def test_a_report_is_told_until_the_conversation_is_removed(ws, cli, review, adjudicate):
    """Readers reported it as asked, and no command mentioned it."""
    review("push", *TWO)
    note = {"note": "Personal data: their ward"}
    answer(ws, review, ann=lambda row: yes(row) | (note if "blood" in row["text"] else {}))
    assert review("status")["personal_data"] == adjudicate()["personal_data"] == ["c1"]
    for command in (("review", "status"), ("adjudicate",)):
        output = cli(*command, "-C", ws.root).out
        assert "readers reported personal data in 1 conversation: c1: " in output and "their ward" not in output
    shown = cli("browse", "reported", "-C", ws.root).out
    assert "c1: Personal data: their ward\n   1. " in shown and "I faint when I see" in shown
    assert "\n   2. Ok!\nreported: 1 conversation, 1 shown" in shown  # the whole conversation, not only quotes
    revised = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1").with_columns(digest=pl.lit("mended"))
    store.append(ws, tables.CONVERSATIONS, revised)
    assert review("status")["personal_data"] == ["c1"]
    source, name = revised.select("source", "source_id").row(0)
    (ws.root / "removals.csv").write_text(f"source,source_id,author\n{source},{name},\n")
    assert review("status")["personal_data"] == [] and "personal data" not in cli("adjudicate", "-C", ws.root).out
