"""Reviews and texts, in one line each."""

import dataclasses

import polars as pl

from annotation.aggregation import adjudicate, votes
from annotation.review_history import standing
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables

ALL = traits.load()
# three traits are enough to count on one hand
THREE = dataclasses.replace(ALL, traits=tuple(t for t in ALL.traits if t.slug in ("gore", "needles", "sad_endings")))
TEXT = ["I faint: blood, ugh", "Try Alien (1979)"]


def span(quote: str, turn: int = 0, turns: list[str] = TEXT) -> dict:
    start = turns[turn].index(quote)
    return {"turn": turn, "start": start, "end": start + len(quote), "quote": quote}


def texts(*revisions: tuple[str, list[str]], kind: str = "sensitivity", subject: str = "c1") -> pl.DataFrame:
    rows = [
        (kind, subject, name, [{"role": "seeker", "text": t, "items": []} for t in turns], n == len(revisions))
        for n, (name, turns) in enumerate(revisions, 1)
    ]
    schema = {"kind": pl.String, "subject": pl.String, "digest": pl.String, "turns": pl.List(tables.TURN)}
    return pl.DataFrame(rows, schema=schema | {"current": pl.Boolean}, orient="row")


def review(reviewer: str, trait: str, verdict: str, **more) -> dict:
    row = dict.fromkeys(tables.REVIEWS.columns) | {"kind": "sensitivity", "subject": "c1", "digest": "d1"}
    row |= {"reviewer": reviewer, "trait": trait, "verdict": verdict, "role": "reviewer", "spans": [], "tool": "files"}
    return row | {"simulated": False, "guideline": "g", "taxonomy": THREE.digest} | more


def reviews(*rows: dict) -> pl.DataFrame:
    rows = tuple(row | {"review": row["review"] or f"r{n}"} for n, row in enumerate(rows))
    return tables.REVIEWS.frame(rows)


def labels(*rows: dict, text: pl.DataFrame | None = None, before: pl.DataFrame | None = None) -> dict[str, dict]:
    """trait -> label"""
    valid, _ = standing(reviews(*rows), texts(("d1", TEXT)) if text is None else text, THREE)
    judged = adjudicate(votes(valid, THREE), tables.LABELS.empty if before is None else before)
    return {row["trait"]: row for row in judged.to_dicts()}


def said(label: dict) -> tuple:
    return label["verdict"], label["method"]
