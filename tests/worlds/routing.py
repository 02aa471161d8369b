"""Conversations and proposals as bare ids, for tests of who looks at what."""

from dataclasses import replace

import polars as pl

from annotation import sampling_design as design
from annotation.routing import Plan, called_for, route
from saferec_builder.storage import tables

NO_DISPUTES = pl.DataFrame(schema={"kind": pl.String, "subject": pl.String, "trait": pl.String})


def conversations(*ids: str) -> pl.DataFrame:
    turns = [{"role": "seeker", "text": "no blood please", "items": []}]
    rows = [
        dict.fromkeys(tables.CONVERSATIONS.columns) | {"conversation": c, "digest": f"d-{c}", "turns": turns}
        for c in ids
    ]
    return tables.CONVERSATIONS.frame(rows)


def proposals(*rows: tuple[str, str, str], kind: str = "sensitivity") -> pl.DataFrame:
    span = {"turn": 0, "start": 3, "end": 8, "quote": "blood"}
    made = [
        dict.fromkeys(tables.PROPOSALS.columns)
        | {"proposal": f"{row}", "kind": kind, "subject": row[0], "trait": row[1], "verdict": row[2], "spans": [span]}
        for row in rows
    ]
    return tables.PROPOSALS.frame(made)


SECRET = bytes(32)


def by_draw(subject: str) -> str:
    """The place in the audits' draw."""
    return tables.keyed_digest(SECRET, "draw", "sensitivity", subject)


def designed(text: pl.DataFrame, props: pl.DataFrame, plan: Plan, had: pl.DataFrame | None = None) -> pl.DataFrame:
    """DESIGN as a push with this plan leaves it, where `had` is there already."""
    known = tables.DESIGN.empty if had is None else had
    claimed = called_for(props, plan)
    new = design.arrivals(text, known, plan, claimed=claimed, sure=set(), secret=SECRET)
    return pl.concat([known, new])


def planned(plan: Plan, rows: pl.DataFrame) -> Plan:
    return replace(plan, zone=design.zone(rows), census=design.census(rows))


def send(text: pl.DataFrame, props: pl.DataFrame, had: pl.DataFrame = tables.ASSIGNMENTS.empty, **plan) -> pl.DataFrame:
    said = Plan(**({"reviewers": ("ann", "bo", "di"), "audit": 0.0} | plan))
    said = planned(said, designed(text, props, said))
    return tables.check(route(text, props, had, NO_DISPUTES, said), tables.ASSIGNMENTS)


MANY = [f"c{n}" for n in range(300)]


def answer(trait: str, **more) -> dict:
    row = {
        "kind": "sensitivity",
        "subject": "c1",
        "trait": trait,
        "reviewer": "ann",
        "role": "reviewer",
        "verdict": "absent",
    }
    return row | {"spans": []} | more


PEOPLE = ("ann", "bo", "di")
