"""The workspace on disk: parquet shards for bulk tables, workspace.db for what is small and precious.

Whoever is killed leaves either the old table or the new one: a shard counts only once its manifest stands beside it,
and the manifest is written last; the database commits once per call. Processes that append at once take turns, so no
row is there twice. What was damaged since it was written is named with the command that brings it back. The only SQL
of the project is here.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from glob import escape
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.storage import config, evidence, tables
from saferec_builder.storage.locks import held
from saferec_builder.storage.tables import digest

SECRET = 32  # bytes
_MINE = "run `saferec-build mine` again on the same files"
_REMADE = {  # table -> what brings back the rows of a shard that is gone
    **dict.fromkeys(("conversations", "origins", "honoured", "marks", "clusters", "stated"), _MINE),
    "catalog_rows": "run `saferec-build catalog add` again on the same files (and `catalog apart` on the same rows)",
    "warnings": "run `saferec-build catalog add` again on the same files, then `saferec-build adjudicate`",
    "proposals": "delete the folder tables/readings too and run `saferec-build propose` again (nothing is paid twice)",
    "readings": "run `saferec-build propose` again (nothing is paid twice)",
    "drops": "run what you ran again: each command names what it leaves out, and nothing rests on these rows",
}


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
    def releases(self) -> Path:
        return self.root / "releases"


def open_workspace(folder: Path) -> Workspace:
    return Workspace(folder, config.read(folder))


def read(ws: Workspace, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    return _read_db(ws, table) if table.place == "db" else pl.concat([table.empty, *parts(ws, table)])


def append(ws: Workspace, table: tables.Table, frame: pl.DataFrame, texts: pl.DataFrame | None = None) -> int:
    """Adds the rows whose key is not there yet, all or none, and says how many that were.

    No row with evidence that is none gets in; who holds the `texts` of these rows (evidence.TEXTS) gives them.
    """
    frame = tables.check(frame, table).unique(list(table.key), keep="first", maintain_order=True)
    if table in (tables.PROPOSALS, tables.REVIEWS):
        evidence.refuse(table.name, frame, evidenced(ws, frame) if texts is None else texts)
    return _append_db(ws, table, frame) if table.place == "db" else _append_bulk(ws, table, frame)


def evidenced(ws: Workspace, rows: pl.DataFrame) -> pl.DataFrame:
    """evidence.TEXTS that these rows speak of."""
    said = partial(parts, ws, tables.CONVERSATIONS, "turns")
    return evidence.texts(rows, said, partial(parts, ws, tables.CATALOG_ROWS, "plot"))


# ---- bulk: tables/NAME/NUMBER-DIGEST.parquet, its .json beside it


def parts(ws: Workspace, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
    """A bulk table shard by shard, for whoever cannot hold it whole: its key and `columns`, or all of them."""
    wanted = {c: kind for c, kind in table.columns.items() if not columns or c in (*table.key, *columns)}
    for manifest in _manifests(ws, table):
        yield _shard(manifest, replace(table, columns=wanted))


def _manifests(ws: Workspace, table: tables.Table) -> list[Path]:
    return sorted((ws.root / "tables" / table.name).glob("[0-9]*-*.json"))


def _shard(manifest: Path, table: tables.Table) -> pl.DataFrame:
    """The shard beside its manifest, byte for byte as it was written, or an error that says what brings it back."""
    again = f"delete {manifest.name} there, then {_REMADE[table.name]}"
    shard = manifest.with_suffix(".parquet")
    facts = whole_object(manifest.read_bytes()) or {}
    if not {"schema", "bytes", "rows"} <= facts.keys():
        raise StoreError(f"{manifest}: not a manifest: {again}")
    schema, size, rows, told = facts["schema"], facts["bytes"], facts["rows"], facts.get("sha256")
    if schema != tables.SCHEMA_VERSION:
        raise StoreError(f"{manifest}: schema {schema}, this program reads {tables.SCHEMA_VERSION}: update it")
    if not shard.exists() or shard.stat().st_size != size:
        raise StoreError(f"{shard}: half written or missing: {again}")
    if told is not None and told != _sha256(shard):  # None: written before manifests had it
        raise StoreError(f"{shard}: not the bytes that were written: {again}")
    try:
        frame = pl.read_parquet(shard, glob=False, columns=list(table.columns))
    except (pl.exceptions.PolarsError, OSError) as fault:
        raise StoreError(f"{shard}: cannot be read ({fault}): {again}") from None
    if frame.height != rows:
        raise StoreError(f"{shard}: {frame.height} rows, its manifest names {rows}: {again}")
    return tables.check(frame, table)


def _sha256(path: Path) -> str:
    facts = path.stat()
    return _summed(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@cache  # a command that reads a table five times sums it up once
def _summed(path: Path, *state: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _append_bulk(ws: Workspace, table: tables.Table, frame: pl.DataFrame) -> int:
    seen = _manifests(ws, table)
    new = _without(frame, table, seen)
    if new.is_empty():
        return 0
    folder = ws.root / "tables" / table.name
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / ".lock", f"{folder}: another command", wait=True):
        new = _without(new, table, [m for m in _manifests(ws, table) if m not in seen])
        if not new.is_empty():
            _write(folder, table, new)
    return new.height


def _without(frame: pl.DataFrame, table: tables.Table, manifests: Sequence[Path]) -> pl.DataFrame:
    """The rows whose key is in none of these shards."""
    key = list(table.key)
    narrow = replace(table, columns={c: table.columns[c] for c in key})
    for manifest in manifests:
        frame = frame.join(_shard(manifest, narrow), key, "anti", nulls_equal=True, maintain_order="left")
    return frame


def _write(folder: Path, table: tables.Table, new: pl.DataFrame) -> None:
    """One more shard, by whose turn it is: what a killed run has left of its own is in nobody's way.

    Rows that come back for a damaged shard, whose manifest was deleted, get its place: the last revision counts.
    """
    name = digest(new.select(table.key).rows())
    number = 1 + max((int(m.name.split("-")[0]) for m in folder.glob("[0-9]*-*.json")), default=-1)
    number = min([number, *(int(p.name.split("-")[0]) for p in folder.glob(f"[0-9]*-{name}.parquet"))])
    for left in (*folder.glob("*.tmp"), *folder.glob(f"{number:06d}-*.parquet")):
        left.unlink()
    shard = folder / f"{number:06d}-{name}.parquet"
    with replacing(shard) as tmp:
        new.rechunk().write_parquet(tmp, compression="zstd")
    facts = {"rows": new.height, "bytes": shard.stat().st_size, "schema": tables.SCHEMA_VERSION}
    with replacing(shard.with_suffix(".json")) as tmp:
        tmp.write_text(json.dumps(facts | {"sha256": _sha256(shard)}))


@contextmanager
def alone(ws: Workspace, what: str, *, wait: bool = False) -> Iterator[None]:
    """One process at a time at `what` (a command) in a workspace: others are told so, or wait for their turn.

    The lock goes with the process, however it ends.
    """
    with held(ws.root / f".{what.replace(' ', '-')}.lock", f"{ws.root}: another `{what}`", wait=wait):
        yield


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` at the end, on disk; nothing is left where the body fails.

    What a killed run has left goes with the next one: nobody holds its lock any more.
    """
    others = f"{path}: another command"
    for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        with suppress(StoreError, OSError), held(left, others, wait=False):
            left.unlink()
    tmp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with held(tmp, others, wait=True):
        try:
            yield tmp
            with open(tmp, "rb") as file:
                os.fsync(file.fileno())
            os.replace(tmp, path)
        finally:
            tmp.unlink(missing_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Written so that nobody but its owner could ever read it."""
    with replacing(path) as tmp:
        tmp.unlink()  # it was anybody's to open
        with open(os.open(tmp, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)


# ---- workspace.db: one column per column, lists and structs as JSON text


@contextmanager
def _connection(ws: Workspace) -> Iterator[Any]:
    import sqlalchemy as sa

    # not as text: of a folder called `what?` the address would end before the ?, and hold what others have there
    beside = sa.URL.create("sqlite", database=str(ws.root / "workspace.db"))
    try:
        url = sa.make_url(ws.config.store.url or beside)
        # SQLite gives up on a busy file after 5 seconds, which a loaded machine needs for a few commits
        engine = sa.create_engine(url, connect_args={"timeout": 60} if url.drivername.startswith("sqlite") else {})
    except ModuleNotFoundError as missing:
        place = sa.make_url(url)
        raise StoreError(
            f"store.url ({place.drivername} on {place.host}): the driver {missing.name} is not installed: "
            f"pip install '{missing.name}'"
        ) from None
    except sa.exc.ArgumentError:
        raise StoreError(
            "store.url is no database address: wanted for example postgresql+psycopg://host/name"
        ) from None
    try:
        if engine.dialect.name == "sqlite":
            _write_ahead(engine)
        with engine.begin() as db:
            yield db
    except sa.exc.DBAPIError as fault:
        shown = engine.url.set(query={}).render_as_string(hide_password=True)  # a query may hold a password too
        raise StoreError(f"{shown}: {fault.orig}{_remedy(str(fault.orig))}") from None
    finally:
        engine.dispose()


_REMEDIES = {  # words of SQLite's or the server's -> what to do
    "disk is full": "make room and run the command again: what it had not saved yet, it does then",
    "disk I/O": "the disk is full, or it fails: make room and run the command again, or copy the workspace elsewhere",
    "readonly": "let yourself write to the workspace, or copy it to where you may",
    "unable to open": "let yourself write to the workspace, or copy it to where you may",
    "is locked": "another command is writing: run this one again when it has ended",
    "malformed": "put your copy of workspace.db back (docs/how-to/bad-day.md)",
    "not a database": "put your copy of workspace.db back (docs/how-to/bad-day.md)",
    "connection": "is the server up, and is [store] url in saferec.toml its address?",
}


def _remedy(fault: str) -> str:
    return next((f": {what}" for words, what in _REMEDIES.items() if words in fault), "")


def _write_ahead(engine: Any) -> None:
    """Puts a SQLite file into WAL mode; who finds another process at that is told `locked` at once, and tries again."""
    import sqlalchemy as sa

    for left in reversed(range(200)):
        try:
            with engine.connect() as db:
                db.execute(sa.text("PRAGMA journal_mode=WAL"))
            return
        except sa.exc.OperationalError as fault:
            if "locked" not in str(fault.orig) or not left:
                raise
        time.sleep(0.05)


def _sql_table(table: tables.Table) -> Any:
    import sqlalchemy as sa

    kinds = {pl.Int64: sa.BigInteger, pl.Float64: sa.Float, pl.Boolean: sa.Boolean}
    columns = [sa.Column("row_", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True)]
    columns += [sa.Column(name, kinds.get(kind.base_type(), sa.Text)()) for name, kind in table.schema.items()]
    return sa.Table(table.name, sa.MetaData(), *columns, sa.UniqueConstraint(*table.key))


def _make(db: Any, sql: Any) -> None:
    """The table, unless it is there; the database decides, as two processes may both find it missing."""
    import sqlalchemy as sa

    if db.dialect.name == "postgresql":  # there IF NOT EXISTS alone can fail when two make the table at once
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(sql.name))))
    db.execute(sa.schema.CreateTable(sql, if_not_exists=True))


def _read_db(ws: Workspace, table: tables.Table) -> pl.DataFrame:
    import sqlalchemy as sa

    sql = _sql_table(table)
    with _connection(ws) as db:
        _make(db, sql)
        wanted = sa.select(*(sql.c[c] for c in table.columns)).order_by(sql.c.row_)
        found = db.execute(wanted.execution_options(yield_per=50_000))  # a million rows as Python objects fill 1.5 GB
        return pl.concat([table.empty, *(_typed(part, table) for part in found.partitions())])


def _typed(rows: Sequence[Any], table: tables.Table) -> pl.DataFrame:
    nested, times = _as_text(table)
    stored = {c: pl.String if c in nested or c in times else kind for c, kind in table.schema.items()}
    try:
        frame = pl.DataFrame([tuple(row) for row in rows], schema=stored, orient="row")
        return frame.with_columns(
            *(pl.col(c).str.json_decode(kind) for c, kind in nested.items()),
            *(pl.col(c).str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_zone="UTC") for c in times),
        )
    except (pl.exceptions.PolarsError, TypeError, ValueError) as fault:
        what = str(fault).splitlines()[0][:200]
        raise StoreError(
            f"table {table.name} of the database holds what was never written there ({what}){_remedy('malformed')}"
        ) from None


def _append_db(ws: Workspace, table: tables.Table, frame: pl.DataFrame) -> int:
    from sqlalchemy.dialects import postgresql, sqlite

    sql = _sql_table(table)
    nested, times = _as_text(table)
    rows = [_as_sql(row, nested, times) for row in frame.iter_rows(named=True)]
    with _connection(ws) as db:
        _make(db, sql)
        insert = (sqlite if db.dialect.name == "sqlite" else postgresql).insert(sql).on_conflict_do_nothing()
        insert = insert.execution_options(preserve_rowcount=True)  # ours alone, whoever else appends meanwhile
        return sum(db.execute(insert, rows[n : n + 5_000]).rowcount for n in range(0, len(rows), 5_000))


@dataclass
class Keyed:
    """A table of the database, held open for one row at a time."""

    db: Any
    sql: Any
    nested: dict[str, pl.DataType]
    times: dict[str, pl.DataType]

    def get(self, key: str) -> Any:
        """The row with this value in the table's one key column, or None."""
        return self.db.execute(self._select, {"key": key}).first()

    @cached_property
    def _select(self) -> Any:
        import sqlalchemy as sa

        first = next(c for c in self.sql.constraints if isinstance(c, sa.UniqueConstraint)).columns[0]
        return sa.select(self.sql).where(first == sa.bindparam("key"))

    def add(self, row: dict[str, Any]) -> None:
        """Adds the row unless its key is there; on disk when this returns, also for whoever is killed then."""
        self.db.execute(self._insert, _as_sql(row, self.nested, self.times))

    @cached_property
    def _insert(self) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite

        dialect = sqlite if self.db.dialect.name == "sqlite" else postgresql
        return dialect.insert(self.sql).on_conflict_do_nothing()


@contextmanager
def keyed(ws: Workspace, table: tables.Table) -> Iterator[Keyed]:
    """The table held open: thousands of single rows a second, each its own transaction."""
    import sqlalchemy as sa

    with _connection(ws) as db:
        sql = _sql_table(table)
        _make(db, sql)
        engine = db.engine
        db.commit()
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as single:
            if engine.dialect.name == "sqlite":
                single.execute(sa.text("PRAGMA synchronous=NORMAL"))  # with WAL: whole after a kill of the process
            yield Keyed(single, sql, *_as_text(table))


def _as_text(table: tables.Table) -> tuple[dict[str, pl.DataType], dict[str, pl.DataType]]:
    """The columns that the database holds as text: lists and structs as JSON, times in ISO form."""
    schema = table.schema
    nested = {c: kind for c, kind in schema.items() if kind.is_nested()}
    return nested, {c: kind for c, kind in schema.items() if isinstance(kind, pl.Datetime)}


def _as_sql(row: dict[str, Any], nested: Iterable[str], times: Iterable[str]) -> dict[str, Any]:
    for column in nested:
        if row[column] is not None:
            row[column] = json.dumps(row[column], ensure_ascii=False)
    for column in times:
        if row[column] is not None:
            row[column] = row[column].isoformat(timespec="microseconds")
    return row
