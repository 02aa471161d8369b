"""What is in a workspace: rows per table, releases, and what models were paid."""

from dataclasses import dataclass

import polars as pl

from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

SUMS = ("requests", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True)
class Status:
    """rows of every table; versions of the releases; spent: (model, requests, tokens_in, tokens_out, usd)."""

    rows: dict[str, int]
    releases: list[str]
    spent: pl.DataFrame


def status(ws: Workspace) -> Status:
    """Counts the workspace's rows without holding a bulk table whole; StoreError where a table is damaged."""
    releases = sorted(manifest.parent.name for manifest in ws.releases.glob("*/manifest.json"))
    bills = workspace.read(ws, tables.SPEND).group_by("model", maintain_order=True).agg(pl.col(c).sum() for c in SUMS)
    return Status({name: _rows(ws, table) for name, table in tables.TABLES.items()}, releases, bills)


def _rows(ws: Workspace, table: tables.Table) -> int:
    if table.place == "db":
        return workspace.read(ws, table).height
    return sum(part.height for part in workspace.parts(ws, table, *table.key))
