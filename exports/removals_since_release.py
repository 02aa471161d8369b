"""Finds conversations of a frozen release that somebody has asked to remove since."""

from pathlib import Path

import polars as pl

from exports import folder as write, formats as rows, released_ids, required_version_bump as versions
from saferec_builder.core.errors import ReleaseError
from saferec_builder.mining import withheld
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.mining.removals import asked
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace


def still_in(ws: Workspace, home: Path) -> list[str]:
    """Conversations in the release at `home` that removals.csv names as it stands now, or of people who were erased.

    By what was mined, and by the release's own ids and pseudonyms, as its conversations may have gone from the tables.
    Without its key file every revision of a conversation counts as the one that is in the release.
    """
    removals, manifest = asked(ws), write.facts_of(home)
    if not removals:
        return []
    there, key = versions.table((home, manifest), "conversations", _SEEN), released_ids.path_of(home)
    held_back = released_ids.read(key) if key.exists() else pl.DataFrame(schema=released_ids.KEY)
    there = there.join(held_back.select("subject", "source_id", *_KEYED), on="conversation", how="left", suffix="_key")
    there = there.with_columns(pl.coalesce(name, f"{name}_key").alias(name) for name in _KEYED[1:])
    gone = withheld.erased(ws)
    wished = pl.concat([gone, gone.with_columns(_released(ws, manifest["name"], gone["conversation"]))])
    wished = wished.rename({"conversation": "name", "digest": "gone"})
    # by the name in the workspace, too, which the key file has: without `.secret` nobody can make the other one
    each = there.with_columns(name=pl.concat_list("conversation", "subject")).explode("name").join(wished, on="name")
    held = each.filter(pl.col("digest").is_null() | (pl.col("digest") == pl.col("gone")))["conversation"].to_list()
    silent = manifest.get("silent") or ()
    for source in there["source"].unique():
        asked_ids = pl.Series("conversation", [tables.digest(source, n) for n in removals.of(removals.ids, source)])
        ids = [*asked_ids, *_released(ws, manifest["name"], asked_ids)]
        people = [pseudonym(source, who, ws.secret) for who in removals.of(removals.authors, source)]
        people = [rows.pseudonym(manifest["name"], who) for who in (*people, *removals.erased(source))]
        if people and source in silent and not (key.exists() or there.filter(source=source)["seeker"].count()):
            raise ReleaseError(f"{key}: missing, and nobody else can tell who is in it: put your copy of it back")
        named = pl.any_horizontal(pl.col("conversation", "subject").is_in(ids).fill_null(False))
        named |= pl.col("seeker").is_in(people).fill_null(False)
        post = pl.col("source_id").str.strip_chars()  # the only trace of an id that was erased: tables have it no more
        named |= post.is_in(removals.ids_in(source, there["source_id"].str.strip_chars())).fill_null(False)
        held += there.filter((pl.col("source") == source) & named)["conversation"].to_list()
    return sorted(set(held))


_SEEN = ["conversation", "digest", "source", "seeker"]
_KEYED = ["conversation", "digest", "seeker"]


def _released(ws: Workspace, dataset: str, conversations: pl.Series) -> pl.Series:
    """Their ids in a release; one of an older program has those of the workspace."""
    return pl.Series("conversation", [released_ids.released(ws, dataset, c) for c in conversations], dtype=pl.String)
