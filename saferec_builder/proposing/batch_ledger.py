"""The ledger of batches in workspace.db, for the proposer `batch`."""

from collections.abc import AsyncGenerator, Callable
from functools import partial

import polars as pl

from saferec_builder.llm import Reply, Server, batch
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace


def replies(ws: Workspace, server: Server) -> Callable[..., AsyncGenerator[tuple[int, Reply]]]:
    """llm.batch.replies of this server, with the workspace's ledger of its batches."""
    poll = ws.config.propose.batch_poll
    return partial(
        batch.replies, server, ledger=partial(_entries, ws, server), note=partial(_note, ws, server), poll=poll
    )


def _entries(ws: Workspace, server: Server) -> list[batch.Entry]:
    at = pl.col("server").str.strip_chars_end("/") == server.base_url.rstrip("/")  # as requests are named
    mine = workspace.read(ws, tables.BATCHES).filter(at, model=server.model)
    rows = tables.last(mine, "batch").select("batch", "state", "remote", "requests")
    return [batch.Entry(*row) for row in rows.iter_rows()]


def _note(ws: Workspace, server: Server, entry: batch.Entry) -> None:
    row = (entry.batch, server.base_url, server.model, entry.state, entry.remote, entry.requests)
    workspace.append(ws, tables.BATCHES, tables.BATCHES.frame([row]))
