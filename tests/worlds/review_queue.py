"""Sixty real ReDial conversations as a queue: 20 without a proposal, 20 with one, 10 with two, 10 to adjudicate.

What is proposed is invented, since people in ReDial hardly ever name a sensitivity: the first words of a long turn, for
a trait that is not severe. A reader says yes to every other single proposal and no to the rest; of two, yes and no.
"""

import itertools
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import saferec_builder as sr
from saferec_builder.storage import tables, workspace as store
from tests.worlds.settings import review_settings

FILE = "redial/raw_subset_valid_data.jsonl"
COUNTS = {"none": 20, "one": 20, "two": 10, "ruling": 10}
TRAITS = ("sad_endings", "horror_scares")
Said = dict[str, tuple[str, dict[str, str]]]  # conversation -> its kind, and trait -> the verdict of whoever reads it


def fill(ws: store.Workspace) -> Said:
    """Mines them, proposes, and lets ann and bo disagree about the last ten: cy is to rule on those."""
    path = Path(os.environ.get("SAFEREC_REAL_DATA", "")) / FILE
    if not path.is_file():
        pytest.skip("part not run: ReDial (set SAFEREC_REAL_DATA)")
    some = ws.root / "redial.jsonl"
    some.write_text("".join(itertools.islice(path.open(encoding="utf-8"), sum(COUNTS.values()))), encoding="utf-8")
    sr.mine(ws, "redial", [some])
    review_settings(ws.root, audit=0, held_back=0)
    sr.mine(ws, "redial", [some])
    review_settings(ws.root, audit=0, held_back=0)
    kinds = [kind for kind, count in COUNTS.items() for _ in range(count)]
    said: Said = {}
    claims, reviews = list[dict[str, Any]](), list[dict[str, Any]]()
    for n, (kind, row) in enumerate(
        zip(kinds, store.read(ws, tables.CONVERSATIONS).iter_rows(named=True), strict=True)
    ):
        of = {"kind": "sensitivity", "subject": row["conversation"], "digest": row["digest"]}
        asked = TRAITS[: {"none": 0, "two": 2}.get(kind, 1)]
        verdicts = [("present", "absent"), ("absent", "present")][n % 2 and kind != "two"]
        said[row["conversation"]] = (kind, dict(zip(asked, verdicts, strict=False)))
        spans = [span for at, turn in enumerate(row["turns"]) if (span := _span(at, turn))]
        made = [
            of | {"trait": trait, "verdict": "present", "form": "explicit", "spans": [spans[-1 - i]]}
            for i, trait in enumerate(asked)
        ]
        claims += [claim | {"proposal": f"{n}-{claim['trait']}", "proposer": "rules"} for claim in made]
        if kind == "ruling":
            blank = {"form": None, "spans": [], "verdict": "absent", "role": "reviewer", "tool": "files"}
            blank |= {"guideline": "g", "taxonomy": ws.taxonomy.digest, "simulated": False}
            for who, first in (("ann", made[0]), ("bo", made[0] | {"verdict": "absent", "form": None, "spans": []})):
                for answer in (first, of | {"trait": "*"}):
                    reviews.append(blank | answer | {"reviewer": who, "review": f"{n}-{who}-{answer['trait']}"})
    for table, rows in ((tables.PROPOSALS, claims), (tables.REVIEWS, reviews)):
        store.append(ws, table, pl.DataFrame([dict.fromkeys(table.columns) | row for row in rows], schema=table.schema))
    return said


def _span(at: int, turn: dict[str, Any]) -> dict[str, Any] | None:
    quote = " ".join(turn["text"].split(" ")[:4])
    if (
        turn["role"] != "seeker"
        or len(turn["text"].split()) < 4
        or turn["text"].split(" ")[:4] != turn["text"].split()[:4]
    ):
        return None
    return {"turn": at, "start": 0, "end": len(quote), "quote": quote}
