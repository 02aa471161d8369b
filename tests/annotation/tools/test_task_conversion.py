"""Tasks as servers show them and answers as servers give them: offsets, verdicts, faults; no server needed."""

import pytest
from hypothesis import given, strategies as st

from annotation.tools import argilla, label_studio
from annotation.tools.task_conversion import READ, points, take, units16
from annotation.tools.tasks_and_answers import Pulled, Task
from saferec_builder.core.errors import ReviewError
from tests.worlds.sheet_answers import (
    DONE,
    STAMP,
    TASK,
    TAXONOMY,
    TURNS,
    control,
    exported,
    ours,
    record,
    sheet,
    verdicts,
)


@given(st.text(max_size=40), st.integers(0, 40))
def test_offsets_come_back_for_any_text(text, index):
    index = min(index, len(text))
    assert points(text, units16(text, index)) == index


RATHER_NOT = control("outcome", choices=["I would rather not see this"])


@pytest.mark.parametrize(
    ("rows", "told", "drops"),
    [
        ([], {}, ["not finished"]),
        ([DONE], {"gore": "absent", "*": "absent"}, []),  # unticked though it was suggested
        ([control("present", choices=["needles"]), DONE], {"gore": "absent"}, ["no quote"]),
        ([control("unsure", choices=["needles"]), DONE], {"gore": "absent", "needles": "unsure", "*": "absent"}, []),
        (
            [control("present", choices=["gore"]), control("unsure", choices=["gore"]), DONE],
            {},
            ["two verdicts"],
        ),
        ([control("present", choices=["nedles"]), DONE], {"gore": "absent"}, ["unknown trait"]),
        ([RATHER_NOT], {"*": None}, []),  # handed back
        ([control("unsure", choices=["needles"]), RATHER_NOT], {"*": None}, []),  # and nothing of it is taken
    ],
)
def test_what_an_answer_says(rows, told, drops):
    assert verdicts(exported(rows)) == (told, drops)


def test_a_mark_without_a_tick_is_asked_back_and_a_suggested_one_is_not():
    mark = control(
        "evidence", start="0", end="0", startOffset=6, endOffset=13, text="needles", paragraphlabels=["needles"]
    )
    assert verdicts(exported([mark, DONE])) == ({"gore": "absent"}, ["evidence without a verdict"])
    (prediction,) = label_studio.task_of(sheet(), "g", TAXONOMY)["predictions"]
    left = [row for row in prediction["result"] if row["from_name"] == "evidence"]
    assert verdicts(exported([*left, DONE])) == ({"gore": "absent", "*": "absent"}, [])


def test_an_adjudicator_rules_on_what_was_asked_and_nothing_else():
    cy = Task("sensitivity", "c1", "d", "cy", "adjudicator")
    said = exported([control("unsure", choices=["gore", "needles"]), DONE])
    said.who = "cy"
    assert verdicts(said, {"torture"}, cy) == ({"gore": "unsure"}, ["not asked"])


def test_a_trait_that_left_the_taxonomy_is_no_edited_interface():
    for taxonomy, why in ((TAXONOMY.digest, "push again"), ("before", "left the taxonomy")):
        pulled, said = Pulled(), exported([control("present", choices=["snow"]), DONE])
        said.taxonomy = taxonomy
        take(pulled, said, TASK, TURNS, set(), STAMP, TAXONOMY)
        ((*_, reason, detail),) = pulled.drops
        assert reason == "unknown trait" and why in detail


def test_somebody_elses_answer_is_kept_and_set_aside():
    pulled = Pulled()
    said = exported([DONE])
    said.who = "bo"
    take(pulled, said, TASK, TURNS, set(), STAMP, TAXONOMY)
    assert {(a["reviewer"], a["role"]) for a in pulled.answers.values()} == {("bo", "other")}
    assert [drop[3] for drop in pulled.drops] == ["not assigned"]


@pytest.mark.parametrize(
    "change", [{"trait": "nedles"}, {"spans": [{"turn": 0, "start": 0, "end": 3, "quote": "far"}]}]
)
def test_a_prediction_that_the_page_could_not_show_never_leaves(change):
    with pytest.raises(ReviewError, match="propose again"):
        label_studio.task_of(sheet(**change), "g", TAXONOMY)
    with pytest.raises(ReviewError, match="propose again"):
        argilla.record_of(sheet(**change), "g", TAXONOMY)


def test_nothing_else_is_no_trait():
    values = {"present": {"value": [argilla.NOTHING]}, "unsure": {"value": [argilla.NOTHING]}}
    (said,) = argilla.responses_of(record("submitted", values | {"outcome": {"value": READ}}), {"u1": "ann"}, "x", ours)
    assert verdicts(said) == ({"gore": "absent", "*": "absent"}, [])
