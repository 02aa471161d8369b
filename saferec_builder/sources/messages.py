"""Reads conversations as lists of chat messages, one JSON object per line, as in chat logs and OpenAI-style files.

    {"id": "a1", "messages": [{"role": "user", "content": "...", "items": ["Alien (1979)"]}, ...],
     "time": "2024-05-01T12:00:00Z", "user": "u7", "domain": "film", "accepted": ["..."], "seen": ["..."]}

Only `messages` is required. A conversation without an id is identified by its text. An id means one conversation in
all mined files. Items are `Title (Year)` or refs (`imdb:tt0078748`). Messages of other roles than user and assistant
(system, tool, ...) and messages without text are left out and counted.
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from saferec_builder import sources
from saferec_builder.core.value_shapes import field_names, seen
from saferec_builder.sources import Left, Read, Row, Rows, conversation_rows as conversations, refs
from saferec_builder.storage import tables

SOURCE = "messages"
ROLES = {"user": "seeker", "assistant": "recommender"}
_OTHER_NAMES = frozenset(("text", "value", "message", "utterance", "body"))  # other names of `content`


class _Part(BaseModel):
    type: str
    text: str | None = None


class _Message(BaseModel):
    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: str | list[_Part] | None = None
    items: list[str] | None = None

    @property
    def text(self) -> str:
        parts = [self.content] if isinstance(self.content, str) else [p.text for p in self.content or ()]
        return "\n".join(p for p in parts if p)


class _Row(BaseModel):
    model_config = ConfigDict(strict=True)

    messages: list[_Message]
    id: str | int | None = None
    time: str | None = None
    user: str | int | None = None
    domain: str | None = None
    accepted: list[str] = Field(default_factory=list)
    seen: list[str] = Field(default_factory=list)


def read(path: Path, source: str = SOURCE) -> Read:
    """Conversations as `conversation_rows.frame` gives them, with the file's ids of seekers."""
    left_out: Counter[str] = Counter()

    def parse_row(place: str, raw: Row) -> Rows:
        row, skipped = conversation(source, place, raw)
        left_out.update(skipped)
        return [row]

    rows, drops = sources.jsonl(path, "mine", source, parse_row)
    return conversations.read(rows, drops, left_out)


def _is_turn(message: _Message) -> bool:
    return message.role in ROLES and bool(message.text.strip())


def conversation(source: str, place: str, raw: Row) -> tuple[Row, Counter[str]]:
    """Returns (the conversation of an outside row, numbers of what was left out of it: messages by role or `empty`, and
    ids of items that are none)."""
    messages = raw.get("messages")
    for n, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict) and "content" not in message and _OTHER_NAMES.intersection(message):
            raise Left("wrong type", f"messages.{n}.content is missing, found {field_names(message)}")
    row = _Row.model_validate({name: value for name, value in raw.items() if value is not None})
    left_out = Counter(
        f"{m.role if m.role not in ROLES else 'empty'}_messages" for m in row.messages if not _is_turn(m)
    )

    def known(names: list[str]) -> list[str]:
        found = [refs.read(name, refs.ref) for name in names if name.strip()]
        left_out.update(["bad_item_ids"] * found.count(None))
        return list(dict.fromkeys(ref for ref in found if ref))

    turns = [
        conversations.Turn(role=ROLES[m.role], text=m.text, items=known(m.items or []))
        for m in filter(_is_turn, row.messages)
    ]
    named = conversations.by_role(turns)["seeker"]
    talk = conversations.row(
        source,
        tables.digest(turns) if row.id is None or not str(row.id).strip() else str(row.id),
        place,
        turns,
        domain=_domain(row.domain),
        seeker=None if row.user is None else str(row.user).strip() or None,  # a blank cell names nobody
        time=_time(row.time),
        accepted=known(row.accepted),
        seen=list(dict.fromkeys([*named, *known(row.seen)])),
    )
    return talk, left_out


def _domain(text: str | None) -> str | None:
    """The domain, if items can have it; another value is not shown, as it may be somebody's words in a wrong column.

    A baseline recommends items of the request's domain: for "movie" it would find nothing in a catalog of films.
    """
    word = (text or "").strip().lower()
    if word and word not in sources.DOMAINS:
        expected = f"expected one of {', '.join(sources.DOMAINS)}, or nothing"
        raise Left("wrong domain", f"found {len(word)} characters, {expected}")
    return word or None


def _time(text: str | None) -> datetime | None:
    """An ISO time; without a zone it is UTC. A blank cell is none."""
    if text is None or not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Left("wrong time", f"{seen(text)}, expected ISO 8601 such as 2024-05-01T12:00:00Z") from None
