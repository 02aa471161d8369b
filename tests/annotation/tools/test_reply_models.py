"""A reply of another shape gives one line that names its place; a correct reply passes."""

import copy
from typing import Any

import pytest

from annotation.tools import reply_models as models, server_errors as failures
from saferec_builder.core.errors import ReviewError

TIME = "2026-01-01T00:00:00Z"
TASKS = [{"id": 3, "data": {}, "annotations": [{"id": 5, "task": 3, "updated_at": TIME, "result": 7}]}]
VALUES = {"evidence": {"value": [{"start": 0, "end": 2, "label": "gore"}]}, "present": {"value": ["gore"]}}
GIVEN = {"status": "submitted", "user_id": "u", "record_id": "r", "updated_at": TIME[:-1]}
GIVEN |= {"values": VALUES | {"note": {"value": "x"}}}
PAGE = {"items": [{"id": "r", "fields": {"ask": "?"}, "metadata": None, "responses": [GIVEN]}], "total": 1}
AT = ("items", 0, "responses", 0)


@pytest.mark.parametrize(
    ("model", "good", "place", "value"),
    [
        *((models.TASKS, TASKS, (0,), odd) for odd in (None, 7, "x", [])),
        *((models.TASKS, TASKS, (0, "id"), odd) for odd in (None, "3", 3.5, True)),
        *((models.TASKS, TASKS, (0, "annotations"), odd) for odd in (7, {}, "x", [None], [7])),
        *((models.TASKS, TASKS, (0, "annotations", 0, "id"), odd) for odd in (None, "5", [])),
        *((models.TASKS, TASKS, (0, "annotations", 0, "task"), odd) for odd in (4, "3")),
        *((models.RECORDS, PAGE, (*AT, "record_id"), odd) for odd in ("q", 7)),
        *((models.TASKS, TASKS, (0, "annotations", 0, "updated_at"), odd) for odd in (7, "soon", {}, "2026-13-01")),
        *((models.RECORDS, PAGE, ("items",), odd) for odd in (None, {}, [None])),
        *((models.RECORDS, PAGE, ("total",), odd) for odd in (None, "1", -1, 10**12)),
        *((models.RECORDS, PAGE, ("items", 0, "fields"), odd) for odd in (None, [])),
        *((models.RECORDS, PAGE, (*AT, "status"), odd) for odd in (None, 7)),
        *((models.RECORDS, PAGE, (*AT, "updated_at"), odd) for odd in (None, "soon")),
        *((models.RECORDS, PAGE, (*AT, "user_id"), odd) for odd in (None, 7)),
        *((models.RECORDS, PAGE, (*AT, "values", "present", "value"), odd) for odd in ("gore", [7])),
        *((models.RECORDS, PAGE, (*AT, "values", "evidence", "value", 0, "start"), odd) for odd in (-1, "0", None)),
    ],
)
def test_an_answer_of_another_shape_is_one_line(model: Any, good: Any, place: tuple[Any, ...], value: Any) -> None:
    model.validate_python(good)  # as it should be, it passes
    bad = copy.deepcopy(good)
    inner = bad
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with (
        pytest.raises(ReviewError, match="http://a: read it: not understood") as raised,
        failures.translated_errors("http://a", "read it"),
    ):
        model.validate_python(bad)
    names_task = models.ELSEWHERE in str(raised.value)  # and names the task
    assert names_task == (value in (4, "q")) and (names_task or all(str(step) in str(raised.value) for step in place))
