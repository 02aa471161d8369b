"""Conversations and proposals as bare ids, for tests of who is assigned what."""

from dataclasses import replace

import polars as pl

from annotation import sampling_design as design
from annotation.routing import Plan, called_for, route
from saferec_builder.storage import tables

NO_DISPUTES = pl.DataFrame(schema={"kind": pl.String, "subject": pl.String, "trait": pl.String})


def conversations(*ids: str) -> pl.DataFrame:
    turns = [{"role": "seeker", "text": "no blood please", "items": []}]
    return tables.CONVERSATIONS.frame({"conversation": c, "digest": f"d-{c}", "turns": turns} for c in ids)


def proposals(*rows: tuple[str, str, str], kind: str = "sensitivity") -> pl.DataFrame:
    span = {"turn": 0, "start": 3, "end": 8, "quote": "blood"}
    claims = [
        {"proposal": f"{row}", "kind": kind, "subject": row[0], "trait": row[1], "verdict": row[2], "spans": [span]}
        for row in rows
    ]
    return tables.PROPOSALS.frame(claims)


SECRET = bytes(32)


def by_draw(subject: str) -> str:
    """The subject's place in the draw of the audits."""
    return tables.keyed_digest(SECRET, "draw", "sensitivity", subject)


def designed(text: pl.DataFrame, props: pl.DataFrame, plan: Plan, had: pl.DataFrame | None = None) -> pl.DataFrame:
    """DESIGN after a push with this plan, where `had` exists already."""
    earlier = tables.DESIGN.empty if had is None else had
    claimed = called_for(props, plan)
    new = design.arrivals(text, earlier, plan, claimed=claimed, sure=set(), secret=SECRET)
    return pl.concat([earlier, new])


def planned(plan: Plan, rows: pl.DataFrame) -> Plan:
    return replace(plan, zone=design.zone(rows), census=design.census(rows))


def send(text: pl.DataFrame, props: pl.DataFrame, had: pl.DataFrame = tables.ASSIGNMENTS.empty, **plan) -> pl.DataFrame:
    full_plan = Plan(**({"reviewers": ("ann", "bo", "di"), "audit": 0.0} | plan))
    full_plan = planned(full_plan, designed(text, props, full_plan))
    return tables.check(route(text, props, had, NO_DISPUTES, full_plan), tables.ASSIGNMENTS)


def given(*ids: str, why: str = "audit", who: str = "ann", role: str = "reviewer", batch: str = "b") -> pl.DataFrame:
    """The assignments of these conversations to one person."""
    return tables.ASSIGNMENTS.frame(("sensitivity", c, who, role, "d", why, batch) for c in ids)


MANY = [f"c{n}" for n in range(300)]


def answer(trait: str, **more) -> dict:
    row = {"kind": "sensitivity", "subject": "c1", "trait": trait, "reviewer": "ann", "role": "reviewer"}
    return row | {"verdict": "absent", "spans": []} | more


PEOPLE = ("ann", "bo", "di")
