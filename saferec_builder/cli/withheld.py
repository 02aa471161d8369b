"""Conversations that nobody is given: no release holds them, no reviewer and no model reads them."""

from pathlib import Path

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


def released(ws: Workspace, home: Path) -> list[str]:
    """Conversations in the release at `home` that removals.csv names as it stands now.

    By what was mined, and by the release's own ids and pseudonyms, as its conversations may have gone from the tables.
    """
    from exports import rows, versions, write

    asked = ws.root / "removals.csv"
    if not asked.exists():
        return []
    removals, manifest = mine.read_removals(asked), write.read_manifest(home).model_dump()
    there = versions.table((home, manifest), "conversations", ["conversation", "digest", "source", "seeker"])
    held = there.join(erased(ws), on=["conversation", "digest"], how="semi")["conversation"].to_list()
    for source in there["source"].unique():
        ids = [tables.digest(source, name) for name in removals.of(removals.ids, source)]
        people = [mine.pseudonym(source, who, ws.secret) for who in removals.of(removals.authors, source)]
        people = [rows.pseudonym(manifest["name"], who) for who in people]
        named = pl.col("conversation").is_in(ids) | pl.col("seeker").is_in(people).fill_null(False)
        held += there.filter((pl.col("source") == source) & named)["conversation"].to_list()
    return sorted(set(held))


def without(rows: pl.DataFrame, withheld: dict[str, str]) -> pl.DataFrame:
    """Rows with kind and subject, but those of these conversations."""
    return rows.filter((pl.col("kind") != "sensitivity") | ~pl.col("subject").is_in(list(withheld)))
