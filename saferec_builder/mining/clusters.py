"""Finds near-duplicates among all requests after each mining, and records that this was done: without the comparison,
one copy of a request could be trained on and another tested.

reads  conversations, clusters so far
gives  new rows of clusters, and tables/compared.json: the shards of conversations that were compared
"""

import json
from collections.abc import Sequence

import polars as pl

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.mining import near_duplicates
from saferec_builder.storage import shards, tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

_LOCK, _TABLE = "comparison", tables.CONVERSATIONS
NEARLY_ALL = 0.9  # from this share of copies on, new conversations are taken for a file mined as another source


def begin(ws: Workspace) -> None:
    """Call it before conversations are added: where an older workspace has no record, all shards count as compared."""
    with workspace.alone(ws, _LOCK, wait=True):
        if _compared(ws) is None:
            _record(ws, _shards(ws))


def compare(ws: Workspace) -> None:
    """Compares all requests; holds only the seekers' words in memory. One process at a time."""
    with workspace.alone(ws, _LOCK, wait=True):
        names = _shards(ws)  # read first: the next comparison covers what is added meanwhile
        parts = [near_duplicates.requests(part) for part in workspace.parts(ws, tables.CONVERSATIONS, "turns")]
        if parts:
            current = tables.last(pl.concat(parts), "conversation")
            known = workspace.read(ws, tables.CLUSTERS)
            workspace.append(ws, tables.CLUSTERS, near_duplicates.clusters(current, known))
        _record(ws, names)


def erased(ws: Workspace) -> None:
    """Call it after an erasure, which gives new names to the shards that lost rows: they hold nothing to compare."""
    with workspace.alone(ws, _LOCK, wait=True):
        if (compared := _compared(ws)) is not None:
            numbers = {name.split("-")[0] for name in compared}
            shortened = {name.split(".")[0] for name in filter(shards.lost_rows, shards.names(ws.root, _TABLE))}
            renamed = {name for name in shortened if name.split("-")[0] in numbers}
            _record(ws, _shards(ws) & (compared | renamed))


def check(ws: Workspace) -> None:
    """Raises StoreError if conversations were added and not compared."""
    compared = _compared(ws)
    if compared is not None and not _shards(ws) <= compared:
        raise StoreError(
            f"{ws.place}: `saferec-build mine` is at work, or was broken off before it compared the requests, so copies"
            " of one could stand in two splits: run it again on the same files, then this"
        )


def doubled_source_warning(ws: Workspace, new: Sequence[str]) -> str | None:
    """A warning if nearly all new conversations repeat those of another source: one file was mined as two sources.

    It compares clusters, because two readers of one file may give different items.
    """
    clusters = tables.last(workspace.read(ws, tables.CLUSTERS), "conversation").drop_nulls("cluster")
    parts = [part.select("conversation", "source") for part in workspace.parts(ws, tables.CONVERSATIONS, "source")]
    if clusters.is_empty() or not new:
        return None
    sources = pl.concat(parts).unique().join(clusters, "conversation")
    is_new = pl.col("conversation").is_in(pl.Series(new).implode())
    # each source once per cluster: of a frequent request all pairs of its copies would not fit into memory
    before = sources.filter(~is_new).select("cluster", source_before="source").unique()
    pairs = sources.filter(is_new).join(before, "cluster").filter(pl.col("source") != pl.col("source_before"))
    if (copies := pairs["conversation"].n_unique()) < NEARLY_ALL * len(new):
        return None
    other = pairs["source_before"].mode().sort().to_list()[0]
    return (
        f"{copies:,} of {len(new):,} new conversations ask what one of {other} does, in nearly the same words: if it is"
        " one file, all counts are doubled: delete tables/conversations, and mine each file again under one source"
    )


def _shards(ws: Workspace) -> set[str]:
    """Names of the shards of conversations as first written, or as `erased` recorded them."""
    return {name.split(".")[0] for name in shards.names(ws.root, _TABLE)}


def _compared(ws: Workspace) -> set[str] | None:
    path = ws.root / workspace.COMPARED
    record = whole_object(path.read_bytes()) if path.is_file() else None
    return None if record is None else set(record.get("shards", ()))


def _record(ws: Workspace, names: set[str]) -> None:
    if names != _compared(ws):
        (ws.root / workspace.COMPARED).parent.mkdir(exist_ok=True)
        with whole_files.replacing(ws.root / workspace.COMPARED) as tmp:
            tmp.write_text(json.dumps({"shards": sorted(names)}), encoding="utf-8")
