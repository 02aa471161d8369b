"""Tasks and answers of Label Studio."""

import pytest

from annotation.tools import label_studio
from tests.worlds.sheet_answers import DONE, TAXONOMY, TURNS, control, exported, sheet, verdicts


def test_what_was_suggested_comes_back_when_it_is_kept():
    (prediction,) = label_studio.task_of(sheet(), "g", TAXONOMY)["predictions"]
    said = exported([*prediction["result"], DONE])
    assert said.spans == {"gore": sheet().units[0]["spans"]}
    assert (said.present, said.forms) == (["gore"], {"gore": "explicit"})
    assert verdicts(said) == ({"gore": "present", "*": "absent"}, [])


def test_a_region_over_several_turns_is_a_span_in_each_of_the_seekers():
    region = control("evidence", start="0", end="2", startOffset=3, endOffset=2, text="x", paragraphlabels=["needles"])
    said = exported([region, control("present", choices=["needles"]), DONE])
    assert [s["quote"] for s in said.spans["needles"]] == ["no needles, please", "e\u0301"]
    for span in said.spans["needles"]:
        assert TURNS[span["turn"]]["text"][span["start"] : span["end"]] == span["quote"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"start": "0", "end": "0", "startOffset": 2, "endOffset": 3, "text": " "}, "quote not found"),  # nothing
        ({"start": "0", "end": "0", "startOffset": 3, "endOffset": 13, "text": "no nails"}, "quote not found"),
        ({"start": "9", "end": "9", "startOffset": 0, "endOffset": 4, "text": "far"}, "quote not found"),
        ({"start": "?", "text": "odd"}, "quote not found"),
        ({"start": "2", "end": "2", "startOffset": 7, "endOffset": 12, "text": "no nails"}, "quote not found"),
    ],
)
def test_words_that_are_not_there_are_no_evidence(value, reason):
    said = exported(
        [control("evidence", **value, paragraphlabels=["needles"]), control("present", choices=["needles"]), DONE]
    )
    assert verdicts(said, {"gore"}) == ({"gore": "absent"}, [reason])  # and `*` waits


def test_every_trait_is_in_the_interface_and_every_control_too():
    page = label_studio.interface(TAXONOMY)
    for slug in TAXONOMY.slugs:
        assert page.count(f'value="{slug}"') == 3  # to mark, present, unsure
    assert all(f'name="{name}"' in page for name in label_studio.CONTROLS)


@pytest.mark.parametrize(("editor", "why"), [(None, "imported"), (2, "user-2 wrote over it"), ({"id": 1}, "")])
def test_an_answer_is_its_authors_where_nobody_else_wrote_last(editor, why):
    said = exported([control("unsure", choices=["needles"]), DONE], updated_by=editor)
    assert why in said.forged and bool(why) == bool(said.forged)
    told = {"gore": "absent", "needles": "unsure", "*": "absent"}
    assert verdicts(said) == (({}, ["not by its author"]) if why else (told, []))


def test_words_that_slipped_stand_where_they_stand():
    """Three letters off, as behind white space that the page leaves out."""
    place = {"start": "0", "end": "0", "startOffset": 6, "endOffset": 16, "text": "no needles"}
    said = exported([control("evidence", **place, paragraphlabels=["needles"]), DONE])
    at = TURNS[0]["text"].index("no needles")
    assert said.spans["needles"] == [{"turn": 0, "start": at, "end": at + 10, "quote": "no needles"}] and not said.lost
