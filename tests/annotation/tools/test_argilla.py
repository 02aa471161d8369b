"""Records of Argilla: the page shows the exact text, and spans come back."""

import html
import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from annotation.tools import argilla, argilla_client as argilla_server
from annotation.tools.task_conversion import READ, units16
from tests.worlds.sheet_answers import TAXONOMY, ours, record, sheet, verdicts


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


def test_words_after_markup_come_back_and_so_do_those_of_records_sent_before():
    """The previous version had no cards and another gap between turns; the very first one had no escapes."""
    text = "<b>Tom & Jerry</b>: no blood"
    turns = [{"role": "recommender", "text": "Hi"}, {"role": "seeker", "text": text}]
    start = text.index("blood")
    span = {"turn": 1, "start": start, "end": start + 5, "quote": "blood"}
    entry = argilla.record_of(replace(sheet(spans=[span]), turns=turns), "g", TAXONOMY)
    assert entry["fields"]["dialogue"].startswith("recommender: Hi\nseeker: &lt;b&gt;Tom &amp; Jerry")
    (mark,) = entry["suggestions"]["evidence"]
    spans = {"value": [mark | {end: mark[end] + 1 for end in ("start", "end")}]}  # one more line break before it
    old = {"present": {"value": ["gore"]}, "openly": {"value": ["gore"]}, "outcome": {"value": READ}, "evidence": spans}
    new = {"verdict_1": {"value": "Yes"}, "openly": {"value": ["gore"]}, "evidence": {"value": [mark]}}
    facts = json.loads(entry["metadata"]["saferec"])
    plain = json.dumps({name: value for name, value in facts.items() if name != "escaped"})
    lines = f"recommender: Hi\n\nseeker: {text}"
    for values, cards, extra in (
        (new, True, {}),
        (old, False, {"fields": {"dialogue": html.escape(lines, quote=False)}}),
        (old, False, {"fields": {"dialogue": lines}, "metadata": {"saferec": plain}}),
    ):
        row = {"status": "submitted", "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
        stored = entry | {"id": "r1", "responses": [row]} | extra
        (reply,) = argilla.responses_of(stored, {"u1": "ann"}, "x", lambda key: turns, cards=cards)
        assert (reply.spans, reply.forms, reply.outcome) == ({"gore": [span]}, {"gore": "explicit"}, READ), extra
        assert reply.verdicts == ({0: "present"} if cards else None) and reply.present == ([] if cards else ["gore"])


def test_a_data_set_that_asks_more_is_not_used(monkeypatch):
    """Those of adjudicators asked what else is present, and its answers were refused."""
    argilla_server.needed()
    from argilla._models import QuestionModel

    server, former = argilla_server.Server.__new__(argilla_server.Server), argilla.questions(TAXONOMY)
    monkeypatch.setattr(server, "_list_questions", lambda _: [QuestionModel(**question) for question in former])
    assert server._fits("7", former)
    assert not server._fits("7", argilla.questions(TAXONOMY, ruling=True))


def test_argilla_speaks_of_the_same_words():
    task = argilla.record_of(sheet(), "g", TAXONOMY)
    (span,) = task["suggestions"]["evidence"]
    values = {"evidence": {"value": [span]}, "verdict_1": {"value": "Yes"}}
    (response,) = argilla.responses_of(record("submitted", values), {"u1": "ann"}, "x", ours)
    assert response.spans == {"gore": sheet().units[0]["spans"]}
    assert verdicts(response) == ({"gore": "present", "*": "absent"}, [])
    (discarded,) = argilla.responses_of(record("discarded", None), {"u1": "ann"}, "x", ours)
    assert verdicts(discarded) == ({"*": None}, [])
    (discarded,) = argilla.responses_of(record("discarded", None), {"u1": "ann"}, "x", ours, cards=False)
    assert verdicts(discarded) == ({}, ["skipped"])
    assert not list(argilla.responses_of(record("draft", values), {"u1": "ann"}, "x", ours))
    edited = record("submitted", values) | {"metadata": {"saferec": "no json"}}
    (fallback,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert fallback.spans == response.spans  # our own text tells where the words stand
    assert json.loads(task["metadata"]["saferec"])["asked"] == ["gore"]


@pytest.mark.parametrize(("cards", "questions", "place"), [(0, 3, "3"), (3, 3, "3"), (4, 8, "8"), (9, 20, "many")])
def test_a_record_has_an_answer_to_each_question_but_its_own_cards(cards, questions, place):
    """Otherwise nobody could submit it: the server asks all questions of a data set for each of its records."""
    units = [sheet().units[0] | {"trait": trait} for trait in TAXONOMY.slugs[:cards]]
    entry = argilla.record_of(replace(sheet(), units=units), "g", TAXONOMY)
    form = argilla.questions(TAXONOMY, questions)
    needed = [field["name"] for field in form if field["required"] and field["name"] not in entry["suggestions"]]
    assert needed == [f"verdict_{n}" for n in range(1, cards + 1)]
    assert argilla.place("mark", "reviewer", cards) == f"mark cards reviewer {place}"
    assert all(f"{n}. {TAXONOMY[unit['trait']].name}: " in entry["fields"]["ask"] for n, unit in enumerate(units, 1))


def test_an_adjudicator_is_asked_nothing_whose_answer_is_refused():
    """Regression: they could tick what else is there or unsure, and the pull said `not asked`."""
    names = [question["name"] for question in argilla.questions(TAXONOMY, ruling=True)]
    assert names == ["verdict_1", "verdict_2", "verdict_3", "evidence", "openly", "note"]
    reader, adjudicator = (
        argilla_server.Server("http://x", "t").project_page(f"mark-cards-{role}-3", TAXONOMY)
        for role in ("reviewer", "adjudicator")
    )
    assert reader != adjudicator


@pytest.mark.parametrize(
    "facts",
    [
        '{"asked": null, "places": [[0, "a", 3], 5, [1, 2]], "shown": [], "guideline": 3, "taxonomy": []}',
        '{"asked": {"a": 1}, "places": {"0": 1}, "shown": {"gore": 5}}',
        '"asked"',
        5,
        "[" * 5_000,
    ],
)
def test_what_an_administrator_made_of_a_record_of_argilla_stops_no_pull(facts):
    values = {"present": {"value": ["gore"]}, "note": {"value": "half \ud83d"}, "verdict_1": {"value": ["Yes"]}}
    edited = record("submitted", values) | {"metadata": {"saferec": facts}}
    (response,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert (response.who, response.present, response.asked, response.shown) == ("ann", ["gore"], [], frozenset())
    assert response.note == "half ?" and response.guideline is None


@pytest.mark.parametrize("many", [1, 2, 3])
def test_argilla_takes_a_taxonomy_of_few_traits(many):
    """The library and server want at least two options for a choice, and at least three as visible options."""
    argilla_server.needed()
    from argilla._models import QuestionModel

    taxonomy = replace(TAXONOMY, traits=TAXONOMY.traits[:many])
    for question in argilla.questions(taxonomy):
        settings = QuestionModel(**question).settings.model_dump()
        options = settings.get("options") or []
        assert "selection" not in settings["type"] or len(options) > 1
        assert (
            set(taxonomy.slugs) <= {option["value"] for option in options}
            or question["name"] == "note"
            or (question["name"].startswith("verdict_"))
        )
