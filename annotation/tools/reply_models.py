"""Models of the replies of review servers that are read as plain JSON: one model per endpoint.

They list only the fields that are read, and allow any others. A wrong value raises pydantic's ValidationError, which
server_errors.explained turns into a line with the endpoint, the place, and what was expected.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator


def _moment(text: str) -> str:
    datetime.fromisoformat(text.replace("Z", "+00:00"))
    return text


Moment = Annotated[str, AfterValidator(_moment)]
ELSEWHERE = "an answer to something else"
Count = Annotated[int, Field(ge=0, lt=2**31)]
T = TypeVar("T")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class Annotation(_Strict):
    id: int
    task: int | None = None
    updated_at: Moment | None = None


class Exported(_Strict):
    """A task of GET /api/projects/ID/export. Its users' input (data, results) is checked where it is read."""

    id: int
    annotations: list[Annotation] | None = None

    @model_validator(mode="after")
    def _belong_here(self) -> Self:
        if any(annotation.task not in (None, self.id) for annotation in self.annotations or []):
            raise ValueError(ELSEWHERE)
        return self


class Mark(_Strict):
    start: Count
    end: Count
    label: str


class Answer(_Strict, Generic[T]):
    """The answer to one question."""

    value: T | None = None


class Values(_Strict):
    evidence: Answer[list[Mark]] = Answer()
    present: Answer[list[str]] = Answer()
    unsure: Answer[list[str]] = Answer()
    openly: Answer[list[str]] = Answer()
    note: Answer[str] = Answer()


class Response(_Strict):
    status: Literal["submitted", "discarded", "draft"]
    user_id: str
    record_id: str | None = None
    updated_at: Moment
    values: Values | None = None


class Record(_Strict):
    id: str
    fields: dict[str, Any]
    responses: list[Response] | None = None

    @model_validator(mode="after")
    def _belong_here(self) -> Self:
        if any(response.record_id not in (None, self.id) for response in self.responses or []):
            raise ValueError(ELSEWHERE)
        return self


class Records(_Strict):
    """GET /api/v1/datasets/ID/records."""

    items: list[Record]
    total: Count


TASKS = TypeAdapter(list[Exported])
RECORDS = TypeAdapter(Records)
