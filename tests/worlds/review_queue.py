"""Sixty real ReDial conversations as a queue: 20 without a proposal, 20 with one, 10 with two, 10 to adjudicate.

The proposals are invented, since people in ReDial hardly ever name a sensitivity: the first words of a long turn, for
a trait that is not severe. Readers accept every other single proposal and reject the rest; of two, they accept the
first and reject the second.
"""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """The answers to one conversation."""

    kind: str
    verdicts: dict[str, str]  # trait -> present or absent


def fill(ws: store.Workspace) -> dict[str, Said]:
    """Mines them, proposes, and lets ann and bo disagree about the last ten, which go to the adjudicator; returns the
    answers to give, by the joined texts of the turns."""
    path = Path(os.environ.get("SAFEREC_REAL_DATA", "")) / FILE
    if not path.is_file():
        pytest.skip("part not run: ReDial (set SAFEREC_REAL_DATA)")
    subset = ws.root / "redial.jsonl"
    with path.open(encoding="utf-8") as lines:
        subset.write_text("".join(itertools.islice(lines, sum(COUNTS.values()))), encoding="utf-8")
    sr.mine(ws, "redial", [subset])
    review_settings(ws.root, audit=0, held_back=0)
    kinds = [kind for kind, count in COUNTS.items() for _ in range(count)]
    expected, claims, reviews = dict[str, Said](), list[Row](), list[Row]()
    texts = store.read(ws, tables.CONVERSATIONS).iter_rows(named=True)
    for n, (kind, row) in enumerate(zip(kinds, texts, strict=True)):
        verdicts = ("absent", "present") if n % 2 and kind != "two" else ("present", "absent")
        slugs = TRAITS[: {"none": 0, "two": 2}.get(kind, 1)]
        expected["".join(turn["text"] for turn in row["turns"])] = Said(kind, dict(zip(slugs, verdicts, strict=False)))
        own_claims = [_claim(row, trait, span) for trait, span in zip(slugs, _spans(row["turns"]), strict=False)]
        claims += own_claims
        reviews += _dispute(own_claims[0], ws.taxonomy.digest) if kind == "ruling" else []
    for table, rows in ((tables.PROPOSALS, claims), (tables.REVIEWS, reviews)):
        store.append(ws, table, table.frame(rows))
    return expected


def _spans(turns: list[Row]) -> list[Row]:
    """The first four words of each of the seeker's turns that has them, the last turn first."""
    spans = []
    for n, turn in enumerate(turns):
        words = turn["text"].split(" ")[:4]
        if turn["role"] == "seeker" and len(words) == 4 and all(words):
            quote = " ".join(words)
            spans.append({"turn": n, "start": 0, "end": len(quote), "quote": quote})
    return spans[::-1]


def _claim(row: Row, trait: str, span: Row) -> Row:
    unit = {"kind": "sensitivity", "subject": row["conversation"], "digest": row["digest"], "trait": trait}
    proposal = {"proposal": f"{row['conversation']}-{trait}", "proposer": "rules", "verdict": "present"}
    return unit | proposal | {"form": "explicit", "spans": [span]}


def _dispute(claim: Row, taxonomy: str) -> list[Row]:
    """Ann accepts the proposal, bo rejects it."""
    unit = {name: claim[name] for name in ("kind", "subject", "digest", "trait")}
    unit |= {"role": "reviewer", "tool": "files", "guideline": "g", "taxonomy": taxonomy, "simulated": False}
    no: Row = {"verdict": "absent", "form": None, "spans": []}
    yes = {name: claim[name] for name in ("verdict", "form", "spans")}
    answers = [("ann", yes), ("bo", no), ("ann", no | {"trait": "*"}), ("bo", no | {"trait": "*"})]
    return [unit | {"reviewer": who, "review": f"{claim['subject']}-{n}"} | row for n, (who, row) in enumerate(answers)]
