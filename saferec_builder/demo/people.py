"""Simulated reviewers: they read whole conversations in the files that `review push` wrote, and fill them in.

They know the generator's truth and err at a stated rate, each on their own, so that disputes and adjudication happen
for real. What they write is marked `simulated` when it is pulled, and such a release is refused by `--hub`.
"""

import csv
import random
from collections.abc import Mapping
from pathlib import Path

from annotation.tools.tasks_and_answers import base_id
from saferec_builder.demo import world
from saferec_builder.storage.whole_files import replacing

MISSED = 0.06  # chance that a reviewer overlooks a sensitivity that is there
SEEN = 0.02  # chance that a reviewer sees one that is not, where it was suggested
ADDED = 0.004  # chance per conversation of adding one that is not there and nobody suggested
RULED_WRONG = 0.01  # chance that the adjudicator rules against the truth

Gold = list[world.Mark]
Row = dict[str, str]


def fill(path: Path, truth: Mapping[str, Gold], *, adjudicator: bool = False) -> int:
    """Answers every row of a pushed file and says how many. `truth` is by task."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    for task, units in tasks.items():
        task = base_id(task)
        rng = random.Random(f"{path.name} {task}")  # each reviewer errs on their own, the same way in every run
        _answer(units, truth[task], rng, adjudicator=adjudicator)
    if rows:
        with replacing(path) as tmp, open(tmp, "w", encoding="utf-8-sig", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
            out.writeheader()
            out.writerows(rows)
    return len(rows)


def _answer(units: list[Row], gold: Gold, rng: random.Random, *, adjudicator: bool) -> None:
    asked = {row["trait"] for row in units}
    for row in units:
        row["seconds"] = str(rng.randint(4, 40))
        mine = [g for g in gold if g["trait"] == row["trait"]]
        if row["trait"] == "*":
            found = [g for g in gold if g["trait"] not in asked and rng.random() >= MISSED]
            found += _invented(row, asked, gold, rng)
            _write(row, " ".join(g["trait"] for g in found) or "none", found)
        elif mine and rng.random() >= (RULED_WRONG if adjudicator else MISSED):
            _write(row, "present", mine)
        elif not mine and row["proposed_quote"] and rng.random() < (RULED_WRONG if adjudicator else SEEN):
            row["verdict"] = "present"  # the suggestion is kept, quote and all
        else:
            row["verdict"] = "absent"


def _write(row: Row, verdict: str, found: Gold) -> None:
    row["verdict"], row["form"] = verdict, found[0]["form"] if found else ""
    row["quote"] = " | ".join(g["quote"] for g in found)
    row["turn"] = " | ".join(str(g["turn"] + 1) for g in found)


def _invented(row: Row, asked: set[str], gold: Gold, rng: random.Random) -> Gold:
    free = [t for t in world.TRAITS if t not in asked | {g["trait"] for g in gold}]
    if not free or rng.random() >= ADDED:
        return []
    # an item's name stands above its plot, which is turn 1
    first = next(line for line in row["text"].split("\n") if line.startswith("1. ")).split(": ", 1)[1]
    return [{"trait": rng.choice(free), "form": "implicit", "turn": 0, "quote": first[:60].rsplit(" ", 1)[0]}]
