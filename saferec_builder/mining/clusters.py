"""Compares all requests after each mining, and knows whether that was done: of copies that nobody compared one could
be trained on, and another tested.

reads  conversations, clusters so far
gives  new rows of clusters, and tables/compared.json: the shards of conversations that were compared
"""

import json
from collections.abc import Sequence

import polars as pl

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.mining import near_duplicates
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

_LOCK = "comparison"
NEARLY_ALL = 0.9  # of what is new, from where it is taken for what is there already under another source


def begin(ws: Workspace) -> None:
    """Before conversations are added: a workspace of before this file was compared as it is."""
    with workspace.alone(ws, _LOCK, wait=True):
        if _compared(ws) is None:
            _note(ws, _shards(ws))


def compare(ws: Workspace) -> None:
    """Near-duplicates among all requests, of which only the seeker's words are held; one process at a time."""
    with workspace.alone(ws, _LOCK, wait=True):
        there = _shards(ws)  # first: what comes meanwhile is the next one's
        asked = [near_duplicates.requests(part) for part in workspace.parts(ws, tables.CONVERSATIONS, "turns")]
        if asked:
            current = tables.last(pl.concat(asked), "conversation")
            have = workspace.read(ws, tables.CLUSTERS)
            workspace.append(ws, tables.CLUSTERS, near_duplicates.clusters(current, have))
        _note(ws, there)


def check(ws: Workspace) -> None:
    """StoreError where conversations were added that nobody compared."""
    compared = _compared(ws)
    if compared is not None and not _shards(ws) <= compared:
        raise StoreError(
            f"{ws.root}: `saferec-build mine` is at work, or was broken off before it compared the requests, so copies"
            " of one could stand in two splits: run it again on the same files, then this"
        )


def twice(ws: Workspace, new: Sequence[str]) -> str | None:
    """What to say where nearly all that is new says what a conversation of another source does: one file, read as two.

    By their clusters, for two readers of one file need not give the same items.
    """
    alike = tables.last(workspace.read(ws, tables.CLUSTERS), "conversation").drop_nulls("cluster")
    each = [part.select("conversation", "source") for part in workspace.parts(ws, tables.CONVERSATIONS, "source")]
    if alike.is_empty() or not new:
        return None
    said = pl.concat(each).unique().join(alike, "conversation")
    ours = pl.col("conversation").is_in(pl.Series(new).implode())
    both = said.filter(ours).join(said.filter(~ours), "cluster", suffix="_before")
    both = both.filter(pl.col("source") != pl.col("source_before"))
    if (many := both["conversation"].n_unique()) < NEARLY_ALL * len(new):
        return None
    other = both["source_before"].mode().sort().to_list()[0]
    return (
        f"{many:,} of {len(new):,} new conversations ask what one of {other} does, in nearly the same words: if it is"
        " one file, all counts are doubled: delete tables/conversations, and mine each file again under one source"
    )


def _shards(ws: Workspace) -> set[str]:
    """Of conversations, as they were first written: an erasure leaves less in one, and nothing new."""
    found = workspace.state(ws, tables.CONVERSATIONS)["conversations"]
    return {str(name).split(".")[0] for name in found}


def _compared(ws: Workspace) -> set[str] | None:
    path = ws.root / workspace.COMPARED
    found = whole_object(path.read_bytes()) if path.is_file() else None
    return None if found is None else set(found.get("shards", ()))


def _note(ws: Workspace, shards: set[str]) -> None:
    if shards != _compared(ws):
        (ws.root / workspace.COMPARED).parent.mkdir(exist_ok=True)
        with whole_files.replacing(ws.root / workspace.COMPARED) as tmp:
            tmp.write_text(json.dumps({"shards": sorted(shards)}), encoding="utf-8")
