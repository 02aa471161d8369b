"""Records of Argilla: the very text, and spans that come back."""

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
    whole, places = argilla.dialogue(turns)
    assert [whole[begin : begin + length] for _, begin, length in places] == texts
    assert len(whole) >= units16(whole.rstrip(" "), len(whole.rstrip(" ")))  # no span of a browser ends beyond it


@given(st.text() | st.text("&<>;#13ltamp\r\n", max_size=20))
def test_argillas_page_gets_no_markup_and_shows_the_very_text(text):
    sent = argilla._escaped(text)
    assert not set(sent) & set("<>\r")
    assert html.unescape(sent) == text


def test_words_after_markup_come_back_and_so_do_those_of_records_sent_before():
    """The version before had no cards, another gap between turns, and first of all no escapes."""
    text = "<b>Tom & Jerry</b>: no blood"
    turns = [{"role": "recommender", "text": "Hi"}, {"role": "seeker", "text": text}]
    at = text.index("blood")
    span = {"turn": 1, "start": at, "end": at + 5, "quote": "blood"}
    made = argilla.record_of(replace(sheet(spans=[span]), turns=turns), "g", TAXONOMY)
    assert made["fields"]["dialogue"].startswith("recommender: Hi\nseeker: &lt;b&gt;Tom &amp; Jerry")
    (mark,) = made["suggestions"]["evidence"]
    shown = {"value": [mark | {end: mark[end] + 1 for end in ("start", "end")}]}  # one more line break before it
    old = {"present": {"value": ["gore"]}, "openly": {"value": ["gore"]}, "outcome": {"value": READ}, "evidence": shown}
    new = {"verdict_1": {"value": "Yes"}, "openly": {"value": ["gore"]}, "evidence": {"value": [mark]}}
    facts = json.loads(made["metadata"]["saferec"])
    plain = json.dumps({name: value for name, value in facts.items() if name != "escaped"})
    lines = f"recommender: Hi\n\nseeker: {text}"
    for values, cards, there in (
        (new, True, {}),
        (old, False, {"fields": {"dialogue": html.escape(lines, quote=False)}}),
        (old, False, {"fields": {"dialogue": lines}, "metadata": {"saferec": plain}}),
    ):
        row = {"status": "submitted", "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
        sent = made | {"id": "r1", "responses": [row]} | there
        (said,) = argilla.responses_of(sent, {"u1": "ann"}, "x", lambda key: turns, cards=cards)
        assert (said.spans, said.forms, said.outcome) == ({"gore": [span]}, {"gore": "explicit"}, READ), there
        assert said.verdicts == ({0: "present"} if cards else None) and said.present == ([] if cards else ["gore"])


def test_argilla_speaks_of_the_same_words():
    made = argilla.record_of(sheet(), "g", TAXONOMY)
    (span,) = made["suggestions"]["evidence"]
    values = {"evidence": {"value": [span]}, "verdict_1": {"value": "Yes"}}
    (said,) = argilla.responses_of(record("submitted", values), {"u1": "ann"}, "x", ours)
    assert said.spans == {"gore": sheet().units[0]["spans"]}
    assert verdicts(said) == ({"gore": "present", "*": "absent"}, [])
    (gone,) = argilla.responses_of(record("discarded", None), {"u1": "ann"}, "x", ours)
    assert verdicts(gone) == ({"*": None}, [])
    (gone,) = argilla.responses_of(record("discarded", None), {"u1": "ann"}, "x", ours, cards=False)
    assert verdicts(gone) == ({}, ["skipped"])
    assert not list(argilla.responses_of(record("draft", values), {"u1": "ann"}, "x", ours))
    edited = record("submitted", values) | {"metadata": {"saferec": "no json"}}
    (odd,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert odd.spans == said.spans  # our own text says where the words stand
    assert json.loads(made["metadata"]["saferec"])["asked"] == ["gore"]


@pytest.mark.parametrize(("cards", "questions", "place"), [(0, 3, "3"), (3, 3, "3"), (4, 8, "8"), (9, 20, "many")])
def test_a_record_has_an_answer_to_each_question_but_its_own_cards(cards, questions, place):
    """Else nobody could submit it: the server asks all questions of a data set of each of its records."""
    units = [sheet().units[0] | {"trait": trait} for trait in TAXONOMY.slugs[:cards]]
    made = argilla.record_of(replace(sheet(), units=units), "g", TAXONOMY)
    asked = argilla.questions(TAXONOMY, questions)
    open_ = [each["name"] for each in asked if each["required"] and each["name"] not in made["suggestions"]]
    assert open_ == [f"verdict_{n}" for n in range(1, cards + 1)]
    assert argilla.place("mark", "reviewer", cards) == f"mark cards reviewer {place}"
    assert all(f"{n}. {TAXONOMY[u['trait']].name}: " in made["fields"]["ask"] for n, u in enumerate(units, 1))


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
    (said,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert (said.who, said.present, said.asked, said.shown) == ("ann", ["gore"], [], frozenset())
    assert said.note == "half ?" and said.guideline is None


@pytest.mark.parametrize("many", [1, 2, 3])
def test_argilla_takes_a_taxonomy_of_few_traits(many):
    """Its library and server want two options of a choice, and of a number of visible ones three."""
    argilla_server.needed()
    from argilla._models import QuestionModel

    few = replace(TAXONOMY, traits=TAXONOMY.traits[:many])
    for question in argilla.questions(few):
        settings = QuestionModel(**question).settings.model_dump()
        options = settings.get("options") or []
        assert "selection" not in settings["type"] or len(options) > 1
        assert (
            set(few.slugs) <= {o["value"] for o in options}
            or question["name"] == "note"
            or (question["name"].startswith("verdict_"))
        )
