"""Conversations that nobody is given: no release holds them, no reviewer and no model reads them."""

import polars as pl

from saferec_builder import mine, release, store, tables
from saferec_builder.store import Workspace


def reasons(ws: Workspace, conversations: pl.DataFrame) -> dict[str, str]:
    """conversation -> `crisis` (the seeker speaks of harming themselves now), or a removal that was asked for.

    `conversations`: at least the newest revision of each, with its source, source_id and seeker.
    """
    newest = tables.last(conversations, "conversation")
    marks = tables.last(store.read(ws, tables.MARKS), "conversation", "digest").filter("crisis")
    crisis = newest.join(marks, on=["conversation", "digest"], how="semi")["conversation"]
    out = dict.fromkeys(crisis, release.CRISIS)
    asked = ws.root / "removals.csv"
    if asked.exists():
        gone = mine.gone(asked, newest, store.read(ws, tables.ORIGINS), ws.secret)
        out |= dict.fromkeys(gone, release.REMOVED)
    return out


def erased(ws: Workspace) -> pl.DataFrame:
    """(conversation, digest) of every revision, also of older ones, that somebody asked to remove."""
    from saferec_builder.cli import spilled

    asked = ws.root / "removals.csv"
    if not asked.exists():
        return pl.DataFrame(schema={"conversation": pl.String, "digest": pl.String})
    return mine.removed(asked, spilled.narrow(ws), store.read(ws, tables.ORIGINS), ws.secret)


def without(rows: pl.DataFrame, withheld: dict[str, str]) -> pl.DataFrame:
    """Rows with kind and subject, but those of these conversations."""
    return rows.filter((pl.col("kind") != "sensitivity") | ~pl.col("subject").is_in(list(withheld)))
