"""The database of a workspace: one SQL column per column, lists and structs as JSON text. SQL is only here and in
migrations.

It is SQLite in workspace.db, or the PostgreSQL database that `[store] url` names. Every call commits once.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from time import sleep

import polars as pl
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import migrations, tables
from saferec_builder.storage.whole_files import replacing

Values = tuple[object, ...]  # the values of a row
# seconds to wait for a busy file: SQLite's own 5 are too few on a loaded machine
PATIENCE = 60.0
_JSON = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class Place:
    """Where the database is: the folder of the workspace, and the address in saferec.toml, if any."""

    root: Path
    url: str | None


@contextmanager
def _connection(place: Place, *, reading: bool = False) -> Iterator[sa.Connection]:
    """Opens a connection with one transaction: no file stays open between two calls.

    `reading`: in a folder without write permission nothing is written.
    """
    read_only = reading and place.url is None and not os.access(place.root, os.W_OK)
    engine = _read_only_engine(place) if read_only else _engine(place, Path.cwd())
    try:
        with engine.connect() as db:
            if engine.dialect.name == "sqlite" and not read_only:
                _write_ahead(db)
            migrations.bring_up(db, lambda schema: replacing(place.root / f"workspace.db.schema-{schema}.bak"))
            with db.begin():
                yield db
    except sa.exc.DBAPIError as fault:
        address = engine.url.set(query={}).render_as_string(hide_password=True)  # a query may hold a password too
        raise StoreError(f"{address}: {fault.orig}{_remedy(str(fault.orig))}") from None


def _read_only_engine(place: Place) -> sa.Engine:
    """Opens the file without the log that SQLite would write beside it; a file that needs its log is refused."""
    file = place.root / "workspace.db"
    if not file.exists():
        return sa.create_engine("sqlite://", poolclass=sa.NullPool)  # empty, like a new one
    log = file.with_name(f"{file.name}-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{file.absolute().as_uri()}?{mode}"
    return sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True), poolclass=sa.NullPool)


@lru_cache(maxsize=8)  # an engine keeps its compiled statements: compiling takes longer than most answers
def _engine(place: Place, cwd: Path) -> sa.Engine:
    """`cwd` is part of the cache's key: an engine keeps the file that a relative path meant when it was made."""
    # from parts: in a text, the address of a folder called `what?` would end before the ?, and mean another file
    default = sa.URL.create("sqlite", database=str(place.root / "workspace.db"))
    try:
        url = sa.make_url(place.url or default)
        patience = {"timeout": PATIENCE} if url.drivername.startswith("sqlite") else {}
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise StoreError(f"store.url names {url.drivername}: expected an address such as {_EXAMPLE}")
        return sa.create_engine(url, connect_args=patience, poolclass=sa.NullPool)
    except ModuleNotFoundError as missing:
        address = sa.make_url(url)
        raise StoreError(
            f"store.url ({address.drivername} on {address.host}): the driver {missing.name} is not installed: "
            f"pip install '{missing.name}'"
        ) from None
    except sa.exc.ArgumentError:
        raise StoreError(f"store.url is no database address: expected for example {_EXAMPLE}") from None


_EXAMPLE = "postgresql+psycopg://host/name"
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
    return next((f": {remedy}" for words, remedy in _REMEDIES.items() if words in fault), "")


def _write_ahead(db: sa.Connection) -> None:
    """Puts a SQLite file into WAL mode. Retries while another process does so, as SQLite says `locked` at once."""
    for retries in reversed(range(200)):
        try:
            db.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except sa.exc.OperationalError as fault:
            if "locked" not in str(fault.orig) or not retries:
                raise
        finally:
            db.rollback()
        sleep(0.05)


def _sql_table(table: tables.Table) -> sa.Table:
    return _cached_sql_table(table.name, tuple(table.schema.items()), table.key)


@lru_cache
def _cached_sql_table(name: str, columns: tuple[tuple[str, pl.DataType], ...], key: tuple[str, ...]) -> sa.Table:
    kinds = {pl.Int64: sa.BigInteger, pl.Float64: sa.Float, pl.Boolean: sa.Boolean}
    sql_columns = [sa.Column("row_", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True)]
    sql_columns += [sa.Column(column, kinds.get(kind.base_type(), sa.Text)()) for column, kind in columns]
    return sa.Table(name, sa.MetaData(), *sql_columns, sa.UniqueConstraint(*key))


def _create(db: sa.Connection, sql: sa.Table) -> None:
    """Creates the table unless it exists; the database decides that, as two processes may both find it missing."""
    if sql.name in migrations.names(db):
        return
    if db.dialect.name == "postgresql":  # IF NOT EXISTS alone can fail there when two create the table at once
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(sql.name))))
    db.execute(sa.schema.CreateTable(sql, if_not_exists=True))


def read(place: Place, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    sql = _sql_table(table)
    with _connection(place, reading=True) as db:
        if sql.name not in migrations.names(db):
            return table.empty
        query = sa.select(*(sql.c[c] for c in table.columns)).order_by(sql.c.row_)
        result = db.execute(query.execution_options(yield_per=50_000))  # a million rows as Python objects fill 1.5 GB
        parts = [_typed(part, table) for part in result.partitions()]
        return pl.concat(parts) if parts else table.empty


def last_rows(place: Place, *selected: tables.Table) -> dict[str, list[int]]:
    """Returns table -> [number of its newest row, number of rows]; every append changes them.

    Of two concurrent appends to a server, the one with the smaller numbers may come later: only the count shows it.
    """
    with _connection(place, reading=True) as db:
        existing = migrations.names(db).intersection(table.name for table in selected)
        # as text: SQLAlchemy takes longer to build such a statement than the database to answer it
        newest = {name: db.execute(sa.text(f"SELECT max(row_), count(*) FROM {name}")).one() for name in existing}
        return {table.name: [n or 0 for n in newest.get(table.name, (0, 0))] for table in selected}


def largest(place: Place, table: tables.Table, column: str, **where: str) -> int:
    """The largest number of a column in the rows with these values; 0 where there is none."""
    sql = _sql_table(table)
    with _connection(place, reading=True) as db:
        if sql.name not in migrations.names(db):
            return 0
        query = sa.select(sa.func.max(sql.c[column])).where(*(sql.c[name] == value for name, value in where.items()))
        return int(db.execute(query).scalar() or 0)


def _typed(rows: Iterable[sa.Row[Values]], table: tables.Table) -> pl.DataFrame:
    nested, times = _as_text(table)
    stored = {c: pl.String if c in nested or c in times else kind for c, kind in table.schema.items()}
    try:
        frame = pl.DataFrame([tuple(row) for row in rows], schema=stored, orient="row")
        return frame.with_columns(
            *(pl.col(c).str.json_decode(kind) for c, kind in nested.items()),
            *(pl.col(c).str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_zone="UTC") for c in times),
        )
    except (pl.exceptions.PolarsError, TypeError, ValueError) as fault:
        reason = str(fault).splitlines()[0][:200]
        raise StoreError(
            f"table {table.name} of the database holds what was never written there ({reason}){_remedy('malformed')}"
        ) from None


def append(place: Place, table: tables.Table, frame: pl.DataFrame) -> int:
    """Adds the rows whose key is new, in one transaction, and returns how many."""
    with _connection(place) as db:
        return _insert(db, table, frame)


def _insert(db: sa.Connection, table: tables.Table, frame: pl.DataFrame) -> int:
    sql, as_text = _sql_table(table), _as_text(table)
    _create(db, sql)
    rows = [_as_sql(row, *as_text) for row in frame.iter_rows(named=True)]
    insert = _insert_new(db, sql).execution_options(preserve_rowcount=True)  # our rows only, even if others append
    return sum(db.execute(insert, rows[n : n + 5_000]).rowcount for n in range(0, len(rows), 5_000))


def _insert_new(db: sa.Connection, sql: sa.Table) -> sa.Insert:
    """The statement that adds rows whose key is new."""
    if db.dialect.name == "sqlite":
        return sqlite.insert(sql).on_conflict_do_nothing()
    from sqlalchemy.dialects import postgresql  # slow, so not at the start of every command

    return postgresql.insert(sql).on_conflict_do_nothing()


def erase(
    place: Place,
    removed: Iterable[tuple[tables.Table, pl.DataFrame]],
    new: Iterable[tuple[tables.Table, pl.DataFrame]],
    *,
    dry: bool = False,
) -> dict[str, int]:
    """Deletes the rows with the values in the frames of `removed`, and adds those of `new`, in one transaction.

    Returns the deleted rows per table; with `dry` it only counts them. `scrub` removes their bytes from the file.
    """
    counts: dict[str, int] = {}
    with _connection(place) as db:
        if db.dialect.name == "sqlite":
            db.exec_driver_sql("PRAGMA secure_delete=ON")
        for table, keys in removed:
            sql = _sql_table(table)
            _create(db, sql)
            for part in keys.iter_slices(400):  # per statement: SQLite limits the number of values
                condition = sa.tuple_(*(sql.c[c] for c in keys.columns)).in_(part.rows())
                if dry:
                    deleted = db.execute(sa.select(sa.func.count()).select_from(sql).where(condition)).scalar_one()
                else:
                    deleted = db.execute(sa.delete(sql).where(condition)).rowcount
                counts[table.name] = counts.get(table.name, 0) + deleted
        for table, frame in () if dry else new:
            _insert(db, table, frame)
    return counts


def replace(place: Place, rows: Iterable[tuple[tables.Table, pl.DataFrame]]) -> None:
    """Replaces the rows that have the same keys, in one transaction; adds no rows."""
    with _connection(place) as db:
        for table, frame in rows:
            sql, as_text = _sql_table(table), _as_text(table)
            _create(db, sql)
            update = sa.update(sql).where(*(sql.c[c] == sa.bindparam(f"key_{c}") for c in table.key))
            for row in frame.iter_rows(named=True):
                db.execute(update, _as_sql(row, *as_text) | {f"key_{c}": row[c] for c in table.key})


def orphans(place: Place, table: tables.Table, reference: tables.Table, column: str) -> list[str]:
    """The values in this column of `table` that `reference` does not have."""
    sql, other = _sql_table(table), _sql_table(reference)
    with _connection(place) as db:
        _create(db, sql)
        _create(db, other)
        is_present = sa.select(other.c[column]).where(other.c[column] == sql.c[column]).exists()
        return [str(name) for (name,) in db.execute(sa.select(sql.c[column]).where(~is_present))]


def scrub(place: Place) -> None:
    """Rewrites the database, so that no byte of a deleted row is left in its file; drops copied tables in PostgreSQL.

    Raises StoreError where a reader of a SQLite file keeps the bytes there. PostgreSQL keeps them in its log until its
    administrator removes it.
    """
    with _connection(place) as db:
        engine = db.engine
        db.commit()
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("VACUUM")
                busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                if busy:
                    raise StoreError(
                        f"{engine.url.database}: another program has it open, so what was erased is still in the file:"
                        " close that program, then run the command again: it ends what it began"
                    )
                return
            names = sa.inspect(connection).get_table_names()
            for name in names:
                quoted = connection.dialect.identifier_preparer.quote(name)
                is_copy = name.partition("_schema_")[0] in tables.TABLES and "_schema_" in name
                if is_copy:
                    connection.exec_driver_sql(f"DROP TABLE {quoted}")
                elif name in tables.TABLES:
                    connection.exec_driver_sql(f"VACUUM FULL {quoted}")


@dataclass
class Keyed:
    """A table of the database, open for single rows."""

    db: sa.Connection
    sql: sa.Table
    nested: dict[str, pl.DataType]
    times: dict[str, pl.DataType]

    def get(self, key: str) -> sa.Row[Values] | None:
        """The row with this value in the table's one key column, or None."""
        return self.db.execute(self._select, {"key": key}).first()

    @cached_property
    def _select(self) -> sa.Select[Values]:
        key_column = next(c for c in self.sql.constraints if isinstance(c, sa.UniqueConstraint)).columns[0]
        return sa.select(self.sql).where(key_column == sa.bindparam("key"))

    def add(self, row: Mapping[str, object]) -> None:
        """Adds the row unless its key exists; when this returns, it is on disk even if the process is killed."""
        self.db.execute(self._insert, _as_sql(row, self.nested, self.times))

    @cached_property
    def _insert(self) -> sa.Insert:
        return _insert_new(self.db, self.sql)


@contextmanager
def keyed(place: Place, table: tables.Table) -> Iterator[Keyed]:
    """Opens the table for thousands of single rows a second, each in its own transaction."""
    with _connection(place) as db:
        sql = _sql_table(table)
        _create(db, sql)
        engine = db.engine
        db.commit()
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if engine.dialect.name == "sqlite":
                connection.execute(sa.text("PRAGMA synchronous=NORMAL"))  # with WAL it is intact after a kill
            yield Keyed(connection, sql, *_as_text(table))


def _as_text(table: tables.Table) -> tuple[dict[str, pl.DataType], dict[str, pl.DataType]]:
    """The columns that the database stores as text: lists and structs (as JSON), and times (in ISO form)."""
    schema = table.schema
    nested = {c: kind for c, kind in schema.items() if kind.is_nested()}
    return nested, {c: kind for c, kind in schema.items() if isinstance(kind, pl.Datetime)}


def _as_sql(row: Mapping[str, object], nested: Iterable[str], times: Iterable[str]) -> dict[str, object]:
    # PostgreSQL has no text with a zero byte, which somebody's note may hold
    values = {column: v.replace("\0", "\ufffd") if isinstance(v, str) else v for column, v in row.items()}
    for column in nested:
        if values[column] is not None:
            values[column] = _JSON.encode(values[column]) if values[column] else "[]"
    for column in times:
        if isinstance(time := values[column], datetime):
            values[column] = time.isoformat(timespec="microseconds")
    return values


def schema(place: Place) -> int | None:
    """The schema of the database after its migration; None where it has no table yet."""
    with _connection(place, reading=True) as db:
        return migrations.schema_of(db)
