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
