"""What users of a review server may send instead of an answer: it is read or dropped, and the pull goes on."""

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from annotation.tools import label_studio, task_conversion as sheets
from annotation.tools.guidelines import guideline
from annotation.tools.tasks_and_answers import Pulled, Task
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import evidence_check as evidence
from tests.worlds.fuzz_strategies import CALM, HALF, NUMBERS, TEXT, changed

pytestmark = pytest.mark.slow  # because each test tries many examples

TAXONOMY = traits.load()
TASK = Task("sensitivity", "c1", "d1", "ann", "reviewer")
TURNS = [{"role": "seeker", "text": "I can't watch needles 😱, ever"}, {"role": "recommender", "text": "OK"}]
PLACE = {"start": "0", "end": "0", "startOffset": 14, "endOffset": 21, "text": "needles"}
PLACE |= {"paragraphlabels": ["needles"]}
RESULT: list[Any] = [
    {"id": "r", "from_name": "evidence", "type": "paragraphlabels", "value": PLACE},
    {"id": "r", "from_name": "form", "type": "choices", "value": {"choices": ["implicit"]}},
    {"id": "p", "from_name": "verdict_0", "type": "choices", "value": {"choices": ["needles present"]}},
    {"id": "u", "from_name": "unsure", "type": "choices", "value": {"choices": ["gore"]}},
    {"id": "n", "from_name": "note", "type": "textarea", "value": {"text": ["a note"]}},
    # on the page without cards
    {"id": "p", "from_name": "present", "type": "choices", "value": {"choices": ["needles"]}},
    {"id": "o", "from_name": "outcome", "type": "choices", "value": {"choices": [sheets.READ]}},
]
DATA = {"key": "task-1", "turns": TURNS, "asked": ["needles"], "shown": {}, "guideline": "g", "taxonomy": "t"}
# a server's JSON has numbers that no float holds, and texts with half a character
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT | HALF


def said(result: Any, data: Any, seconds: Any, cards: bool = True) -> list[sheets.Response]:
    answer = {"id": 5, "completed_by": 1, "updated_by": 1, "result": result, "lead_time": seconds}
    answer |= {"updated_at": "2026-01-01T00:00:00Z"}
    task = json.loads(json.dumps({"id": 7, "data": data, "annotations": [answer]}))
    return list(label_studio.responses_of(task, {1: "ann"}, "3", lambda key: TURNS, cards=cards))


@CALM
@given(changed(RESULT, LEAVES), changed(DATA, LEAVES, most=1), NUMBERS | TEXT, st.booleans())
@example([5, {"value": None}, {"value": {}, "type": [], "from_name": "form"}], DATA, 1, True)
@example([{**RESULT[0], "value": {**PLACE, "start": -1, "startOffset": 1e999}}], DATA, 1, True)
@example([{**RESULT[2], "value": {"choices": [["needles present"]]}}, {**RESULT[2], "from_name": 7}], DATA, 1, True)
@example([{**RESULT[2], "from_name": "verdict_²"}, {**RESULT[2], "from_name": "verdict_9999"}], DATA, 1, True)
@example([{**RESULT[4], "value": {"text": ["half \ud83d here"]}}], {**DATA, "asked": []}, 1, True)
@example([{**RESULT[4], "value": {"text": 5}}, RESULT[6]], {**DATA, "shown": [1], "turns": 5, "asked": 7}, "x", False)
def test_whatever_a_user_sends_becomes_reviews_that_hold_or_a_drop(
    result: Any, data: Any, seconds: Any, cards: bool
) -> None:
    (response,) = said(result, data, seconds, cards)
    pulled = Pulled(tool="label_studio")
    stamp = {"tool": "label_studio", "guideline": guideline(), "taxonomy": TAXONOMY.digest, "simulated": False}
    sheets.take(pulled, response, TASK, TURNS, {}, stamp, taxonomy=TAXONOMY)
    assert pulled.answers or pulled.drops
    json.dumps([*pulled.answers.values(), pulled.drops], ensure_ascii=False, default=str).encode()  # can be stored
    for answer in pulled.answers.values():
        assert answer["trait"] in (*TAXONOMY.slugs, "*") and answer["verdict"] in ("present", "absent", "unsure")
        assert answer["form"] in (None, "explicit", "implicit")
        for span in answer["spans"]:
            assert evidence.fault(span, TURNS, "sensitivity") is None


def test_an_answer_as_it_should_be_is_read_whole() -> None:
    for cards, ticks in ((True, {0: "needles present"}), (False, None)):
        (reply,) = said(RESULT, DATA, 12.34, cards)
        facts = (reply.verdicts, reply.unsure, reply.forms, reply.note, reply.seconds)
        assert facts == (ticks, ["gore"], {"needles": "implicit"}, "a note", 12.3)
        assert reply.spans == {"needles": [{"turn": 0, "start": 14, "end": 21, "quote": "needles"}]} and not reply.lost
    assert (reply.present, reply.outcome) == (["needles"], sheets.READ)
