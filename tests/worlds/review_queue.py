"""Sixty real ReDial conversations as a queue: 20 without a proposal, 20 with one, 10 with two, 10 to adjudicate.

What is proposed is invented, since people in ReDial hardly ever name a sensitivity: the first words of a long turn, for
a trait that is not severe. Whoever reads them says yes to every other single proposal and no to the rest; of two, yes
and no.
"""

import itertools
import os
from dataclasses import dataclass
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
Row = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """What is answered to one conversation."""

    kind: str
    verdicts: dict[str, str]  # trait -> present or absent


def fill(ws: store.Workspace) -> dict[str, Said]:
    """Mines them, proposes, and lets ann and bo disagree about the last ten, which are the adjudicator's; what is to be
    answered, by the texts of the turns in a row."""
    path = Path(os.environ.get("SAFEREC_REAL_DATA", "")) / FILE
    if not path.is_file():
        pytest.skip("part not run: ReDial (set SAFEREC_REAL_DATA)")
    some = ws.root / "redial.jsonl"
    with path.open(encoding="utf-8") as lines:
        some.write_text("".join(itertools.islice(lines, sum(COUNTS.values()))), encoding="utf-8")
    sr.mine(ws, "redial", [some])
    review_settings(ws.root, audit=0, held_back=0)
    kinds = [kind for kind, count in COUNTS.items() for _ in range(count)]
    found, claims, reviews = dict[str, Said](), list[Row](), list[Row]()
    texts = store.read(ws, tables.CONVERSATIONS).iter_rows(named=True)
    for n, (kind, row) in enumerate(zip(kinds, texts, strict=True)):
        verdicts = ("absent", "present") if n % 2 and kind != "two" else ("present", "absent")
        asked = TRAITS[: {"none": 0, "two": 2}.get(kind, 1)]
        found["".join(turn["text"] for turn in row["turns"])] = Said(kind, dict(zip(asked, verdicts, strict=False)))
        mine = [_claim(row, trait, span) for trait, span in zip(asked, _spans(row["turns"]), strict=False)]
        claims += mine
        reviews += _dispute(mine[0], ws.taxonomy.digest) if kind == "ruling" else []
    for table, rows in ((tables.PROPOSALS, claims), (tables.REVIEWS, reviews)):
        store.append(ws, table, pl.DataFrame([dict.fromkeys(table.columns) | row for row in rows], schema=table.schema))
    return found


def _spans(turns: list[Row]) -> list[Row]:
    """The first four words of each of the seeker's turns that has them, the last turn first."""
    found = []
    for n, turn in enumerate(turns):
        words = turn["text"].split(" ")[:4]
        if turn["role"] == "seeker" and len(words) == 4 and all(words):
            quote = " ".join(words)
            found.append({"turn": n, "start": 0, "end": len(quote), "quote": quote})
    return found[::-1]


def _claim(row: Row, trait: str, span: Row) -> Row:
    of = {"kind": "sensitivity", "subject": row["conversation"], "digest": row["digest"], "trait": trait}
    made = {"proposal": f"{row['conversation']}-{trait}", "proposer": "rules", "verdict": "present"}
    return of | made | {"form": "explicit", "spans": [span]}


def _dispute(claim: Row, taxonomy: str) -> list[Row]:
    """Ann says what was proposed, bo says no."""
    of = {name: claim[name] for name in ("kind", "subject", "digest", "trait")}
    of |= {"role": "reviewer", "tool": "files", "guideline": "g", "taxonomy": taxonomy, "simulated": False}
    no: Row = {"verdict": "absent", "form": None, "spans": []}
    yes = {name: claim[name] for name in ("verdict", "form", "spans")}
    answers = [("ann", yes), ("bo", no), ("ann", no | {"trait": "*"}), ("bo", no | {"trait": "*"})]
    return [of | {"reviewer": who, "review": f"{claim['subject']}-{n}"} | said for n, (who, said) in enumerate(answers)]
