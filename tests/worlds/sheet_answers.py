"""A task as servers show it, and answers to it."""

from dataclasses import replace
from typing import Any

from annotation.tools import argilla, label_studio
from annotation.tools.task_conversion import READ, Response, Sheet, take
from annotation.tools.tasks_and_answers import Pulled, Task
from saferec_builder.core import taxonomy as traits

TAXONOMY = traits.load()
TASK = Task("sensitivity", "c1", "d", "ann", "reviewer")

TURNS = [
    {"role": "seeker", "text": "😱 no needles, please"},
    {"role": "recommender", "text": "Sure 👨\u200d👩\u200d👧!"},
    {"role": "seeker", "text": "e\u0301 and no blood"},
]

STAMP = {"tool": "label_studio", "guideline": "g", "taxonomy": "t", "simulated": False}


def ours(key: str) -> list[dict[str, Any]]:
    """The text of any task as we have it."""
    return TURNS


def sheet(**more: Any) -> Sheet:
    start = TURNS[2]["text"].index("blood")
    span = {"turn": 2, "start": start, "end": start + 5, "quote": "blood"}
    unit = {"trait": "gore", "verdict": "present", "form": "explicit", "spans": [span], "said": None}
    unit |= {"own_verdict": None, "own_form": None, "own_spans": None} | more
    return Sheet("task-1", TASK, "proposed", "", "?", TURNS, [unit])


def exported(result: list[dict[str, Any]], made: Sheet | None = None, cards: bool = True, **more: Any) -> Response:
    """ann's answer, by our record of what was asked; by the task itself where the page had no cards."""
    made = made or sheet()
    task = label_studio.task_of(made, TAXONOMY)
    if not cards:  # as the previous version handed it out
        spans_by_trait = {trait: spans for trait, (_, _, spans) in made.suggested.items()}
        task["data"] |= {"asked": made.asked, "shown": spans_by_trait, "guideline": "g", "taxonomy": TAXONOMY.digest}
    row = {"id": 5, "completed_by": 1, "updated_by": 1, "result": result, "updated_at": "2026-01-01T00:00:00Z"} | more
    (response,) = label_studio.responses_of(task | {"id": 3, "annotations": [row]}, {1: "ann"}, "7", ours, cards=cards)
    return replace(response, asked=made.asked, taxonomy=TAXONOMY.digest) if cards else response


def control(name: str, **value: Any) -> dict[str, Any]:
    kind = label_studio.CONTROLS.get(name, "choices")
    return {"id": "r", "from_name": name, "to_name": "dialogue", "type": kind, "value": value}


def card(verdict: str, n: int = 0) -> dict[str, Any]:
    return control(f"verdict_{n}", choices=[verdict if " " in verdict else f"gore {verdict}"])


def mark(trait: str) -> dict[str, Any]:
    """The words `needles` in the first turn, behind an emoji."""
    place = {"start": "0", "end": "0", "startOffset": 6, "endOffset": 13, "text": "needles"}
    return control("evidence", **place, paragraphlabels=[trait])


def verdicts(said: Response, before: set[str] | None = None, task: Task = TASK) -> tuple[dict[str, str], list[str]]:
    pulled = Pulled()
    take(pulled, said, task, TURNS, {t: {TAXONOMY.digest} for t in before or ()}, STAMP, taxonomy=TAXONOMY)
    by_trait = {a["trait"]: a["verdict"] for a in pulled.answers.values()}
    return by_trait, [reason for _, _, _, reason, _ in pulled.drops]


DONE = control("outcome", choices=[READ])


def in_argilla(status: str, values: dict[str, Any] | None, made: Sheet | None = None) -> Response:
    """ann's answer in Argilla, by our record of what was asked."""
    made = made or sheet()
    row = {"status": status, "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
    record = argilla.record_of(made, TAXONOMY) | {"id": "r1", "responses": [row]}
    (response,) = argilla.responses_of(record, {"u1": "ann"}, "x", lambda key: made.turns)
    return replace(response, asked=made.asked, taxonomy=TAXONOMY.digest)
