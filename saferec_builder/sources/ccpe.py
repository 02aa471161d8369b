"""Reads CCPE-M: an assistant asks which films a user likes and why; as published, a JSON list of conversations, or
comma-separated, one utterance per line.

It has no recommendations, so nothing to train a recommender on. Proposers and reviewers can use it, since people say in
it what they cannot bear to watch. Turns are in the order of the utterances' numbers. Annotations are not read.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Row, conversation_rows as conversations

SOURCE = "ccpe"
COLUMNS = ("dialog_id", "utterance_index", "speaker", "text")
ROLES = {"USER": "seeker", "ASSISTANT": "recommender"}


class _Utterance(BaseModel):
    index: int
    speaker: str
    text: str


class _Conversation(BaseModel):
    conversationId: str
    utterances: list[_Utterance] = Field(min_length=1)


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them; the file has no ids of people."""
    if _is_list(path):
        lines, drops = sources.parse_rows("mine", SOURCE, _listed(path), _lines)
    else:
        lines, drops = sources.csv_rows(path, "mine", SOURCE, _line, expected=COLUMNS)
    return conversations.of_films(SOURCE, lines, drops)


def _is_list(path: Path) -> bool:
    with sources.opened(path) as file:
        return file.read(1_000).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _listed(path: Path) -> Iterator[tuple[str, Row | Left]]:
    rows = sources.json_file(path, "the data.json of CCPE-M: fetch it again")
    for n, row in enumerate(rows if isinstance(rows, list) else (), 1):
        yield f"{path.name}:{n}", sources.an_object(row)


def _lines(place: str, raw: Row) -> list[conversations.Line]:
    talk = _Conversation.model_validate(raw)
    cells = [(talk.conversationId, str(u.index), u.speaker, u.text) for u in talk.utterances]
    rows = [{name: cell.strip() for name, cell in zip(COLUMNS, row, strict=True)} for row in cells]  # as of a table
    return [line for row in rows for line in _line(place, row)]


def _line(place: str, row: dict[str, str]) -> list[conversations.Line]:
    return [conversations.line(place, row, ROLES, "utterance_index")]
