"""The workspace on disk: parquet shards for bulk tables, a database for what is small and precious."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import polars as pl

from saferec_builder.core import taxonomy
from saferec_builder.core.errors import StoreError, UsageError, is_utf8
from saferec_builder.core.locks import held
from saferec_builder.storage import config, database, evidence_check as evidence, shards, tables
from saferec_builder.storage.whole_files import replacing, write_private

P = ParamSpec("P")
Result = TypeVar("Result")
FORGETTING = ".forget.json"  # there while somebody is being erased

COMPARED = "tables/compared.json"  # there once `mine` has run: clusters writes it

SECRET = 32  # bytes
NO_SECRET = "put your copy of it back (docs/how-to/bad-day.md)"
_KEYED = (tables.FORGOTTEN, tables.DESIGN, tables.KEYED)
DEMO_SECRET = b"everybody and everything invented"[:SECRET]


@dataclass(frozen=True)
class Workspace:
    """A folder with a saferec.toml, as `open` found it; what the file says is read once, the taxonomy at each look."""

    root: Path
    config: config.Config

    @classmethod
    def open(cls, folder: Path | str = ".") -> "Workspace":
        """The workspace in that folder; UsageError where there is none, or where its saferec.toml is wrong."""
        path = _folder(folder)
        _check_name(path)
        return cls(path, config.read(path))

    @classmethod
    def create(cls, folder: Path | str, *, demo: bool = False) -> "Workspace":
        """Makes the folder with a commented saferec.toml, and opens it; a workspace that is there stays as it is."""
        make(_folder(folder), demo=demo)
        return cls.open(folder)

    @property
    def taxonomy(self) -> taxonomy.Taxonomy:
        """The embedded taxonomy, or the one that saferec.toml names, as its file is now."""
        path = self.config.taxonomy.path
        return taxonomy.load(self.root / path if path else None)

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a table in the order in which they were appended; docs/data-format.md has the columns."""
        if name not in tables.TABLES:
            raise UsageError(f"no table {name!r}: expected one of {', '.join(tables.TABLES)}")
        return read(self, tables.TABLES[name])

    @cached_property
    def secret(self) -> bytes:
        """Key of the seekers' pseudonyms and of the draw: made once, readable by its owner only, never exported.

        Every demo has the same one: its people are invented, and whoever runs it sees the figures of the docs.
        StoreError where it is gone and people's names rest on it: with another one who was erased would come back.
        """
        path = self.root / ".secret"
        if not path.exists():
            with alone(self, "secret", wait=True):  # another process may be first: its secret counts
                if not path.exists():
                    if lost := without_secret(self):
                        raise StoreError(f"{path}: {lost}: {NO_SECRET}")
                    write_private(path, DEMO_SECRET if self.config.demo else os.urandom(SECRET))
        if short := cut_short(path):
            raise StoreError(f"{path}: {short}: {NO_SECRET}")
        return path.read_bytes()

    @property
    def database(self) -> database.Place:
        return database.Place(self.root, self.config.store.url)

    @property
    def releases(self) -> Path:
        return self.root / "releases"


def make(folder: Path, *, demo: bool) -> bool:
    """Whether a workspace was made: False where there was one, whose saferec.toml is checked and kept."""
    path = folder / config.FILE
    _check_name(folder)
    if path.exists():
        config.read(folder)
        return False
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: a workspace is a folder")
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in folder.resolve().name)
    with replacing(path) as tmp:
        text = (config.DEMO if demo else config.TEMPLATE).read_text(encoding="utf-8")
        tmp.write_text(text.replace("{name}", name or "my-saferec"), encoding="utf-8")
    return True


def _folder(given: object) -> Path:
    if not isinstance(given, str | Path):
        raise UsageError(f"the folder is {given!r}: expected that of a workspace, as text or a Path")
    return Path(given)


def _check_name(folder: Path) -> None:
    if not is_utf8(str(folder)):
        raise UsageError(f"{folder}: the folder's name is not UTF-8, which no database can open: give it another one")


def read(ws: Workspace, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    return database.read(ws.database, table) if table.place == "db" else shards.read(ws.root, table)


def parts(ws: Workspace, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
    """A bulk table shard by shard, for whoever cannot hold it whole: its key and `columns`, or all of them."""
    return shards.parts(ws.root, table, *columns)


def count(ws: Workspace, table: tables.Table) -> int:
    """Rows of a table, without holding them."""
    if table.place == "db":
        return database.count(ws.database, table)
    return sum(part.height for part in parts(ws, table, *table.key))


def state(ws: Workspace, *some: tables.Table) -> dict[str, list[int] | list[str]]:
    """Table (of `some`, or of all) -> what is another after every append and erasure; no row is read."""
    there = some or tables.TABLES.values()
    bulk = {table.name: shards.names(ws.root, table) for table in there if table.place != "db"}
    return bulk | database.last_rows(ws.database, *(table for table in there if table.place == "db"))


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


def rewrite(ws: Workspace, table: tables.Table, change: Callable[[pl.DataFrame], pl.DataFrame]) -> int:
    """Erases rows of a bulk table (shards.rewrite): for whoever asked to be forgotten, and for nothing else."""
    return shards.rewrite(ws.root, table, change)


def evidenced(ws: Workspace, rows: pl.DataFrame) -> pl.DataFrame:
    """evidence.TEXTS that these rows speak of."""
    spoken = partial(parts, ws, tables.CONVERSATIONS, "turns")
    return evidence.texts(rows, spoken, partial(parts, ws, tables.CATALOG_ROWS, "plot"))


def keyed(ws: Workspace, table: tables.Table) -> AbstractContextManager[database.Keyed]:
    """A table of the database held open: thousands of single rows a second, each its own transaction."""
    return database.keyed(ws.database, table)


def schemas(ws: Workspace) -> set[int]:
    """The schema numbers found in the workspace: the database's and those of its shards."""
    found = database.schema(ws.database)
    return shards.schemas(ws.root) | ({found} if found else set())


def cut_short(secret: Path) -> str | None:
    """Why no pseudonym is made with this one: it could be guessed, and would fit no earlier one."""
    there = secret.stat().st_size if secret.exists() else SECRET
    return f"{there} bytes, expected {SECRET}: it is damaged" if there < SECRET else None


def without_secret(ws: Workspace) -> str | None:
    """What rests on a secret that is not there (a copy of the folder without its dotfiles); None: nothing does."""
    if ws.config.demo or (ws.root / ".secret").exists():
        return None
    known = [table.name for table in _KEYED if any(state(ws, table)[table.name])] if _kept(ws) else []
    if (ws.root / COMPARED).exists():  # else nobody knows whether `mine` has made the pseudonyms
        seekers = (part["seeker"].count() for part in parts(ws, tables.CONVERSATIONS, "seeker"))
        known += ["conversations"] if any(seekers) else []
    return f"missing, and rows of {', '.join(known)} rest on it" if known else None


def _kept(ws: Workspace) -> bool:
    """Whether it has a database: to look into one would make it."""
    return bool(ws.config.store.url) or (ws.root / "workspace.db").exists()


@contextmanager
def alone(ws: Workspace, what: str, *, wait: bool = False) -> Iterator[None]:
    """One process at a time at `what` (a command) in a workspace: others are told so, or wait for their turn.

    The lock goes with the process, however it ends.
    """
    with held(ws.root / f".{what.replace(' ', '-')}.lock", f"{ws.root}: another `{what}`", wait=wait):
        yield


@contextmanager
def undisturbed(ws: Workspace) -> Iterator[None]:
    """Nobody else is at work on what people said: for an erasure; StoreError where somebody is."""
    with held(ws.root / ".forget.lock", f"{ws.root}: another command", wait=False):
        yield


@contextmanager
def together(ws: Workspace) -> Iterator[None]:
    """Works on what people said, with whoever does: waits for an erasure, and does not go on with half of one."""
    with held(ws.root / ".forget.lock", f"{ws.root}: `forget`", wait=True, shared=True):
        if (ws.root / FORGETTING).exists():
            raise StoreError(f"{ws.root}: `saferec-build forget` was broken off: run it again first, it ends that")
        yield


def shared(function: Callable[Concatenate[Workspace, P], Result]) -> Callable[Concatenate[Workspace, P], Result]:
    """The function as it is called within `together`."""

    @wraps(function)
    def beside(ws: Workspace, *args: P.args, **kwargs: P.kwargs) -> Result:
        with together(ws):
            return function(ws, *args, **kwargs)

    return cast(Callable[Concatenate[Workspace, P], Result], beside)
