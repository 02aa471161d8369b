"""Conversion of tasks and answers to and from servers: offsets, verdicts, faults; no server is needed."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from annotation.tools import argilla, label_studio
from annotation.tools.task_conversion import points, replace_surrogates, take, units16
from annotation.tools.tasks_and_answers import Pulled, Task
from saferec_builder.core.errors import ReviewError
from tests.worlds import sheet_answers as sheets
from tests.worlds.sheet_answers import DONE, STAMP, TASK, TAXONOMY, TURNS, card, control, exported, mark, verdicts


@given(st.text(max_size=40), st.integers(0, 40))
def test_offsets_come_back_for_any_text(text, index):
    index = min(index, len(text))
    assert points(text, units16(text, index)) == index


def test_halves_of_characters_are_replaced():
    assert replace_surrogates({"\ud83d": [r"\ud83d", 1, "a\ud83d"]}) == {"?": [r"\ud83d", 1, "a?"]}


OTHERS = {"turn": 1, "start": 0, "end": 4, "quote": "Sure"}
NEEDLES, UNSURE = {"gore": "absent", "needles": "present", "*": "absent"}, control("unsure", choices=["needles"])


@pytest.mark.parametrize(
    ("rows", "told", "drops"),
    [
        ([], {}, ["not answered"]),
        ([card("present"), mark("gore")], {"gore": "present", "*": "absent"}, []),
        ([card("present")], {}, ["no quote"]),
        ([card("absent"), mark("gore")], {"gore": "absent", "*": "absent"}, []),  # the suggested mark was left
        ([card("absent"), mark("needles")], NEEDLES, []),  # marked words of another trait mean that it is present
        ([card("absent"), mark("needles"), UNSURE], NEEDLES | {"needles": "unsure"}, []),
        # an item needs none
        ([card("absent"), control("also_0", choices=["needles"])], {"gore": "absent"}, ["no quote"]),
        ([card("unsure"), control("unsure", choices=["gore"])], {"gore": "unsure", "*": "absent"}, []),
        ([card("present"), mark("gore"), control("unsure", choices=["gore"])], {"gore": "present", "*": "absent"}, []),
        ([card("needles present"), mark("gore")], {}, ["not answered"]),  # the card of another trait, on an edited task
        ([card("present", 1), mark("gore")], {}, ["not answered"]),  # only one card was asked
        ([card("absent"), mark("nedles")], {"gore": "absent"}, ["unknown trait"]),
    ],
)
def test_what_cards_and_marks_say(rows, told, drops):
    assert verdicts(exported(rows)) == (told, drops)


def test_skip_hands_a_text_back_and_nothing_of_it_is_taken():
    skipped = exported([card("present"), mark("gore")], was_cancelled=True)
    assert verdicts(skipped) == ({"*": None}, [])
    assert verdicts(skipped, {"gore", "torture"}) == ({"gore": None, "torture": None, "*": None}, [])  # earlier answers
    pulled = Pulled()
    answered = {"gore": {"before"}}  # under another taxonomy: it stays
    take(pulled, skipped, TASK, TURNS, answered, STAMP, taxonomy=TAXONOMY)
    assert [answer["trait"] for answer in pulled.answers.values()] == ["*"]


RATHER_NOT = control("outcome", choices=["I would rather not see this"])


@pytest.mark.parametrize(
    ("rows", "told", "drops"),
    [
        ([], {}, ["not finished"]),
        ([DONE], {"gore": "absent", "*": "absent"}, []),  # unticked although suggested
        ([control("present", choices=["needles"]), DONE], {"gore": "absent"}, ["no quote"]),
        ([control("unsure", choices=["needles"]), DONE], {"gore": "absent", "needles": "unsure", "*": "absent"}, []),
        ([control("present", choices=["gore"]), control("unsure", choices=["gore"]), DONE], {}, ["two verdicts"]),
        ([control("present", choices=["nedles"]), DONE], {"gore": "absent"}, ["unknown trait"]),
        ([mark("needles"), DONE], {"gore": "absent"}, ["evidence without a verdict"]),
        ([control("unsure", choices=["needles"]), RATHER_NOT], {"*": None}, []),  # handed back
        ([card("present"), DONE], {"gore": "absent", "*": "absent"}, []),  # that page had no cards
    ],
)
def test_what_an_answer_on_the_page_before_says(rows, told, drops):
    assert verdicts(exported(rows, cards=False)) == (told, drops)
    assert verdicts(exported(rows, cards=False, was_cancelled=True)) == ({}, ["skipped"])


def test_a_note_is_kept_where_its_author_would_rather_not_see_the_text():
    """A report of personal data in such a note was lost; one with a zero byte was new again at each pull."""
    note = control("note", text=["personal\0data"])
    pulled = Pulled()
    take(pulled, exported([mark("needles"), note], was_cancelled=True), TASK, TURNS, {}, STAMP, taxonomy=TAXONOMY)
    ((answer,), drops) = pulled.answers.values(), pulled.drops
    said = [answer[name] for name in ("trait", "verdict", "note")]
    assert (said, drops) == (["*", None, "handed back: personal\ufffddata"], [])


def test_an_adjudicator_rules_on_what_was_asked_and_nothing_else():
    task = Task("sensitivity", "c1", "d", "cy", "adjudicator")
    response = exported([card("unsure"), mark("needles")])
    response.who = "cy"
    assert verdicts(response, {"torture"}, task) == ({"gore": "unsure"}, ["not asked"])


def test_nobody_leaves_a_trait_unticked_that_has_left_the_taxonomy():
    """The trait may come back, and their earlier answer on it with it."""
    expected = {"gore": "absent", "torture": "absent", "*": "absent"}
    assert verdicts(exported([card("absent")]), {"snow", "torture"})[0] == expected


def test_a_trait_that_left_the_taxonomy_is_no_edited_interface_and_holds_nothing_back():
    """Regression: its row kept back the `*` of a text that was read to its end."""
    for taxonomy, hint, rest in ((TAXONOMY.digest, "push again", set()), ("before", "left the taxonomy", {"*"})):
        pulled, response = Pulled(), exported([card("absent"), mark("snow")])
        response.taxonomy = taxonomy
        take(pulled, response, TASK, TURNS, {}, STAMP, taxonomy=TAXONOMY)
        ((*_, reason, detail),) = pulled.drops
        assert reason == "unknown trait" and hint in detail
        assert {answer["trait"] for answer in pulled.answers.values()} == {"gore"} | rest
        assert bool(pulled.returned) == (not rest)  # nobody can correct it


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"forged": "bo wrote over it"}, "not by its author", "bo wrote over it"),
        ({"outcome": "skipped"}, "skipped", "task task-1: no verdicts were taken"),
        ({"outcome": ""}, "not finished", "task task-1: no verdicts were taken"),
        ({"changed": "it"}, "changed there", "it (answered 2026-01-01T00:00:00+00:00): it is asked anew"),
        ({"changed": "it", "time": None}, "changed there", "it: it is asked anew"),
        ({"lost": {"needles": "x" * 90}}, "quote not found", f"needles: '{'x' * 80}' does not stand there in our"),
        ({"present": ["needles"]}, "no quote", "needles: `present` needs the words that show it"),
        ({"spans": {"needles": [OTHERS]}}, "not the seeker's words", "needles: 'Sure' is no evidence"),
    ],
)
def test_what_is_not_taken_says_why_and_its_author_is_told(change, reason, detail):
    pulled, response = Pulled(), replace(exported([card("absent")]), **change)
    take(pulled, response, TASK, TURNS, {}, STAMP, taxonomy=TAXONOMY)
    ((*place, dropped, text),) = pulled.drops
    assert (place, dropped) == (["review", "files", response.place], reason) and text.startswith(detail)
    assert [row[:4] for row in pulled.returned.values()] == [(TASK.id, "ann", response.place, reason)]


def test_somebody_elses_answer_is_kept_and_set_aside():
    pulled = Pulled()
    response = exported([card("absent")])
    response.who = "bo"
    take(pulled, response, TASK, TURNS, {}, STAMP, taxonomy=TAXONOMY)
    assert {(answer["reviewer"], answer["role"]) for answer in pulled.answers.values()} == {("bo", "other")}
    assert [drop[3] for drop in pulled.drops] == ["not assigned"]


@pytest.mark.parametrize(
    "change", [{"trait": "nedles"}, {"spans": [{"turn": 0, "start": 0, "end": 3, "quote": "far"}]}]
)
def test_a_prediction_that_the_page_could_not_show_never_leaves(change):
    with pytest.raises(ReviewError, match="propose again"):
        label_studio.task_of(sheets.sheet(**change), TAXONOMY)
    with pytest.raises(ReviewError, match="propose again"):
        argilla.record_of(sheets.sheet(**change), TAXONOMY)


def test_nothing_else_is_no_trait():
    values = {name: {"value": [argilla.NOTHING]} for name in ("present", "unsure")} | {"verdict_1": {"value": "No"}}
    assert verdicts(sheets.in_argilla("submitted", values)) == ({"gore": "absent", "*": "absent"}, [])


def test_quotes_that_overlap_are_one_line_of_a_card_and_stay_apart_as_evidence():
    """They were three lines that said the same words three times."""
    text = TURNS[2]["text"]
    quotes = ["and no blood", "blood", "no blood"]
    spans = [{"turn": 2, "start": text.index(quote), "end": len(text), "quote": quote} for quote in quotes]
    made = sheets.sheet(spans=spans)
    lines = f"{TAXONOMY['gore'].definition}\n“and no blood”"
    task = label_studio.task_of(made, TAXONOMY)
    assert task["data"]["cards"][0]["about"] == lines
    regions = task["predictions"][0]["result"]
    assert [row["value"]["text"] for row in regions if row["from_name"] == "evidence"] == quotes
    record = argilla.record_of(made, TAXONOMY)
    assert lines in record["fields"]["ask"] and len(record["suggestions"]["evidence"]) == 3
