"""Writes the demo's input files: those that a user would have, and the truth, which only the generator knows.

conversations.jsonl, warnings.csv   the input of the demo
items.csv                           the items as a user's own catalog (`catalog add csv`), for the tutorial
gold.jsonl                          for scoring only: the traits of each conversation, and those each item violates
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.demo import generate, people, world
from saferec_builder.storage.tables import digest
from saferec_builder.storage.whole_files import replacing

NAMED = re.compile(r"\((?:19|20)\d\d\)")  # a recommender's turn that names an item ends the prompt


def all_conversations(taxonomy: Taxonomy, generated: int) -> list[generate.Made]:
    """The hand-written conversations and `generated` more, divided among train, validation, test and unseen."""
    total = sum(generate.COUNTS.values())
    counts = {bank: n * generated // total for bank, n in generate.COUNTS.items()}
    counts["train"] += generated - sum(counts.values())  # the remainder of rounding
    return [*written_conversations(), *generate.conversations(taxonomy, counts=counts)]


def written_conversations() -> list[generate.Made]:
    """The package's conversations.jsonl in the form of `mine messages`, spread over the demo's period."""
    rows = list(world.read_lines(world.FOLDER / "conversations.jsonl"))
    days = sum(generate.PERIODS["test"])
    conversations = []
    for n, row in enumerate(rows):
        roles = {"seeker": "user", "recommender": "assistant"}
        turns: list[generate.Message] = [{"role": roles[t["role"]], "content": t["text"]} for t in row["turns"]]
        time = generate.START + timedelta(days=days * n / len(rows), hours=1)
        talk: generate.Talk = {"id": row["id"], "user": row["seeker"], "time": time.isoformat(), "messages": turns}
        conversations.append(generate.Made(talk, row["gold"], "written"))
    return conversations


def write(
    folder: Path, taxonomy: Taxonomy, generated: int, released: Callable[[str], str] = str
) -> dict[str, people.Gold]:
    """Writes the files and returns the truth by conversation, for the simulated reviewers.

    released: maps a conversation to its id in a release, for gold.jsonl. Raises UsageError if the folder holds another
    number of conversations: there would be no truth for tasks that were assigned already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    conversations, path = all_conversations(taxonomy, generated), folder / "conversations.jsonl"
    if path.exists() and (stored := path.read_bytes().count(b"\n")) != len(conversations):
        raise UsageError(
            f"{folder.parent} holds a demo of {stored:,} conversations, and --generated {generated} makes"
            f" {len(conversations):,}: give --to another folder, or delete this one"
        )
    _lines(path, (c.row for c in conversations))
    _lines(folder / "gold.jsonl", _gold(conversations, taxonomy, released))
    _table(folder / "warnings.csv", world.warnings(taxonomy))
    items = [row for name in ("films", "games") for row in world.read_lines(world.FOLDER / f"{name}.jsonl")]
    columns = ("domain", "title", "year", "plot")
    rows = [{c: row[c] for c in columns} | {"genres": "|".join(row["genres"])} for row in items]
    _table(folder / "items.csv", rows)
    return {name_of(c): c.gold for c in conversations}


def name_of(conversation: generate.Made) -> str:
    """The id that `mine messages` gives the conversation."""
    return digest("messages", conversation.row["id"])


def _gold(
    conversations: list[generate.Made], taxonomy: Taxonomy, released: Callable[[str], str]
) -> Iterable[Mapping[str, object]]:
    for c in conversations:
        turns = c.row["messages"]
        end = max(n for n, t in enumerate(turns) if t["role"] == "assistant" and NAMED.search(t["content"]))
        early = sorted({g["trait"] for g in c.gold if g["turn"] < end})
        late = sorted({g["trait"] for g in c.gold} - set(early))
        yield {"conversation": released(name_of(c)), "slice": c.slice, "traits": early, "late_traits": late}
    for item in world.items():
        yield {"item": item.name, "violated": item.breaks(taxonomy)}


def _table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with replacing(path) as tmp:
        pl.DataFrame(rows).write_csv(tmp, line_terminator="\r\n")


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    with replacing(path) as tmp, open(tmp, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
