"""The page's figures on the work of reviewing, on rows that can be counted by eye."""

import polars as pl
import pytest

from annotation import recall_bounds as bounds
from exports.report import workload
from saferec_builder.storage import tables
from saferec_builder.storage.tables import TASK
from tests.worlds.release_world import conversation, label, labels
from tests.worlds.report_world import TAXONOMY, frame, vote

SEVERE = next(t.slug for t in TAXONOMY.traits if t.severe)
A, B, C = (conversation(name, f"I am {name}.") for name in "abc")


def said(row: dict, reviewer: str, seconds: float | None = None, **other: object) -> dict:
    return vote(row, reviewer) | {"seconds": seconds} | other


def standing(*rows: dict) -> pl.DataFrame:
    out = pl.Series("out", [row.pop("out", None) for row in rows], dtype=pl.String)
    return frame(tables.REVIEWS, *rows).with_columns(out)


def given(*pairs: tuple[dict, str]) -> pl.DataFrame:
    rows = [{"kind": "sensitivity", "subject": row["conversation"], "reviewer": reviewer} for row, reviewer in pairs]
    return frame(tables.ASSIGNMENTS, *rows)


def test_a_persons_load_counts_tasks_not_rows() -> None:
    # ann: a (two rows, one severe, 100 s), b (20 s); c is open and partly answered. bo: three tasks that are gone
    rows = standing(
        said(A, "ann", 100.0),
        said(A, "ann", 100.0, trait=SEVERE),
        said(B, "ann", 20.0, trait=SEVERE, verdict="absent"),
        said(C, "ann", 500.0, trait=SEVERE),
        said(A, "bo", out="set aside"),
        said(B, "bo", out=tables.HANDED_BACK, trait="*"),
    )
    tasks = given((A, "ann"), (B, "ann"), (C, "ann"), (A, "bo"), (B, "bo"), (C, "bo")).select(TASK)
    states = pl.Series("state", ["answered", "answered", "open", "gone", "gone", "gone"])
    ann, bo = workload.load(tasks.with_columns(states), rows, TAXONOMY, str.upper)
    assert (ann["name"], ann["given"], ann["answered"], ann["open"], ann["severe"]) == ("ANN", 3, 2, 1, 1)
    assert ann["seconds"] == 60.0 and ann["hours"] == pytest.approx(120 / 3600)  # the median of 100 and 20; their sum
    assert (bo["given"], bo["answered"], bo["open"], bo["seconds"], bo["hours"]) == (3, 0, 0, None, None)


def test_effort_grows_in_the_order_of_the_assignments() -> None:
    """Three of 16 seemed to be found at the end: their answers were refused at first, and came in last once mended."""
    # b first: two sensitivities, then a: none, then c, given to nobody: one; a second review of b adds nothing
    rows = standing(said(C, "bo"), said(A, "ann"), said(B, "ann"), said(B, "bo"))
    sent = given((B, "ann"), (A, "ann"), (B, "bo"), (conversation("d", "unread"), "bo"))
    verdicts = labels(label(B), label(B, trait="needles"), label(C), label(A, verdict="absent"))
    effort = workload.effort(sent, rows, verdicts)
    assert effort == {"read": 3, "found": 3, "points": [(0, 0), (1, 2), (2, 2), (3, 3)]}
    reviews = standing(*(said(conversation(f"c{n}", "x"), "ann") for n in range(1000)))
    points = workload.effort(sent, reviews, verdicts)["points"]
    assert len(points) <= workload.POINTS + 10 and points[-1] == (1000, 0)


def test_what_cannot_be_told_stands_last_and_says_why() -> None:
    # four conversations sent and labelled, three of them with gore; one is unsent and was not audited
    rows = [conversation(name, f"I am {name}.") for name in "abcde"]
    ids = [row["conversation"] for row in rows]
    drawn = [("sensitivity", name, f"{n}", "zone" if n == 4 else "claimed", "b") for n, name in enumerate(ids)]
    design = tables.DESIGN.frame(drawn)
    sent = given(*((row, "ann") for row in rows[:4])).with_columns(role=pl.lit("reviewer"), why=pl.lit("proposed"))
    verdicts = labels(*(label(row) for row in rows[:3]), label(rows[3], verdict="absent"))
    missed = workload.missed(
        bounds.bounds(design, ids, sent, verdicts, tables.GOLD.empty, TAXONOMY.slugs),
        TAXONOMY,
    )
    assert missed["pooled"]["zone"] == 1 and missed["pooled"]["found"] == 3 and missed["pooled"]["audited"] == 0
    assert len(missed["traits"]) == 20 and all(row["share"] is None for row in missed["traits"])
    assert "under 4 positives" in missed["traits"][0]["words"] and missed["traits"][0]["name"] == TAXONOMY["gore"].name
