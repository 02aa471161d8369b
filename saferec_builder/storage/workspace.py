"""Opens, reads and appends to a workspace: parquet shards for bulk tables, a database for small, precious ones."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import polars as pl

from saferec_builder.core import taxonomy
from saferec_builder.core.errors import StoreError, UsageError, is_utf8
from saferec_builder.core.locks import file_lock
from saferec_builder.core.release_files import is_release
from saferec_builder.storage import config, database, evidence_check as evidence, shards, tables
from saferec_builder.storage.whole_files import replacing, write_private

P = ParamSpec("P")
Result = TypeVar("Result")
FORGETTING = ".forget.json"  # exists while a person is being erased

COMPARED = "tables/compared.json"  # exists once `mine` has run; mining/clusters.py writes it

SECRET = 32  # bytes
NO_SECRET = "put your copy of it back (docs/how-to/bad-day.md)"
_KEYED = (tables.FORGOTTEN, tables.DESIGN, tables.KEYED)
DEMO_SECRET = b"everybody and everything invented"[:SECRET]
IN_DEMO = " in a demo, as the key of its pseudonyms is public (`saferec-build init` makes another workspace)"


@dataclass(frozen=True)
class Workspace:
    """A folder with a saferec.toml, whose settings are read once, by `open`; the taxonomy is read at each access."""

    root: Path
    config: config.Config

    @classmethod
    def open(cls, folder: Path | str = ".") -> "Workspace":
        """Opens the workspace in that folder; raises UsageError where there is none, or its saferec.toml or its
        taxonomy is wrong: a command that needs the taxonomy at its end would fail after all its work."""
        ws = cls.unchecked(folder)
        _ = ws.taxonomy
        return ws

    @classmethod
    def unchecked(cls, folder: Path | str) -> "Workspace":
        """Opens the workspace as `open` does, though its taxonomy may be wrong."""
        path = _folder(folder)
        _check_name(path)
        return cls(path, config.read(path))

    @classmethod
    def create(cls, folder: Path | str, *, demo: bool = False) -> "Workspace":
        """Creates the folder with a commented saferec.toml, and opens it; an existing workspace stays as it is."""
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
        """The key of pseudonyms and of random draws: made once, readable by its owner only, never exported.

        Every demo has the same one: its people are invented, and each run gives the figures of the docs. Raises
        StoreError where it is lost and pseudonyms depend on it: with another key, erased people would come back.
        """
        path = self.root / ".secret"
        if not path.exists():
            with alone(self, "secret", wait=True):  # another process may be first: its secret counts
                if not path.exists():
                    if loss := without_secret(self):
                        raise StoreError(f"{path}: {loss}: {NO_SECRET}")
                    write_private(path, DEMO_SECRET if self.config.demo else os.urandom(SECRET))
        if damage := cut_short(path):
            raise StoreError(f"{path}: {damage}: {NO_SECRET}")
        return path.read_bytes()

    def released_id(self, conversation: str, dataset: str | None = None) -> str:
        """The id of a conversation in all releases of a dataset (by default this one); only `secret` leads back."""
        return tables.keyed_digest(self.secret, "released", dataset or self.config.dataset.name, conversation)

    @property
    def database(self) -> database.Place:
        return database.Place(self.root, self.config.store.url)

    @property
    def place(self) -> str:
        """The folder as messages name it: `.`, as most commands get it, would say nothing."""
        return os.path.abspath(self.root)

    @property
    def releases(self) -> Path:
        return self.root / "releases"


def make(folder: Path, *, demo: bool) -> bool:
    """Creates a workspace; returns False where there is one, whose saferec.toml is checked and kept."""
    path = folder / config.FILE
    _check_name(folder)
    if path.exists():
        config.read(folder)
        return False
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: a workspace is a folder")
    home = folder.resolve()
    if around := next((above for above in home.parents if (above / config.FILE).is_file() and not demo), None):
        raise UsageError(
            f"{folder} would lie inside the workspace {around}: make it beside that one"
            f" (`saferec-build init {shlex.quote(str(around.parent / home.name))}`), or go on in {around}"
        )
    if release := next((path for path in (home, *home.parents) if is_release(path)), None):
        raise UsageError(f"{folder} would lie in the release {release}, which never changes: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in home.name)
    with replacing(path) as tmp:
        text = (config.DEMO if demo else config.TEMPLATE).read_text(encoding="utf-8")
        tmp.write_text(text.replace("{name}", name or "my-saferec"), encoding="utf-8")
    return True


def _folder(value: object) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"the folder is {value!r}: expected that of a workspace, as text or a Path")
    return Path(value)


def _check_name(folder: Path) -> None:
    if not is_utf8(str(folder)):
        raise UsageError(f"{folder}: the folder's name is not UTF-8, which no database can open: give it another one")


def read(ws: Workspace, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    return database.read(ws.database, table) if table.place == "db" else shards.read(ws.root, table)


def parts(ws: Workspace, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
    """Yields a bulk table shard by shard, for tables larger than memory: its key and `columns`, or all columns."""
    return shards.parts(ws.root, table, *columns)


def count(ws: Workspace, table: tables.Table) -> int:
    """The number of rows of a table, without holding them in memory."""
    if table.place == "db":
        return database.last_rows(ws.database, table)[table.name][1]
    return sum(part.height for part in parts(ws, table, *table.key))


def state(ws: Workspace, *only: tables.Table) -> dict[str, list[int] | list[str]]:
    """Returns table (of `only`, or all) -> a value that every append and erasure changes; reads no row."""
    selected = only or tables.TABLES.values()
    bulk = {table.name: shards.names(ws.root, table) for table in selected if table.place != "db"}
    return bulk | database.last_rows(ws.database, *(table for table in selected if table.place == "db"))


def append(ws: Workspace, table: tables.Table, frame: pl.DataFrame, texts: pl.DataFrame | None = None) -> int:
    """Adds the rows whose key is new, all or none, and returns how many.

    Raises StoreError where a row has invalid evidence. Callers that have the `texts` (evidence.TEXTS) pass them.
    """
    frame = tables.check(frame, table).unique(list(table.key), keep="first", maintain_order=True)
    if table in (tables.PROPOSALS, tables.REVIEWS):
        evidence.refuse(table.name, frame, evidenced(ws, frame) if texts is None else texts)
    if table.place == "db":
        return database.append(ws.database, table, frame)
    return shards.append(ws.root, table, frame)


def evidenced(ws: Workspace, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns evidence.TEXTS for the evidence of these rows."""
    conversations = partial(parts, ws, tables.CONVERSATIONS, "turns")
    return evidence.texts(rows, conversations, partial(parts, ws, tables.CATALOG_ROWS, "plot"))


def keyed(ws: Workspace, table: tables.Table) -> AbstractContextManager[database.Keyed]:
    """Opens a table of the database for thousands of single rows a second, each in its own transaction."""
    return database.keyed(ws.database, table)


def schemas(ws: Workspace) -> set[int]:
    """The schema numbers found in the workspace: the database's and those of its shards."""
    schema = database.schema(ws.database)
    return shards.schemas(ws.root) | ({schema} if schema else set())


def cut_short(secret: Path) -> str | None:
    """Why this secret is too short for pseudonyms: they could be guessed, and would fit no earlier ones; or None."""
    size = secret.stat().st_size if secret.exists() else SECRET
    return f"{size} bytes, expected {SECRET}: it is damaged" if size < SECRET else None


def without_secret(ws: Workspace) -> str | None:
    """The rows that depend on a missing secret (a copy without dotfiles lacks it), for a message; None: no rows do."""
    if ws.config.demo or (ws.root / ".secret").exists():
        return None
    has_database = ws.config.store.url or (ws.root / "workspace.db").exists()  # to open it would create one
    dependents = [table.name for table in _KEYED if has_database and any(state(ws, table)[table.name])]
    if (ws.root / COMPARED).exists():  # else it is unknown whether `mine` made the pseudonyms
        seekers = (part["seeker"].count() for part in parts(ws, tables.CONVERSATIONS, "seeker"))
        dependents += ["conversations"] if any(seekers) else []
    return f"missing, and rows of {', '.join(dependents)} rest on it" if dependents else None


def alone(ws: Workspace, command: str, *, wait: bool = False) -> AbstractContextManager[None]:
    """Lets one process at a time run this command in a workspace; others get a StoreError, or wait.

    The lock is released when the process ends, however it ends.
    """
    return file_lock(ws.root / f".{command.replace(' ', '-')}.lock", f"{ws.place}: another `{command}`", wait=wait)


def undisturbed(ws: Workspace) -> AbstractContextManager[None]:
    """Excludes all other work on people's data, for an erasure; raises StoreError where there is any."""
    return file_lock(ws.root / ".forget.lock", f"{ws.place}: another command", wait=False)


@contextmanager
def together(ws: Workspace) -> Iterator[None]:
    """Shares work on people's data with other processes; waits for an erasure, raises StoreError if one broke off."""
    with file_lock(ws.root / ".forget.lock", f"{ws.place}: `forget`", wait=True, shared=True):
        if (ws.root / FORGETTING).exists():
            raise StoreError(f"{ws.place}: `saferec-build forget` was broken off: run it again first, it ends that")
        yield


def shared(function: Callable[Concatenate[Workspace, P], Result]) -> Callable[Concatenate[Workspace, P], Result]:
    """Returns the function, called within `together`."""

    @wraps(function)
    def wrapper(ws: Workspace, *args: P.args, **kwargs: P.kwargs) -> Result:
        with together(ws):
            return function(ws, *args, **kwargs)

    return cast(Callable[Concatenate[Workspace, P], Result], wrapper)
