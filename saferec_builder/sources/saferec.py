"""The official SafeRec columns: JSON lines or parquet with prompt, completion and groundtruth_with_release_year.

    {"prompt": [{"role": "user", "content": "..."}], "completion": [{"role": "assistant", "content": "..."}],
     "seen_titles": ["..."], "groundtruth_with_release_year": [["Alien", 1979]], "constraints": {"...": true}}

The completion becomes the last turn and the ground truth what was accepted. `constraints` are what that benchmark
claims of its users, by a model and without evidence: they go to the table `stated`, never into labels.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from saferec_builder import sources, tables
from saferec_builder.errors import KeyTwice, SourceError, strict_json
from saferec_builder.sources import Left, Read, Rows, conversations, refs

SOURCE = "saferec"
ROLES = {"user": "seeker", "assistant": "recommender"}


class _Message(BaseModel):
    role: str
    content: str


def _chat(role: str) -> BeforeValidator:
    """A plain string is one message of this role."""
    return BeforeValidator(lambda value: [{"role": role, "content": value}] if isinstance(value, str) else value)


def _parsed(value: Any) -> Any:
    """Tables without nesting hold JSON text."""
    if isinstance(value, str):
        try:
            found = sources.sound(strict_json(value))
        except KeyTwice as fault:
            raise Left(sources.TWICE, str(fault)) from None
        except (ValueError, RecursionError):
            return value
        if isinstance(found, Left):
            raise found
        return found
    return value


def _or(empty: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: empty if value is None else _parsed(value))


class _Row(BaseModel):
    prompt: Annotated[list[_Message], _chat("user")]
    completion: Annotated[list[_Message], _chat("assistant"), _or([])] = Field(default_factory=list)
    seen_titles: Annotated[list[str], _or([])] = Field(default_factory=list)
    groundtruth_with_release_year: Annotated[list[tuple[str, int | str | None]], _or([])] = Field(default_factory=list)
    constraints: Annotated[dict[str, bool | None], _or({})] = Field(default_factory=dict)


def read(path: Path) -> Read:
    """Conversations as `sources.conversations.frame` gives them, the constraints under their official names.

    Messages of other roles than user and assistant, and messages without text, are left out and counted.
    """
    left: Counter[str] = Counter()

    def one(place: str, raw: dict[str, Any]) -> Rows:
        row = _Row.model_validate(raw)
        found = _conversation(place, row)
        left.update("other_role" if m.role not in ROLES else "empty" for m in row.prompt if not _kept(m))
        return found

    if path.suffix == ".parquet":
        rows, drops = sources.each("mine", SOURCE, _parquet(sources.existing(path)), one)
    else:
        rows, drops = sources.jsonl(path, "mine", SOURCE, one)
    figures = {f"{why}_messages_left_out": n for why, n in sorted(left.items())}
    return Read(conversations.frame(rows), sources.drops_frame(drops), figures)


def _kept(message: _Message) -> bool:
    return message.role in ROLES and bool(message.content.strip())


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as fault:
        raise SourceError(f"{path}: not a parquet file ({sources.readable(str(fault))})") from None
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        yield f"{path.name}:{number}", row


def _conversation(place: str, row: _Row) -> Rows:
    truth = list(dict.fromkeys(_ref(title, year) for title, year in row.groundtruth_with_release_year))
    turns = [conversations.Turn(role=ROLES[m.role], text=m.content, items=[]) for m in row.prompt if _kept(m)]
    answer = "\n".join(m.content for m in row.completion if m.content.strip())
    if answer or truth:
        shown = answer or "\n".join(ref.removeprefix("title:") for ref in truth)
        turns.append(conversations.Turn(role="recommender", text=shown, items=truth))
    # a prompt alone is no id: the benchmark pairs one request with several constraints
    name = tables.digest(turns, truth, sorted(row.constraints.items()))
    return [
        conversations.row(
            SOURCE,
            name,
            place,
            turns,
            recommended=truth,
            accepted=truth,
            seen=list(dict.fromkeys(refs.ref(t) for t in row.seen_titles if t.strip())),
            stated=sorted(trait for trait, holds in row.constraints.items() if holds),
        )
    ]


def _ref(title: str, year: int | str | None) -> str:
    if not title.strip():
        raise Left("no title", "groundtruth_with_release_year names an item without a title")
    named = refs.year(str(year)) if year not in (None, "") else None
    return refs.ref(f"title:{title}" + (f" ({named})" if named else ""))
