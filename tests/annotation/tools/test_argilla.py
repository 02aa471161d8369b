"""Records of Argilla: the page shows the exact text, and spans come back."""

import html
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from annotation.tools import argilla, server_errors
from annotation.tools.guidelines import page_for
from annotation.tools.task_conversion import take, units16
from annotation.tools.tasks_and_answers import Pulled
from tests.worlds.sheet_answers import STAMP, TASK, TAXONOMY, in_argilla, ours, sheet, verdicts


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15), min_size=1, max_size=4))
def test_a_dialogue_maps_back_to_its_turns(texts):
    turns = [{"role": "seeker", "text": text} for text in texts]
    shown, places = argilla.dialogue(turns)
    assert [shown[begin : begin + length] for _, begin, length in places] == texts
    assert len(shown) >= units16(shown.rstrip(" "), len(shown.rstrip(" ")))  # no span of a browser ends beyond it


@given(st.text() | st.text("&<>;#13ltamp\r\n", max_size=20))
def test_argillas_page_gets_no_markup_and_shows_the_very_text(text):
    escaped = argilla._escaped(text)
    assert not set(escaped) & set("<>\r")
    assert html.unescape(escaped) == text


def test_words_after_markup_come_back():
    text = "<b>Tom & Jerry</b>: no blood"
    start = text.index("blood")
    span = {"turn": 1, "start": start, "end": start + 5, "quote": "blood"}
    made = replace(sheet(spans=[span]), turns=[{"role": "recommender", "text": "Hi"}, {"role": "seeker", "text": text}])
    entry = argilla.record_of(made, TAXONOMY)
    assert entry["fields"]["dialogue"].startswith("recommender: Hi\nseeker: &lt;b&gt;Tom &amp; Jerry")
    # the question is optional: nothing was said where it has no answer
    for openly, form in ((None, None), ([], None), ([argilla.NOTHING], "implicit"), (["gore"], "explicit")):
        values = {"verdict_1": "Yes", "openly": openly, "evidence": entry["suggestions"]["evidence"]}
        pulled = take_all(in_argilla("submitted", {name: {"value": v} for name, v in values.items()}, made), made)
        assert [(a["trait"], a["form"], a["spans"]) for a in pulled] == [("gore", form, [span]), ("*", None, [])]


def test_the_guidelines_name_the_answer_that_nothing_is_said_openly():
    """They asked to tick what is said openly alone: who called all of it implied left the question open."""
    (openly,) = [question for question in argilla.questions(TAXONOMY) if question["name"] == "openly"]
    answer = openly["settings"]["options"][0]["text"].partition(":")[0]
    assert f"or **{answer}**" in page_for("In Argilla")


@pytest.mark.parametrize(("form", "openly"), [("explicit", ["gore"]), ("implicit", [argilla.NOTHING]), (None, None)])
def test_how_it_is_said_comes_as_the_proposal_has_it(form, openly):
    made = replace(sheet(), units=[sheet().units[0] | {"form": form}])
    assert argilla.record_of(made, TAXONOMY)["suggestions"].get("openly") == openly


def take_all(response, made):
    """Returns the answers that are taken."""
    pulled = Pulled()
    take(pulled, response, made.task, made.turns, {}, STAMP, taxonomy=TAXONOMY)
    assert not pulled.drops
    return pulled.answers.values()


def test_an_adjudicator_marks_words_of_disputed_traits_alone():
    """Regression: the page offered all traits, also to tick as present or unsure, and what was said of one that nobody
    disputed was dropped as `not asked`."""
    unit = sheet().units[0]
    task = replace(TASK, reviewer="ann", role="adjudicator")
    made = replace(sheet(), task=task, units=[unit | {"trait": "needles", "spans": []}, unit])
    form = {question["name"]: question["settings"] for question in argilla.questions(TAXONOMY, ruling=True)}
    assert [*form] == ["verdict_1", "verdict_2", "verdict_3", "evidence", "openly", "note"]
    assert [option["value"] for option in form["evidence"]["options"]] == ["#1", "#2", "#3"]
    assert [option["value"] for option in form["openly"]["options"]] == [argilla.NOTHING, "#1", "#2", "#3"]
    suggested = argilla.record_of(made, TAXONOMY)["suggestions"]
    assert [mark["label"] for mark in suggested["evidence"]] == suggested["openly"][1:] == ["#2"]
    values = {"verdict_1": "No", "verdict_2": "Yes", **{name: suggested[name] for name in ("evidence", "openly")}}
    response = in_argilla("submitted", {name: {"value": value} for name, value in values.items()}, made)
    assert [(a["trait"], a["verdict"], a["form"], a["spans"]) for a in take_all(response, made)] == [
        ("gore", "present", "explicit", unit["spans"]),
        ("needles", "absent", None, []),
    ]
    stray = values | {"evidence": [suggested["evidence"][0] | {"label": "#3"}, *suggested["evidence"]]}
    response = in_argilla("submitted", {name: {"value": value} for name, value in stray.items()}, made)
    assert verdicts(response, task=task) == ({"gore": "present", "needles": "absent"}, ["not asked"])


def test_argilla_speaks_of_the_same_words():
    (span,) = argilla.record_of(sheet(), TAXONOMY)["suggestions"]["evidence"]
    values = {"evidence": {"value": [span]}, "verdict_1": {"value": "Yes"}}
    response = in_argilla("submitted", values)
    assert (response.key, response.spans) == ("task-1", {"gore": sheet().units[0]["spans"]})
    assert verdicts(response) == ({"gore": "present", "*": "absent"}, [])
    assert verdicts(in_argilla("discarded", None)) == ({"*": None}, [])
    row = {"status": "draft", "values": values, "updated_at": "2026-01-01T00:00:00"}
    draft = argilla.record_of(sheet(), TAXONOMY) | {"responses": [row]}
    assert not list(argilla.responses_of(draft, {}, "x", ours))


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00"])
def test_an_answer_has_the_moment_that_the_server_gives(time):
    """Argilla's own server gives times without an offset, which are UTC."""
    row = {"status": "submitted", "values": None, "user_id": "u1", "updated_at": time}
    record = argilla.record_of(sheet(), TAXONOMY) | {"id": "r1", "responses": [row]}
    (response,) = argilla.responses_of(record, {}, "x", ours)
    assert response.time == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("cards", "questions", "place"), [(0, 3, "3"), (3, 3, "3"), (4, 8, "8"), (9, 20, "many")])
def test_a_record_has_an_answer_to_each_question_but_its_own_cards(cards, questions, place):
    """Otherwise nobody could submit it: the server asks all questions of a data set for each of its records."""
    units = [sheet().units[0] | {"trait": trait} for trait in TAXONOMY.slugs[:cards]]
    entry = argilla.record_of(replace(sheet(), units=units), TAXONOMY)
    form = argilla.questions(TAXONOMY, questions)
    needed = [field["name"] for field in form if field["required"] and field["name"] not in entry["suggestions"]]
    assert needed == [f"verdict_{n}" for n in range(1, cards + 1)]
    assert argilla.place("mark", "reviewer", cards) == f"mark cards reviewer {place}"
    assert all(f"{n}. {TAXONOMY[unit['trait']].name}: " in entry["fields"]["ask"] for n, unit in enumerate(units, 1))


def test_half_a_character_stops_no_pull():
    response = in_argilla("submitted", {"note": {"value": "half \ud83d"}, "verdict_1": {"value": ["Yes"]}})
    assert (response.note, response.verdicts) == ("half ?", {0: ""})


@pytest.mark.parametrize("many", [1, 2, 3])
def test_argilla_takes_a_taxonomy_of_few_traits(many):
    """The library and server want at least two options for a choice, and at least three as visible options."""
    server_errors.needed("argilla", "argilla")
    from argilla._models import QuestionModel

    taxonomy = replace(TAXONOMY, traits=TAXONOMY.traits[:many])
    for question in argilla.questions(taxonomy):
        settings = QuestionModel(**question).settings.model_dump()
        options = settings.get("options") or []
        assert "selection" not in settings["type"] or len(options) > 1
        assert question["name"].startswith(("note", "verdict_")) or {*taxonomy.slugs} <= {o["value"] for o in options}
