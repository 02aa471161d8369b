"""Finds conversations in a frozen release that somebody has asked to remove since."""

from pathlib import Path

import polars as pl

from exports import folder as write, formats, released_ids, required_version_bump as versions
from saferec_builder.core.errors import ReleaseError
from saferec_builder.mining import withheld
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.mining.removals import erased_in, of_workspace
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace


def still_in(ws: Workspace, folder: Path) -> list[str]:
    """Returns the conversations in this release that removals.csv names now, or whose seekers were erased.

    Compares the mined ids, and the release's own ids and pseudonyms, as its conversations may be deleted from the
    tables. Without its key file every revision of a conversation counts as the released one.
    """
    removals, manifest = of_workspace(ws), write.facts_of(folder)
    if not removals:
        return []
    frame = versions.table((folder, manifest), "conversations", [*_KEYED, "source"])
    key = released_ids.path_of(folder)
    key_rows = released_ids.read(key) if key.exists() else pl.DataFrame(schema=released_ids.KEY)
    frame = frame.join(key_rows.select("subject", "source_id", *_KEYED), on="conversation", how="left", suffix="_key")
    frame = frame.with_columns(pl.coalesce(name, f"{name}_key").alias(name) for name in _KEYED[1:])
    erasures = withheld.erased(ws)
    erased = pl.concat([erasures, erasures.with_columns(_released(ws, manifest["name"], erasures["conversation"]))])
    erased = erased.rename({"conversation": "name", "digest": "gone"})
    # by the workspace's id, too, from the key file: without `.secret` the released id cannot be computed
    both = frame.with_columns(name=pl.concat_list("conversation", "subject")).explode("name").join(erased, on="name")
    hits = both.filter(pl.col("digest").is_null() | (pl.col("digest") == pl.col("gone")))["conversation"].to_list()
    hits += erased_in(ws, removals, frame, manifest["name"])["conversation"].to_list()
    for source in frame["source"].unique():
        removed_ids = pl.Series("conversation", [tables.digest(source, n) for n in removals.of(removals.ids, source)])
        ids = [*removed_ids, *_released(ws, manifest["name"], removed_ids)]
        pseudonyms = [pseudonym(source, person, ws.secret) for person in removals.of(removals.authors, source)]
        pseudonyms = [formats.pseudonym(manifest["name"], person) for person in (*pseudonyms, *removals.erased(source))]
        told = key.exists() or frame.filter(source=source)["seeker"].count()
        if pseudonyms and source in manifest["silent"] and not told:
            raise ReleaseError(f"{key}: missing, and nobody else can tell who is in it: put your copy of it back")
        is_removed = pl.any_horizontal(pl.col("conversation", "subject").is_in(ids).fill_null(False))
        is_removed |= pl.col("seeker").is_in(pseudonyms).fill_null(False)
        post_id = pl.col("source_id").str.strip_chars()  # the only trace of an erased id: the tables no longer have it
        is_removed |= post_id.is_in(removals.ids_in(source, frame["source_id"].str.strip_chars())).fill_null(False)
        hits += frame.filter((pl.col("source") == source) & is_removed)["conversation"].to_list()
    return sorted(set(hits))


_KEYED = ["conversation", "digest", "seeker"]


def _released(ws: Workspace, dataset: str, conversations: pl.Series) -> pl.Series:
    """Returns the released ids of these conversations (a release of an older program has those of the workspace)."""
    return pl.Series("conversation", [ws.released_id(c, dataset) for c in conversations], dtype=pl.String)
