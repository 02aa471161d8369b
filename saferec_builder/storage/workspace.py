"""The workspace on disk: parquet shards for bulk tables, a database for what is small and precious."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import config, database, evidence, shards, tables
from saferec_builder.storage.locks import held
from saferec_builder.storage.whole_files import replacing, write_private

__all__ = [
    "Workspace",
    "alone",
    "append",
    "evidenced",
    "keyed",
    "open_workspace",
    "parts",
    "read",
    "replacing",
    "schemas",
    "write_private",
]

SECRET = 32  # bytes


@dataclass(frozen=True)
class Workspace:
    root: Path
    config: config.Config

    @cached_property
    def secret(self) -> bytes:
        """Key of the seekers' pseudonyms: made once, readable by its owner only, never exported."""
        path = self.root / ".secret"
        if not path.exists():
            with alone(self, "secret", wait=True):  # another process may be first: its secret counts
                if not path.exists():
                    write_private(path, os.urandom(SECRET))
        found = path.read_bytes()
        if len(found) < SECRET:  # pseudonyms made with it could be guessed, and would fit no earlier one
            raise StoreError(f"{path}: {len(found)} bytes, wanted {SECRET}: it is damaged: put your copy of it back")
        return found

    @property
    def database(self) -> database.Place:
        return database.Place(self.root, self.config.store.url)

    @property
    def releases(self) -> Path:
        return self.root / "releases"


def open_workspace(folder: Path) -> Workspace:
    return Workspace(folder, config.read(folder))


def read(ws: Workspace, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    return database.read(ws.database, table) if table.place == "db" else shards.read(ws.root, table)


def parts(ws: Workspace, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
    """A bulk table shard by shard, for whoever cannot hold it whole: its key and `columns`, or all of them."""
    return shards.parts(ws.root, table, *columns)


def append(ws: Workspace, table: tables.Table, frame: pl.DataFrame, texts: pl.DataFrame | None = None) -> int:
    """Adds the rows whose key is not there yet, all or none, and says how many that were.

    No row with evidence that is none gets in; who holds the `texts` of these rows (evidence.TEXTS) gives them.
    """
    frame = tables.check(frame, table).unique(list(table.key), keep="first", maintain_order=True)
    if table in (tables.PROPOSALS, tables.REVIEWS):
        evidence.refuse(table.name, frame, evidenced(ws, frame) if texts is None else texts)
    if table.place == "db":
        return database.append(ws.database, table, frame)
    return shards.append(ws.root, table, frame)


def evidenced(ws: Workspace, rows: pl.DataFrame) -> pl.DataFrame:
    """evidence.TEXTS that these rows speak of."""
    said = partial(parts, ws, tables.CONVERSATIONS, "turns")
    return evidence.texts(rows, said, partial(parts, ws, tables.CATALOG_ROWS, "plot"))


def keyed(ws: Workspace, table: tables.Table) -> AbstractContextManager[database.Keyed]:
    """A table of the database held open: thousands of single rows a second, each its own transaction."""
    return database.keyed(ws.database, table)


def schemas(ws: Workspace) -> set[int]:
    """The schema numbers found in the workspace: the database's and those of its shards."""
    found = database.schema(ws.database)
    return shards.schemas(ws.root) | ({found} if found else set())


@contextmanager
def alone(ws: Workspace, what: str, *, wait: bool = False) -> Iterator[None]:
    """One process at a time at `what` (a command) in a workspace: others are told so, or wait for their turn.

    The lock goes with the process, however it ends.
    """
    with held(ws.root / f".{what.replace(' ', '-')}.lock", f"{ws.root}: another `{what}`", wait=wait):
        yield
