"""Reads OpenDialKG: two people talk about films, books, music or sport, and one recommends; as published, a table with
a session per row, or as rows of `messages` (sources/messages.py).

A session is a JSON list of chats and of actions, the facts that somebody chose to speak of, which are not read. It has
no id, so it is identified by its text, and no people, times, items or domain.
"""

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from saferec_builder import sources
from saferec_builder.sources import Read, Rows, conversation_rows as conversations, messages
from saferec_builder.storage import tables

SOURCE = "opendialkg"
COLUMN = "Messages"


class _Entry(BaseModel):
    type: Literal["chat", "action"]
    sender: Literal["user", "assistant"]
    message: str = ""


_SESSION = TypeAdapter(list[_Entry])


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them; actions and chats without text are counted."""
    if not conversations.has_column(path, COLUMN):
        return messages.read(path, SOURCE)
    left_out: Counter[str] = Counter()

    def parse_row(place: str, row: dict[str, str]) -> Rows:
        entries = _SESSION.validate_python(conversations.unpacked(row[COLUMN]))
        chats = [entry for entry in entries if entry.type == "chat" and entry.message.strip()]
        left_out.update(f"{'action' if e.type == 'action' else 'empty'}_messages" for e in entries if e not in chats)
        turns = [conversations.Turn(role=messages.ROLES[e.sender], text=e.message, items=[]) for e in chats]
        return [conversations.row(SOURCE, tables.digest(turns), place, turns)]

    rows, drops = sources.csv_rows(path, "mine", SOURCE, parse_row, expected=(COLUMN,))
    return conversations.read(rows, drops, left_out)
