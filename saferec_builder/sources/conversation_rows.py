"""The row format that all sources of conversations share: the table's columns, and the place in the file."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TypedDict

import polars as pl
import pyarrow as pa

from saferec_builder import sources
from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.shapes import seen
from saferec_builder.sources import Left, Read, Row, Rows
from saferec_builder.storage import tables

POST = pl.Struct({"source_id": pl.String, "author": pl.String})
SCHEMA = pl.Schema(
    [
        *tables.CONVERSATIONS.schema.items(),
        ("place", pl.String()),
        ("posts", pl.List(POST)),  # of the turns, where a source has ids or authors of them: as it names them, or null
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
    recommended: list[str],
    accepted: list[str],
    seen: list[str],
    posts: list[dict[str, str | None]] | None = None,
    stated: list[str] | None = None,
    digest: str | None = None,
) -> Row:
    """A conversation as read; `seeker` is still the source's own id, which `mine` turns into a pseudonym.

    `digest` is that of the turns, where items are no part of what makes a revision.
    """
    return {
        "conversation": tables.digest(source, source_id),
        "digest": digest or tables.digest(turns),
        "source": source,
        "source_id": source_id,
        "source_file": place.rsplit(":", 1)[0],
        "domain": domain,
        "seeker": seeker,
        "time": time,
        "turns": turns,
        "recommended": recommended,
        "accepted": accepted,
        "seen": seen,
        "place": place,
        "posts": posts,
        "stated": stated,
    }


def unpacked(value: object) -> object:
    """The value of a cell: tables without nesting hold JSON text."""
    if not isinstance(value, str):
        return value
    try:
        found = sources.sound(strict_json(value))
    except KeyTwice as fault:
        raise Left(sources.TWICE, str(fault)) from None
    except (ValueError, RecursionError):
        return value
    if isinstance(found, Left):
        raise found
    return found


def by_role(turns: list[Turn]) -> dict[str, list[str]]:
    """role -> refs of its turns; a ref belongs to who named it first."""
    named: dict[str, str] = {}
    for turn in turns:
        for item in turn["items"]:
            named.setdefault(item, turn["role"])
    return {role: [item for item, who in named.items() if who == role] for role in ("seeker", "recommender")}


class Line(TypedDict):
    """One line of a file that holds a dialogue in many lines."""

    dialogue: str
    order: int
    role: str
    text: str
    items: list[str]
    place: str
    turn: str | None  # lines with the same one in a row are one turn; None: a turn of its own


def line(
    place: str,
    row: dict[str, str],
    roles: Mapping[str, str],
    number: str,
    *,
    text: str,
    items: list[str],
    turn: str | None = None,
) -> Line:
    """A line with columns dialog_id and speaker, one of `roles`; the column `number` counts the lines of a dialogue."""
    if row["speaker"] not in roles:
        raise Left("unknown speaker", f"{seen(row['speaker'])}, expected {' or '.join(roles)}")
    if not row["dialog_id"]:
        raise Left("no id", "a line needs a dialog_id")
    order, role = sources.whole(row[number], number), roles[row["speaker"]]
    return Line(dialogue=row["dialog_id"], order=order, role=role, text=text, items=items, place=place, turn=turn)


def of_films(source: str, lines: list[Line], drops: Rows) -> Read:
    """One conversation about films per dialogue, in order of its first line, where it stands.

    Where a number comes twice, another copy or another dialogue of that name begins: its lines are left out.
    """
    dialogues: dict[str, dict[int, Line]] = {}
    again: set[str] = set()
    drops = [*drops]
    for line in lines:
        name, found = line["dialogue"], dialogues.setdefault(line["dialogue"], {})
        if line["order"] in found:
            again.add(name)
        if name in again:
            drops.append(sources.drop("mine", source, line["place"], "same id"))
        else:
            found[line["order"]] = line
    return read([_dialogue(source, name, list(found.values())) for name, found in dialogues.items()], drops)


def _dialogue(source: str, name: str, lines: list[Line]) -> Row:
    turns: list[Turn] = []
    last: tuple[str, str] | None = None
    for line in sorted(lines, key=lambda line: line["order"]):
        here = None if line["turn"] is None else (line["role"], line["turn"])
        if here is not None and here == last:
            turns[-1]["text"] += f" {line['text']}"
            turns[-1]["items"] = list(dict.fromkeys([*turns[-1]["items"], *line["items"]]))
        else:
            turns.append(Turn(role=line["role"], text=line["text"], items=line["items"]))
        last = here
    by = by_role(turns)
    return row(
        source,
        name,
        lines[0]["place"],
        turns,
        domain="film",
        recommended=by["recommender"],
        accepted=[],
        seen=by["seeker"],
    )


def read(rows: Rows, drops: Rows, left: Mapping[str, int] = MappingProxyType({})) -> Read:
    """What one file gave; `left`: its messages that were left out, by their role or why."""
    figures = {f"{why}_messages_left_out": n for why, n in sorted(left.items())}
    return Read(frame(rows), tables.DROPS.frame(drops), figures)


def frame(rows: Rows) -> pl.DataFrame:
    """Rows as given by `row`; through arrow, since polars alone takes six times as long over dicts in lists."""
    arrow = pl.DataFrame(schema=SCHEMA).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return pl.DataFrame(pa.Table.from_pylist(rows, schema=arrow), schema=SCHEMA)
