"""init and status: a workspace is a folder with a saferec.toml."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.storage import workspace


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make; one that exists is kept.")], as_json: Json = False
) -> None:
    """Make a workspace with a commented saferec.toml."""
    made = workspace.make(folder, demo=False)
    say(Counts("init", int(made), int(not made)), as_json, "workspaces")


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Rows in each table of the workspace, and its releases."""
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    rows = {name: store.read(ws, table).height for name, table in tables.TABLES.items()}
    releases = sorted(p.parent.name for p in ws.releases.glob("*/manifest.json"))
    say(
        Counts("status", skipped=sum(rows.values()), figures={"tables": rows, "releases": releases, **_spent(ws)}),
        as_json,
    )


def _spent(ws: Any) -> dict[str, Any]:
    """What models were paid: requests, tokens and USD per model; nothing where none was asked."""
    import polars as pl

    from saferec_builder.storage import tables, workspace as store

    sums = ("requests", "tokens_in", "tokens_out", "usd")
    bills = store.read(ws, tables.SPEND).group_by("model", maintain_order=True).agg(pl.col(c).sum() for c in sums)
    return {"spent": {row["model"]: {c: row[c] for c in sums} for row in bills.to_dicts()}} if bills.height else {}
