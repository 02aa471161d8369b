"""The batches of a workspace: a budget reserves the highest cost of those that are open, and none is paid for twice."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from saferec_builder.llm.requests_and_replies import Server
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Entry:
    """A batch in the ledger. state: uploaded (remote is the file), submitted (remote is the batch) or done."""

    batch: str
    state: str
    remote: str
    requests: int
    usd: float  # the most that it can cost
    billed: bool = False

    @property
    def mark(self) -> str:
        """The mark of its batch on the server, while the ledger has only its file."""
        return f"{self.batch}-{self.remote}"


def open_batches(ws: Workspace) -> pl.DataFrame:
    """The last row of tables.BATCHES for each open batch (not fetched), with `usd`, the most that it can cost."""
    open_ = tables.last(workspace.read(ws, tables.BATCHES), "batch").filter(pl.col("state") != "done")
    most = tables.last(workspace.read(ws, tables.RESERVED), "batch").select("batch", "usd")
    return open_.join(most, "batch", "left", maintain_order="left")


def of_server(ws: Workspace, server: Server) -> pl.DataFrame:
    """The open batches of this server and model, which is not asked directly while it has any."""
    is_server = pl.col("server").str.strip_chars_end("/") == server.base_url.rstrip("/")  # as in requests' names
    return open_batches(ws).filter(is_server, model=server.model)


@dataclass(frozen=True)
class Ledger:
    """The batches of one server and model.

    about: notes for erasures, before these requests (name, place of the body) leave, whose texts they are about;
    write: writes what was paid since its last call, for the batch of this mark or, if "", for the run.
    """

    ws: Workspace
    server: Server
    about: Callable[[list[tuple[str, int]]], None]
    write: Callable[[str], None]
    noted: Keyed  # tables.REQUESTS

    def open(self) -> list[Entry]:
        """The batches that are not done, each as it was noted last."""
        usd = pl.col("usd").fill_null(0.0)  # an earlier checkout noted none
        rows = of_server(self.ws, self.server).select("batch", "state", "remote", "requests", usd)
        billed = set(workspace.read(self.ws, tables.SPEND)["run"])
        return [replace(entry, billed=entry.mark in billed) for entry in (Entry(*row) for row in rows.iter_rows())]

    def note(self, entry: Entry) -> None:
        if entry.state == "uploaded":  # reserved first: from here on it may cost this much
            row = (entry.batch, entry.remote, entry.usd)
            workspace.append(self.ws, tables.RESERVED, tables.RESERVED.frame([row]))
        facts = (entry.batch, self.server.base_url, self.server.model, entry.state, entry.remote, entry.requests)
        workspace.append(self.ws, tables.BATCHES, tables.BATCHES.frame([facts]))

    def knows(self, request: str) -> bool:
        """Whether it is still noted whose text a request is about; an erasure removes that note."""
        return self.noted.get(request) is not None
