"""A task as servers show it, and answers to it."""

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
    """Our own text of any task."""
    return TURNS


def sheet(**more: Any) -> Sheet:
    at = TURNS[2]["text"].index("blood")
    span = {"turn": 2, "start": at, "end": at + 5, "quote": "blood"}
    unit = {"trait": "gore", "verdict": "present", "form": "explicit", "spans": [span], "said": None}
    unit |= {"own_verdict": None, "own_form": None, "own_spans": None} | more
    return Sheet("task-1", TASK, "proposed", "", "?", TURNS, [unit])


def exported(result: list[dict[str, Any]], made: Sheet | None = None, **more: Any) -> Response:
    task = label_studio.task_of(made or sheet(), "g", TAXONOMY)
    row = {"id": 5, "completed_by": 1, "updated_by": 1, "result": result, "updated_at": "2026-01-01T00:00:00Z"} | more
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


def record(status: str, values: dict[str, Any] | None) -> dict[str, Any]:
    row = {"status": status, "values": values, "user_id": "u1", "updated_at": "2026-01-01T00:00:00"}
    made = argilla.record_of(sheet(), "g", TAXONOMY)
    return {**made, "id": "r1", "responses": [row]}
