"""Finds conversations of a frozen release that somebody has asked to remove since."""

from pathlib import Path

import polars as pl

from exports import folder as write, formats as rows, required_version_bump as versions
from saferec_builder.mining import withheld
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.mining.removals import read_removals
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace


def still_in(ws: Workspace, home: Path) -> list[str]:
    """Conversations in the release at `home` that removals.csv names as it stands now.

    By what was mined, and by the release's own ids and pseudonyms, as its conversations may have gone from the tables.
    """
    asked = ws.root / "removals.csv"
    if not asked.exists():
        return []
    removals, manifest = read_removals(asked), write.facts_of(home)
    there = versions.table((home, manifest), "conversations", ["conversation", "digest", "source", "seeker"])
    held = there.join(withheld.erased(ws), on=["conversation", "digest"], how="semi")["conversation"].to_list()
    for source in there["source"].unique():
        ids = [tables.digest(source, name) for name in removals.of(removals.ids, source)]
        people = [pseudonym(source, who, ws.secret) for who in removals.of(removals.authors, source)]
        people = [rows.pseudonym(manifest["name"], who) for who in people]
        named = pl.col("conversation").is_in(ids) | pl.col("seeker").is_in(people).fill_null(False)
        held += there.filter((pl.col("source") == source) & named)["conversation"].to_list()
    return sorted(set(held))
