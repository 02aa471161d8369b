"""Open batches (submitted, not fetched): a budget reserves their highest cost; their model is not asked directly."""

import polars as pl

from saferec_builder.llm import Server
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace


def open_batches(ws: Workspace) -> pl.DataFrame:
    """The last row of tables.BATCHES for each open batch, with `usd`, the most that it can cost (null if an older
    version submitted it)."""
    open_ = tables.last(workspace.read(ws, tables.BATCHES), "batch").filter(pl.col("state") != "done")
    most = tables.last(workspace.read(ws, tables.RESERVED), "batch").select("batch", "usd")
    return open_.join(most, "batch", "left", maintain_order="left")


def of_server(ws: Workspace, server: Server) -> pl.DataFrame:
    """The open batches of this server and model."""
    is_server = pl.col("server").str.strip_chars_end("/") == server.base_url.rstrip("/")  # as in requests' names
    return open_batches(ws).filter(is_server, model=server.model)
