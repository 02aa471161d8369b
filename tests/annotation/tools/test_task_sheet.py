"""Tasks as servers show them and answers as servers give them: offsets, verdicts, faults; no server needed."""

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from annotation.tools import argilla, argilla_server, label_studio, label_studio_server, managed_server as managed
from annotation.tools.answers import Pulled, Task
from annotation.tools.task_sheet import READ, Response, Sheet, points, take, units16
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import ReviewError

TAXONOMY = traits.load()
TASK = Task("sensitivity", "c1", "d", "ann", "reviewer")
TURNS = [
    {"role": "seeker", "text": "😱 no needles, please"},
    {"role": "recommender", "text": "Sure 👨\u200d👩\u200d👧!"},
    {"role": "seeker", "text": "e\u0301 and no blood"},
]
STAMP = {"tool": "label_studio", "guideline": "g", "taxonomy": "t", "simulated": False}


def ours(key: str) -> list[dict[str, Any]]:
    """Our own text of any task."""
    return TURNS


def sheet(**more: Any) -> Sheet:
    at = TURNS[2]["text"].index("blood")
    span = {"turn": 2, "start": at, "end": at + 5, "quote": "blood"}
    unit = {"trait": "gore", "verdict": "present", "form": "explicit", "spans": [span], "said": None}
    unit |= {"own_verdict": None, "own_form": None, "own_spans": None} | more
    return Sheet("task-1", TASK, "proposed", "", "?", TURNS, [unit])


@given(st.text(max_size=40), st.integers(0, 40))
def test_offsets_come_back_for_any_text(text, index):
    index = min(index, len(text))
    assert points(text, units16(text, index)) == index


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
    text = "<b>Tom & Jerry</b>: no blood"
    at = text.index("blood")
    span = {"turn": 0, "start": at, "end": at + 5, "quote": "blood"}
    unit = sheet().units[0] | {"spans": [span]}
    made = argilla.record_of(replace(sheet(), turns=[{"role": "seeker", "text": text}], units=[unit]), "g", TAXONOMY)
    assert made["fields"]["dialogue"].startswith("seeker: &lt;b&gt;Tom &amp; Jerry")
    values = {name: {"value": value} for name, value in made["suggestions"].items()}
    row = {"status": "submitted", "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
    sent = made | {"id": "r1", "responses": [row]}
    facts = json.loads(made["metadata"]["saferec"])
    facts.pop("escaped")
    before = sent | {"fields": {"dialogue": f"seeker: {text}"}, "metadata": {"saferec": json.dumps(facts)}}
    for record in (sent, before):
        (said,) = argilla.responses_of(record, {}, "x", lambda key: [{"role": "seeker", "text": text}])
        assert said.spans == {"gore": [span]}


def exported(result: list[dict[str, Any]], made: Sheet | None = None, **more: Any) -> Response:
    task = label_studio.task_of(made or sheet(), "g", TAXONOMY)
    row = {"id": 5, "completed_by": 1, "result": result, "updated_at": "2026-01-01T00:00:00Z"} | more
    (said,) = label_studio.responses_of(task | {"id": 3, "annotations": [row]}, {1: "ann"}, 7, ours)
    return said


def control(name: str, **value: Any) -> dict[str, Any]:
    return {"id": "r", "from_name": name, "to_name": "dialogue", "type": label_studio.CONTROLS[name], "value": value}


def verdicts(said: Response, before: set[str] | None = None, task: Task = TASK) -> tuple[dict[str, str], list[str]]:
    pulled = Pulled()
    take(pulled, said, task, TURNS, before or set(), STAMP, TAXONOMY)
    told = {a["trait"]: a["verdict"] for a in pulled.answers.values()}
    return told, [reason for _, _, _, reason, _ in pulled.drops]


DONE = control("outcome", choices=[READ])
RATHER_NOT = control("outcome", choices=["I would rather not see this"])


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


def record(status: str, values: dict[str, Any] | None) -> dict[str, Any]:
    row = {"status": status, "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
    made = argilla.record_of(sheet(), "g", TAXONOMY)
    return {**made, "id": "r1", "responses": [row]}


def test_argilla_speaks_of_the_same_words():
    made = argilla.record_of(sheet(), "g", TAXONOMY)
    (span,) = made["suggestions"]["evidence"]
    values = {"evidence": {"value": [span]}, "present": {"value": ["gore"]}, "outcome": {"value": READ}}
    (said,) = argilla.responses_of(record("submitted", values), {"u1": "ann"}, "x", ours)
    assert said.spans == {"gore": sheet().units[0]["spans"]}
    assert verdicts(said) == ({"gore": "present", "*": "absent"}, [])
    (gone,) = argilla.responses_of(record("discarded", None), {"u1": "ann"}, "x", ours)
    assert verdicts(gone) == ({}, ["skipped"])
    assert not list(argilla.responses_of(record("draft", values), {"u1": "ann"}, "x", ours))
    edited = record("submitted", values) | {"metadata": {"saferec": "no json"}}
    (odd,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert odd.spans == said.spans  # our own text says where the words stand
    assert json.loads(made["metadata"]["saferec"])["asked"] == ["gore"]


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
    values = {"present": {"value": ["gore"]}, "outcome": {"value": READ}, "note": {"value": "half \ud83d"}}
    edited = record("submitted", values) | {"metadata": {"saferec": facts}}
    (said,) = argilla.responses_of(edited, {"u1": "ann"}, "x", ours)
    assert (said.who, said.present, said.asked, said.shown) == ("ann", ["gore"], [], {})
    assert said.note == "half ?" and said.guideline is None


def test_the_password_file_is_its_owners_and_no_strangers_process_is_stopped(tmp_path: Path):
    managed.save(tmp_path, {"pid": 1, "url": "http://127.0.0.1:9", "accounts": {}})
    assert (tmp_path / "server.json").stat().st_mode & 0o777 == 0o600
    assert not managed.alive(tmp_path, {"pid": 1})  # some process has that number, and it is not ours
    assert managed.down(tmp_path) is False
    assert managed.state(tmp_path / "nowhere") is None


def test_every_trait_is_in_the_interface_and_every_control_too():
    page = label_studio.interface(TAXONOMY)
    for slug in TAXONOMY.slugs:
        assert page.count(f'value="{slug}"') == 3  # to mark, present, unsure
    assert all(f'name="{name}"' in page for name in label_studio.CONTROLS)


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
        assert set(few.slugs) <= {o["value"] for o in options} or question["name"] in ("note", "outcome")


def test_nothing_else_is_no_trait():
    values = {"present": {"value": [argilla.NOTHING]}, "unsure": {"value": [argilla.NOTHING]}}
    (said,) = argilla.responses_of(record("submitted", values | {"outcome": {"value": READ}}), {"u1": "ann"}, "x", ours)
    assert verdicts(said) == ({"gore": "absent", "*": "absent"}, [])


def test_a_stranger_with_a_reviewers_name_is_not_that_reviewer():
    """Ann's account is named in saferec.toml: another Ann on a shared server speaks for herself."""
    accounts = {"ann": "ann.lee@team.org"}
    people = {1: ("ann.lee@team.org", "ann.lee", "al"), 2: ("ann@else.org", "ann", ""), 3: ("bo@team.org", "bo", "")}
    assert label_studio_server.names_of(people, accounts, ["ann", "bo"]) == {1: "ann", 2: "user-2", 3: "bo"}
    with pytest.raises(ReviewError, match=r"ann@a.org and ann@b.org could both be ann: .*accounts = { ann = "):
        label_studio_server.names_of({1: ("ann@a.org", "ann", ""), 2: ("ann@b.org", "ann", "")}, {}, ["ann"])
    with pytest.raises(ReviewError, match=r"ann@a.org could be anna and ann: one person is never two readers"):
        label_studio_server.names_of({1: ("ann@a.org", "ann", "")}, {"anna": "ann@a.org"}, ["ann", "anna"])  # renamed
    known = {"11111111-1": "ann.lee", "22222222-2": "ann", "33333333-3": "bo", "44444444-4": "di"}
    told = argilla_server.names_of(known, {"ann": "ann.lee"}, ["ann", "bo"])
    assert list(told.values()) == ["ann", "user-22222222", "bo", "di"]
