"""The ledger of batches in workspace.db, for the proposer `batch`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from saferec_builder.llm import Reply, Server, batch
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed
from saferec_builder.storage.workspace import Workspace

About = Callable[[list[tuple[str, int]]], None]  # notes whose texts these requests (name, place) are about
Bill = Callable[
    [str], None
]  # writes what was paid since the last call: as this batch's, or without a name as the run's


async def replies(
    ws: Workspace, server: Server, about: About, bill: Bill, **how: Any
) -> AsyncGenerator[tuple[int, Reply]]:
    """llm.batch.replies of this server, with the workspace's ledger of its batches."""
    with workspace.keyed(ws, tables.REQUESTS) as noted:
        ledger = _Ledger(ws, server, about, bill, noted)
        async with aclosing(batch.replies(server, ledger=ledger, poll=ws.config.propose.batch_poll, **how)) as stream:
            async for found in stream:
                yield found


@dataclass(frozen=True)
class _Ledger:
    ws: Workspace
    server: Server
    about: About
    write: Bill
    noted: Keyed  # tables.REQUESTS

    def open(self) -> list[batch.Entry]:
        at = pl.col("server").str.strip_chars_end("/") == self.server.base_url.rstrip("/")  # as requests are named
        mine = workspace.read(self.ws, tables.BATCHES).filter(at, model=self.server.model)
        rows = tables.last(mine, "batch").select("batch", "state", "remote", "requests")
        made = [batch.Entry(*row) for row in rows.filter(pl.col("state") != "done").iter_rows()]
        billed = set(workspace.read(self.ws, tables.SPEND)["run"])
        return [replace(entry, billed=entry.mark in billed) for entry in made]

    def note(self, entry: batch.Entry) -> None:
        row = (entry.batch, self.server.base_url, self.server.model, entry.state, entry.remote, entry.requests)
        workspace.append(self.ws, tables.BATCHES, tables.BATCHES.frame([row]))

    def knows(self, request: str) -> bool:
        return self.noted.get(request) is not None

    def bill(self, entry: batch.Entry | None = None) -> None:
        self.write(entry.mark if entry else "")
