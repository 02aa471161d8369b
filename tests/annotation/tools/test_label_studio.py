"""Tasks and answers of Label Studio."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from annotation.tools import label_studio
from tests.worlds.sheet_answers import TAXONOMY, TURNS, card, control, exported, sheet, verdicts


@pytest.mark.slow
def test_what_was_suggested_comes_back_when_it_is_kept():
    from label_studio_sdk.label_interface.interface import LabelInterface  # takes seconds to load

    (prediction,) = label_studio.task_of(sheet(), TAXONOMY)["predictions"]
    assert {row["from_name"] for row in prediction["result"]} == {"evidence", "form"}  # no verdict is given beforehand
    assert LabelInterface(label_studio.interface(TAXONOMY)).validate_prediction(prediction, return_errors=True) == []
    response = exported([*prediction["result"], card("present")])
    assert (response.spans, response.forms) == ({"gore": sheet().units[0]["spans"]}, {"gore": "explicit"})
    assert verdicts(response) == ({"gore": "present", "*": "absent"}, [])


def test_a_region_over_several_turns_is_a_span_in_each_of_the_seekers():
    region = control("evidence", start="0", end="2", startOffset=3, endOffset=2, text="x", paragraphlabels=["needles"])
    response = exported([region, card("absent")])
    assert [s["quote"] for s in response.spans["needles"]] == ["no needles, please", "e\u0301"]
    for span in response.spans["needles"]:
        assert TURNS[span["turn"]]["text"][span["start"] : span["end"]] == span["quote"]


@pytest.mark.parametrize(
    "value",
    [
        {"start": "0", "end": "0", "startOffset": 2, "endOffset": 3, "text": " "},  # nothing
        {"start": "0", "end": "0", "startOffset": 3, "endOffset": 13, "text": "no nails"},
        {"start": "9", "end": "9", "startOffset": 0, "endOffset": 4, "text": "far"},
        {"start": "?", "text": "odd"},
        {"start": "2", "end": "2", "startOffset": 7, "endOffset": 12, "text": "no nails"},
    ],
)
def test_words_that_are_not_there_are_no_evidence(value):
    response = exported([control("evidence", **value, paragraphlabels=["needles"]), card("absent")])
    assert verdicts(response, {"gore"}) == ({"gore": "absent"}, ["quote not found"])  # and `*` waits


# A server refuses to change a control that was used: if this list changes, LAYOUT must get another word, which makes
# new projects, and `responses_of` must read the pages of both.
PAGES = {
    False: {"verdict_{{i}}", "evidence", "also_{{j}}", "unsure", "note", "form"},
    True: {"verdict_{{i}}", "evidence", "note", "form"},
}


@pytest.mark.parametrize("ruling", PAGES)
def test_the_controls_of_each_page(ruling):
    page = ElementTree.fromstring(label_studio.interface(TAXONOMY, ruling))
    assert label_studio.LAYOUT == "cards"
    controls = [node for node in page.iter() if node.tag in ("Choices", "ParagraphLabels", "TextArea")]
    assert {node.get("name") for node in controls} == PAGES[ruling]
    (verdict,) = [node for node in page.iter("Choices") if node.get("required")]
    assert (verdict.get("name"), verdict.get("toName")) == ("verdict_{{i}}", "about_{{i}}")
    slugs = [node.get("alias") for node in page.iter("Label")]
    assert slugs == ([] if ruling else list(TAXONOMY.slugs))  # an adjudicator's labels come with the task


def test_a_card_says_in_words_what_is_asked():
    (open_card,) = label_studio.task_of(sheet(), TAXONOMY)["data"]["cards"]
    assert open_card["name"] == "Blood and gore"
    assert open_card["about"] == f"{TAXONOMY['gore'].definition}\n“blood”"
    assert [(choice["value"], choice["alias"], choice["hotkey"]) for choice in open_card["choices"]] == [
        ("Yes", "gore present", "y"),
        ("No", "gore absent", "n"),
        ("Unsure", "gore unsure", "u"),
    ]
    flag = replace(sheet(), task=replace(sheet().task, kind="item_flag"))
    items = [label_studio.task_of(made, TAXONOMY)["data"]["items"] for made in (sheet(), flag)]
    assert items == [[], [{"about": "It also holds:"}]]
    data = label_studio.task_of(sheet(), TAXONOMY)["data"] | {"labels": []}
    pages = {name: label_studio.page_of({"data": data | {name: "x"}}) for name in data}
    assert [name for name in data if pages[name] == label_studio.page_of({"data": data})] == ["key"]
    assert label_studio.place("mark", "reviewer", 3) == "mark cards reviewer"
    ruling = sheet(own_verdict="unsure", own_spans=[], said=["absent", "present: “blood”"])
    (voted_card,) = label_studio.task_of(ruling, TAXONOMY)["data"]["cards"]
    assert voted_card["about"].endswith("You answered: Unsure.")  # an adjudicator sees the votes once it is answered
    assert voted_card["said"] == "Reviewers said: absent; present: “blood”. You may change your answer."


@pytest.mark.parametrize(("editor", "why"), [(None, "imported"), (2, "user-2 wrote over it"), ({"id": 1}, "")])
def test_an_answer_is_its_authors_where_nobody_else_wrote_last(editor, why):
    response = exported([control("unsure", choices=["needles"]), card("absent")], updated_by=editor)
    assert why in response.forged and bool(why) == bool(response.forged)
    answers = {"gore": "absent", "needles": "unsure", "*": "absent"}
    assert verdicts(response) == (({}, ["not by its author"]) if why else (answers, []))


def test_words_that_slipped_stand_where_they_stand():
    """The offsets are three letters off, as after white space that the page leaves out."""
    place = {"start": "0", "end": "0", "startOffset": 6, "endOffset": 16, "text": "no needles"}
    said = exported([control("evidence", **place, paragraphlabels=["needles"]), card("absent")])
    at = TURNS[0]["text"].index("no needles")
    assert said.spans["needles"] == [{"turn": 0, "start": at, "end": at + 10, "quote": "no needles"}] and not said.lost
