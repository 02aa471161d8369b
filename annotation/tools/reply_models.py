"""What a review server's answers must look like where they are read as plain JSON: one model per endpoint.

Only what is read is named; anything else there is nobody's business. A value that does not fit raises pydantic's
ValidationError, which server_errors.explained turns into a line with the endpoint, the place, and what was expected.
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
    """A task of GET /api/projects/ID/export. What its users sent (data, results) is read with care elsewhere."""

    id: int
    annotations: list[Annotation] | None = None

    @model_validator(mode="after")
    def _to_this(self) -> Self:
        if any(one.task not in (None, self.id) for one in self.annotations or []):
            raise ValueError(ELSEWHERE)
        return self


class Mark(_Strict):
    start: Count
    end: Count
    label: str


class Of(_Strict, Generic[T]):
    """What one question was answered with."""

    value: T | None = None


class Values(_Strict):
    evidence: Of[list[Mark]] = Of()
    present: Of[list[str]] = Of()
    unsure: Of[list[str]] = Of()
    openly: Of[list[str]] = Of()
    note: Of[str] = Of()
    outcome: Of[str] = Of()


class Given(_Strict):
    status: Literal["submitted", "discarded", "draft"]
    user_id: str
    record_id: str | None = None
    updated_at: Moment
    values: Values | None = None


class Record(_Strict):
    id: str
    fields: dict[str, Any]
    metadata: dict[str, Any] | None = None
    responses: list[Given] | None = None

    @model_validator(mode="after")
    def _to_this(self) -> Self:
        if any(one.record_id not in (None, self.id) for one in self.responses or []):
            raise ValueError(ELSEWHERE)
        return self


class Page(_Strict):
    """GET /api/v1/datasets/ID/records."""

    items: list[Record]
    total: Count


TASKS = TypeAdapter(list[Exported])
PAGE = TypeAdapter(Page)
