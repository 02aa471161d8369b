"""Reads ReDial: dialogues in which one worker (the initiator) asks for films and another recommends; JSON lines.

@id in a text is replaced by its title in the row. The forms of the two workers say per film: suggested, seen, liked
(1 yes, 0 no, 2 not said); an empty form is written [] instead of {}. There are no times.
"""

import html
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, Field

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Row, Rows, conversation_rows as conversations

SOURCE = "redial"
_MENTION = re.compile(r"@(\d+)")


def _object(value: object) -> object:
    return {} if value == [] or value is None else value


Mentions = Annotated[dict[str, str | None], BeforeValidator(_object)]  # id -> title


class _Message(BaseModel):
    text: str
    senderWorkerId: int | str


class _Answers(BaseModel):
    suggested: int = 2
    seen: int = 2
    liked: int = 2


_Form = Annotated[dict[str, _Answers], BeforeValidator(_object)]


class _Row(BaseModel):
    conversationId: int | str
    initiatorWorkerId: int | str
    respondentWorkerId: int | str
    messages: list[_Message]
    movieMentions: Mentions = Field(default_factory=dict)
    initiatorQuestions: _Form = Field(default_factory=dict)
    respondentQuestions: _Form = Field(default_factory=dict)


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them, with the worker ids of people."""
    return conversations.read(*sources.jsonl(path, "mine", SOURCE, _conversation))


def _conversation(place: str, raw: Row) -> Rows:
    row = _Row.model_validate(raw)
    titles = {i: clean(t) for i, t in row.movieMentions.items() if t and t.strip()}
    turns = [_turn(row, titles, message) for message in row.messages]
    recommended, accepted, seen = _items(row, titles, turns)
    return [
        conversations.row(
            SOURCE,
            str(row.conversationId),
            place,
            turns,
            domain="film",
            seeker=str(row.initiatorWorkerId),
            recommended=recommended,
            accepted=accepted,
            seen=seen,
            # messages have no ids, but their author may want them removed
            posts=[{"source_id": None, "author": str(message.senderWorkerId)} for message in row.messages],
        )
    ]


def clean(title: str) -> str:
    """A title as people write it: the files have `Why Him%3F  (2016)`."""
    return " ".join(unquote(html.unescape(title)).split())


def _turn(row: _Row, titles: dict[str, str], message: _Message) -> conversations.Turn:
    roles = {str(row.respondentWorkerId): "recommender", str(row.initiatorWorkerId): "seeker"}
    if str(message.senderWorkerId) not in roles:
        raise Left("unknown sender", "a message by neither initiator nor respondent")
    text = html.unescape(message.text)
    refs = [f"redial:{i}" for i in _MENTION.findall(text) if i in titles]
    filled = _MENTION.sub(lambda match: titles.get(match[1], match[0]), text)
    return {"role": roles[str(message.senderWorkerId)], "text": filled, "items": list(dict.fromkeys(refs))}


def _items(row: _Row, titles: dict[str, str], turns: list[conversations.Turn]) -> tuple[list[str], ...]:
    """Returns (recommended, accepted, seen); on a film, the seeker's form counts before the respondent's."""
    named = conversations.by_role(turns)
    forms = {**row.respondentQuestions, **row.initiatorQuestions}
    answered = {f"redial:{i}": answers for i, answers in sorted(forms.items()) if i in titles}
    refs, unanswered = dict.fromkeys([ref for turn in turns for ref in turn["items"]] + [*answered]), _Answers()
    recommended = [r for r in refs if r in named["recommender"] or answered.get(r, unanswered).suggested == 1]
    accepted = [r for r in recommended if answered.get(r, unanswered).liked == 1]
    seen = [r for r in refs if r in named["seeker"] or answered.get(r, unanswered).seen == 1]
    return recommended, accepted, seen
