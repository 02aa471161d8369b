"""Batches that were submitted and not fetched: a budget counts the most that they can cost, and while one is out its
model is not asked directly.
"""

import polars as pl

from saferec_builder.llm import Server
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace


def waiting(ws: Workspace) -> pl.DataFrame:
    """The last row of tables.BATCHES of each that is not done, with `usd`, the most that it can cost (null where an
    older program has submitted it)."""
    open_ = tables.last(workspace.read(ws, tables.BATCHES), "batch").filter(pl.col("state") != "done")
    most = tables.last(workspace.read(ws, tables.RESERVED), "batch").select("batch", "usd")
    return open_.join(most, "batch", "left", maintain_order="left")


def of(ws: Workspace, server: Server) -> pl.DataFrame:
    """Those of this server and model."""
    at = pl.col("server").str.strip_chars_end("/") == server.base_url.rstrip("/")  # as requests are named
    return waiting(ws).filter(at, model=server.model)
