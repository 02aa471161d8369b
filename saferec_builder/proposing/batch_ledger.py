"""The ledger of batches in workspace.db, used by the proposer `batch` and before its model is asked directly."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from saferec_builder.llm import Server, batch
from saferec_builder.proposing import open_batches
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed
from saferec_builder.storage.workspace import Workspace

About = Callable[[list[tuple[str, int]]], None]  # notes whose texts these requests (name, place) are about
Bill = Callable[[str], None]  # writes what was paid since the last call, for this batch or, if "", for the run


@dataclass(frozen=True)
class BatchLedger:
    """llm.batch.Ledger of one server and model."""

    ws: Workspace
    server: Server
    about: About
    write: Bill
    noted: Keyed  # tables.REQUESTS

    def open(self) -> list[batch.Entry]:
        usd = pl.col("usd").fill_null(0.0)
        rows = open_batches.of_server(self.ws, self.server).select("batch", "state", "remote", "requests", usd)
        entries = [batch.Entry(*row) for row in rows.iter_rows()]
        billed = set(workspace.read(self.ws, tables.SPEND)["run"])
        return [replace(entry, billed=entry.mark in billed) for entry in entries]

    def note(self, entry: batch.Entry) -> None:
        if entry.state == "uploaded":  # reserved first: from here on it may cost this much
            row = (entry.batch, entry.remote, entry.usd)
            workspace.append(self.ws, tables.RESERVED, tables.RESERVED.frame([row]))
        facts = (entry.batch, self.server.base_url, self.server.model, entry.state, entry.remote, entry.requests)
        workspace.append(self.ws, tables.BATCHES, tables.BATCHES.frame([facts]))

    def knows(self, request: str) -> bool:
        return self.noted.get(request) is not None

    def bill(self, entry: batch.Entry | None = None) -> None:
        self.write(entry.mark if entry else "")
