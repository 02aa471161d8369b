"""The row format of all sources of conversations: the table's columns, and the place in the file."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

import polars as pl

from saferec_builder import sources
from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.value_shapes import seen
from saferec_builder.sources import Left, Read, Row, Rows
from saferec_builder.storage import schema, tables

POST = pl.Struct({"source_id": pl.String, "author": pl.String})
SCHEMA = pl.Schema(
    [
        *tables.CONVERSATIONS.schema.items(),
        ("place", pl.String()),
        ("posts", pl.List(POST)),  # of the turns, if the source has ids or authors: as it names them, or null
        ("stated", pl.List(pl.String)),  # traits that the source itself claims, under its own names
    ]
)


class Source(StrEnum):
    """Every source of conversations, as `saferec-build mine` names them."""

    reddit = "reddit"
    redial = "redial"
    inspired = "inspired"
    ccpe = "ccpe"
    opendialkg = "opendialkg"
    messages = "messages"
    saferec = "saferec"
    hf = "hf"


class Turn(TypedDict):
    role: str  # seeker | recommender
    text: str
    items: list[str]  # refs


def row(
    source: str,
    source_id: str,
    place: str,
    turns: list[Turn],
    *,
    domain: str | None = None,
    seeker: str | None = None,
    time: datetime | None = None,
    recommended: list[str] | None = None,
    accepted: Sequence[str] = (),
    seen: list[str] | None = None,
    posts: list[dict[str, str | None]] | None = None,
    stated: list[str] | None = None,
    digest: str | None = None,
) -> Row:
    """A conversation as read; `seeker` is still the source's own id, which `mine` replaces with a pseudonym.

    `recommended` and `seen`: the refs, if they are not just those that the recommender and the seeker name first.
    `digest`: a digest of the turns for sources whose items do not make a new revision.
    """
    named = by_role(turns)
    return {
        "conversation": tables.digest(source, source_id),
        "digest": digest or tables.digest(turns),
        "source": source,
        "source_id": source_id,
        "source_file": place.rsplit(":", 1)[0].rpartition("/")[2],  # a manifest names no folder
        "domain": domain,
        "seeker": seeker,
        "time": time,
        "turns": turns,
        "recommended": named["recommender"] if recommended is None else recommended,
        "accepted": [*accepted],
        "seen": named["seeker"] if seen is None else seen,
        "place": place,
        "posts": posts,
        "stated": stated,
    }


def has_column(path: Path, column: str) -> bool:
    """Whether a file is a table with this column; its name may have any case, as spreadsheets save it."""
    return column.lower() in [name.lower() for name in sources.header(path)]


def unpacked(value: object) -> object:
    """Parses the JSON text of a cell, as flat tables hold it; returns any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        parsed = sources.without_surrogates(strict_json(value))
    except KeyTwice as fault:
        raise Left(sources.TWICE, str(fault)) from None
    except (ValueError, RecursionError):
        return value
    if isinstance(parsed, Left):
        raise parsed
    return parsed


def by_role(turns: list[Turn]) -> dict[str, list[str]]:
    """Returns role -> refs of its turns; a ref belongs to the role that named it first."""
    first_role: dict[str, str] = {}
    for turn in turns:
        for item in turn["items"]:
            first_role.setdefault(item, turn["role"])
    return {role: [item for item, first in first_role.items() if first == role] for role in ("seeker", "recommender")}


class Line(TypedDict):
    """One line of a file with many lines per dialogue."""

    dialogue: str
    order: int
    role: str
    text: str
    items: list[str]
    place: str
    turn: str | None  # consecutive lines with the same value are one turn; None: a turn by itself


def line(place: str, row: dict[str, str], roles: Mapping[str, str], number: str) -> Line:
    """A Line without items, a turn by itself, from columns dialog_id, text and speaker (a key of `roles`); the column
    `number` numbers the dialogue's lines."""
    if row["speaker"] not in roles:
        raise Left("unknown speaker", f"{seen(row['speaker'])}, expected {' or '.join(roles)}")
    if not row["dialog_id"]:
        raise Left("no id", "a line needs a dialog_id")
    dialogue, role, order = row["dialog_id"], roles[row["speaker"]], sources.whole_number(row[number], number)
    return Line(dialogue=dialogue, order=order, role=role, text=row["text"], items=[], place=place, turn=None)


def of_films(source: str, lines: list[Line], drops: Rows) -> Read:
    """Returns one conversation about films per dialogue, in the order of first lines, which give the places.

    A repeated number begins another copy, or another dialogue of that name, whose lines are left out.
    """
    dialogues: dict[str, dict[int, Line]] = {}
    repeated: set[str] = set()
    drops = [*drops]
    for line in lines:
        name, dialogue = line["dialogue"], dialogues.setdefault(line["dialogue"], {})
        if line["order"] in dialogue:
            repeated.add(name)
        if name in repeated:
            drops.append(sources.drop("mine", source, line["place"], "same id"))
        else:
            dialogue[line["order"]] = line
    return read([_dialogue(source, name, list(dialogue.values())) for name, dialogue in dialogues.items()], drops)


def _dialogue(source: str, name: str, lines: list[Line]) -> Row:
    turns: list[Turn] = []
    previous: tuple[str, str] | None = None
    for line in sorted(lines, key=lambda line: line["order"]):
        current = None if line["turn"] is None else (line["role"], line["turn"])
        if current is not None and current == previous:
            turns[-1]["text"] += f" {line['text']}"
            turns[-1]["items"] = list(dict.fromkeys([*turns[-1]["items"], *line["items"]]))
        else:
            turns.append(Turn(role=line["role"], text=line["text"], items=line["items"]))
        previous = current
    return row(source, name, lines[0]["place"], turns, domain="film")


def read(rows: Rows, drops: Rows, left_out: Mapping[str, int] = MappingProxyType({})) -> Read:
    """The Read of one file; `left_out`: the numbers of messages and others that were left out of the rows, by kind."""
    figures = {f"{kind}_left_out": n for kind, n in sorted(left_out.items())}
    return Read(frame(rows), tables.DROPS.frame(drops), figures)


def frame(rows: Rows) -> pl.DataFrame:
    """The frame of rows of `row`."""
    return schema.frame(rows, SCHEMA)
