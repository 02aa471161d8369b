"""Reads the official SafeRec columns: prompt, completion and groundtruth_with_release_year, as JSON lines, parquet, or
one JSON object {"samples": [...]}.

    {"prompt": [{"role": "user", "content": "..."}], "completion": [{"role": "assistant", "content": "..."}],
     "seen_titles": ["..."], "groundtruth_with_release_year": [["Alien", 1979]], "constraints": {"...": true}}

A prompt may hold the benchmark's instruction and several speakers in one text: see benchmark_prompts. The completion
becomes the last turn, and the ground truth the accepted items. `constraints` and the `assigned_trait` of samples are
claims of the benchmark about its users, made by a model and without evidence: they go to the table `stated`, never into
labels.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, BeforeValidator, Field

from saferec_builder import sources
from saferec_builder.core.errors import KeyTwice, SourceError, strict_json
from saferec_builder.sources import Left, Read, Row, Rows, benchmark_prompts, conversation_rows as conversations, refs
from saferec_builder.storage import tables

SOURCE = "saferec"
ROLES = {"user": "seeker", "assistant": "recommender"}


class _Message(BaseModel):
    role: str
    content: str


def _chat(role: str) -> BeforeValidator:
    """Takes a plain string as one message of this role."""
    return BeforeValidator(lambda value: [{"role": role, "content": value}] if isinstance(value, str) else value)


def _or(default: object) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else conversations.unpacked(value))


class _Row(BaseModel):
    prompt: Annotated[list[_Message], _chat("user")]
    completion: Annotated[list[_Message], _chat("assistant"), _or([])] = Field(default_factory=list)
    seen_titles: Annotated[list[str], _or([])] = Field(default_factory=list)
    groundtruth_with_release_year: Annotated[list[tuple[str, int | str | None]], _or([])] = Field(default_factory=list)
    constraints: Annotated[dict[str, bool | None], _or({})] = Field(default_factory=dict)
    assigned_trait: str | None = None

    @property
    def stated(self) -> dict[str, bool | None]:
        return self.constraints | ({self.assigned_trait: True} if self.assigned_trait else {})

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Returns (role, text) of every turn of the prompt, also of blank ones."""
        messages = [message for message in self.prompt if message.role in ROLES]
        return [
            turn
            for m in messages
            for turn in (benchmark_prompts.turns_of(m.content) if m.role == "user" else [(ROLES[m.role], m.content)])
        ]


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them, the constraints under their official names.

    Messages of other roles than user and assistant, and messages without text, are left out and counted.
    """
    left_out: Counter[str] = Counter()

    def parse_row(place: str, raw: Row) -> Rows:
        row = _Row.model_validate(raw)
        rows = _conversation(place, row)
        left_out.update("other_role_messages" for m in row.prompt if m.role not in ROLES)
        left_out.update("empty_messages" for _, text in row.turns if not text.strip())
        return rows

    raw_rows = _parquet(sources.bounded_parquet(path)) if path.suffix == ".parquet" else samples(path)
    if raw_rows is None:
        rows, drops = sources.jsonl(path, "mine", SOURCE, parse_row)
    else:
        rows, drops = sources.parse_rows("mine", SOURCE, raw_rows, parse_row)
    return conversations.read(rows, drops, left_out)


_SINGLE_VALUE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*\"samples\"\s*:)")


def samples(path: Path) -> list[tuple[str, Row | Left]] | None:
    """The rows of a file that is one JSON value, with their numbers as places; None where its lines are rows."""
    with sources.opened(path) as file:
        if not path.name.endswith((".json", ".json.gz")) and not _SINGLE_VALUE.match(file.read(1_000)):
            return None
    try:
        value = strict_json(sources.content(path).decode("utf-8-sig"))
    except KeyTwice as fault:
        raise SourceError(f"{path}: {fault}") from None
    except (ValueError, RecursionError):
        return None
    rows = value.get("samples") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        return None
    return [(f"{path.name}:{n}", sources.an_object(row)) for n, row in enumerate(rows, 1)]


def _parquet(path: Path) -> Iterator[tuple[str, Row]]:
    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches(1_000):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}:{number}", row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as fault:  # a time of an unknown zone, or no UTF-8
        problem = f"cannot be read after row {number} ({sources.readable(str(fault))})"
        raise SourceError(f"{path}: {problem}: expected text, lists and numbers: give the rows as JSON lines") from None


def _conversation(place: str, row: _Row) -> Rows:
    truth = list(dict.fromkeys(_ref(title, year) for title, year in row.groundtruth_with_release_year))
    turns = [conversations.Turn(role=role, text=text, items=[]) for role, text in row.turns if text.strip()]
    answer = "\n".join(m.content for m in row.completion if m.content.strip())
    if answer or truth:
        reply = answer or "\n".join(ref.removeprefix("title:") for ref in truth)
        turns.append(conversations.Turn(role="recommender", text=reply, items=truth))
    # a prompt alone cannot be the id: the benchmark pairs one request with several constraints
    source_id = tables.digest(turns, truth, sorted(row.stated.items()))
    return [
        conversations.row(
            SOURCE,
            source_id,
            place,
            turns,
            accepted=truth,
            seen=list(dict.fromkeys(refs.ref(t) for t in row.seen_titles if t.strip())),
            stated=sorted(trait for trait, holds in row.stated.items() if holds),
        )
    ]


def _ref(title: str, year: int | str | None) -> str:
    if not title.strip():
        raise Left("no title", "groundtruth_with_release_year names an item without a title")
    released = refs.year(str(year)) if year not in (None, "") else None
    return refs.ref(f"title:{title}" + (f" ({released})" if released else ""))
