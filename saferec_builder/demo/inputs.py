"""Writes the demo's input files: what a user would bring, and beside it the truth that only the generator knows.

conversations.jsonl, warnings.csv   what the line reads
items.csv                           the items again, as a user's own catalog (`catalog add csv`): the tutorial's
gold.jsonl                          for scoring only: who is sensitive to what, and what each item truly breaks
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.demo import generate, items_without_warnings as flags, people, world
from saferec_builder.storage.tables import digest
from saferec_builder.storage.whole_files import replacing

NAMED = re.compile(r"\((?:19|20)\d\d\)")  # a recommender's turn that names an item ends the prompt


def made(taxonomy: Taxonomy, generated: int) -> list[generate.Made]:
    """The hand-written conversations and `generated` more, shared over train, validation, test and unseen."""
    total = sum(generate.COUNTS.values())
    counts = {bank: max(1, n * generated // total) for bank, n in generate.COUNTS.items()}
    counts["train"] += max(0, generated - sum(counts.values()))  # what rounding left
    return [*written(), *generate.conversations(taxonomy, counts=counts)]


def written() -> list[generate.Made]:
    """conversations.jsonl of the package as `mine messages` reads it, spread over the demo's time."""
    rows = list(world.read_lines(world.FOLDER / "conversations.jsonl"))
    days = sum(generate.PERIODS["test"])
    found = []
    for n, row in enumerate(rows):
        roles = {"seeker": "user", "recommender": "assistant"}
        turns: list[generate.Message] = [{"role": roles[t["role"]], "content": t["text"]} for t in row["turns"]]
        time = generate.START + timedelta(days=days * n / len(rows), hours=1)
        message: generate.Talk = {"id": row["id"], "user": row["seeker"], "time": time.isoformat(), "messages": turns}
        found.append(generate.Made(message, row["gold"], "written"))
    return found


def write(
    folder: Path, taxonomy: Taxonomy, generated: int, released: Callable[[str], str] = str
) -> dict[str, people.Gold]:
    """Writes the files and gives the truth by conversation, for the simulated reviewers.

    released: what a release calls a conversation, for gold.jsonl. UsageError where the folder holds those of another
    number: what people were handed of them has no truth here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    conversations, there = made(taxonomy, generated), folder / "conversations.jsonl"
    if there.exists() and (had := there.read_bytes().count(b"\n")) != len(conversations):
        raise UsageError(
            f"{folder.parent} holds a demo of {had:,} conversations, and --generated {generated} makes"
            f" {len(conversations):,}: give --to another folder, or delete this one"
        )
    _lines(there, (c.row for c in conversations))
    _lines(folder / "gold.jsonl", _gold(conversations, taxonomy, released))
    _table(folder / "warnings.csv", flags.left(world.warnings(taxonomy)))
    items = [row for name in ("films", "games") for row in world.read_lines(world.FOLDER / f"{name}.jsonl")]
    columns = ("domain", "title", "year", "plot")
    rows = [{c: row[c] for c in columns} | {"genres": "|".join(row["genres"])} for row in items]
    _table(folder / "items.csv", rows)
    return {name_of(c): c.gold for c in conversations}


def name_of(made: generate.Made) -> str:
    """The id that `mine messages` gives the conversation."""
    return digest("messages", made.row["id"])


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
    with replacing(path) as tmp, open(tmp, "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    with replacing(path) as tmp, open(tmp, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
