"""How each model must be asked for its answers: found once a week, and stored in workspace.db."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl

from saferec_builder.llm import Server
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

LASTS = timedelta(days=7)  # then a server that has learnt a stricter way, or was out of order, is asked for it again


def with_known_way(ws: Workspace, server: Server) -> Server:
    """The server with the way of asking that was last found for it, or with the first way."""
    is_server = pl.col("server") == server.base_url.rstrip("/")
    ways = workspace.read(ws, tables.WAYS).filter(is_server, pl.col("time") > datetime.now(UTC) - LASTS)
    rows = ways.filter(model=server.model).select("way", "refuses").rows()
    way, refuses = rows[-1] if rows else (Server.way, [])
    return replace(server, way=way, refuses=tuple(refuses))


def remember_way(ws: Workspace, server: Server) -> None:
    if with_known_way(ws, server) != server:
        row = (server.base_url.rstrip("/"), server.model, datetime.now(UTC), server.way, list(server.refuses))
        workspace.append(ws, tables.WAYS, tables.WAYS.frame([row]))
