"""The ledger of batches in workspace.db, for the proposer `batch`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import polars as pl

from saferec_builder.llm import Reply, Server, batch
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed
from saferec_builder.storage.workspace import Workspace

About = Callable[[list[tuple[str, int]]], None]  # notes whose texts these requests (name, place) are about


async def replies(ws: Workspace, server: Server, about: About, **how: Any) -> AsyncGenerator[tuple[int, Reply]]:
    """llm.batch.replies of this server, with the workspace's ledger of its batches."""
    with workspace.keyed(ws, tables.REQUESTS) as noted:
        ledger = _Ledger(ws, server, about, noted)
        async with aclosing(batch.replies(server, ledger=ledger, poll=ws.config.propose.batch_poll, **how)) as stream:
            async for found in stream:
                yield found


@dataclass(frozen=True)
class _Ledger:
    ws: Workspace
    server: Server
    about: About
    noted: Keyed  # tables.REQUESTS

    def open(self) -> list[batch.Entry]:
        at = pl.col("server").str.strip_chars_end("/") == self.server.base_url.rstrip("/")  # as requests are named
        mine = workspace.read(self.ws, tables.BATCHES).filter(at, model=self.server.model)
        rows = tables.last(mine, "batch").select("batch", "state", "remote", "requests")
        return [batch.Entry(*row) for row in rows.filter(pl.col("state") != "done").iter_rows()]

    def note(self, entry: batch.Entry) -> None:
        row = (entry.batch, self.server.base_url, self.server.model, entry.state, entry.remote, entry.requests)
        workspace.append(self.ws, tables.BATCHES, tables.BATCHES.frame([row]))

    def knows(self, request: str) -> bool:
        return self.noted.get(request) is not None
