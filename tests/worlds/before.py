"""Workspaces that earlier versions of the program wrote."""

import tarfile
from pathlib import Path

import polars as pl

from saferec_builder.storage import tables, workspace as store
from tests import DATA

HANDED_OUT = DATA / "workspace_handed_out.tar.xz"


def unpacked(packed: Path, folder: Path) -> store.Workspace:
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "ws", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # 3.11.4
    return store.Workspace.open(folder / "ws")


def all_rows(ws: store.Workspace) -> dict[str, pl.DataFrame]:
    return {name: store.read(ws, table) for name, table in tables.TABLES.items()}


def are_as_they_were(ws: store.Workspace, before: dict[str, pl.DataFrame]) -> set[str]:
    """Asserts that no row changed or disappeared; returns the tables that have more rows."""
    current = all_rows(ws)
    assert [name for name, frame in before.items() if not current[name].head(frame.height).equals(frame)] == []
    return {name for name, frame in before.items() if current[name].height > frame.height}
