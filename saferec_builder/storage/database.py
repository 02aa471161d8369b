"""The database of a workspace: one column per column, lists and structs as JSON text. The only SQL is here and in
migrations.

SQLite in workspace.db beside the tables, or whatever `[store] url` names (PostgreSQL). Every call commits once.
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

Values = tuple[object, ...]  # of a row
# seconds: SQLite itself gives up on a busy file after 5, which a loaded machine needs for a few commits
PATIENCE = 60.0


@dataclass(frozen=True)
class Place:
    """Where it is: the folder of the workspace, and the address that saferec.toml names, if any."""

    root: Path
    url: str | None


@contextmanager
def _connection(place: Place, *, reading: bool = False) -> Iterator[sa.Connection]:
    """A transaction on a connection of its own: no file is held open between two calls.

    `reading`: nothing is written where nothing may be.
    """
    barred = reading and _barred(place)
    engine = _unwritable(place) if barred else _engine(place, Path.cwd())
    try:
        with engine.connect() as db:
            if engine.dialect.name == "sqlite" and not barred:
                _write_ahead(db)
            migrations.bring_up(db, lambda schema: replacing(place.root / f"workspace.db.schema-{schema}.bak"))
            with db.begin():
                yield db
    except sa.exc.DBAPIError as fault:
        shown = engine.url.set(query={}).render_as_string(hide_password=True)  # a query may hold a password too
        raise StoreError(f"{shown}: {fault.orig}{_remedy(str(fault.orig))}") from None


def _barred(place: Place) -> bool:
    """Whether the database is a file in a folder that we may not write to."""
    return place.url is None and not os.access(place.root, os.W_OK)


def _unwritable(place: Place) -> sa.Engine:
    """The file as it lies there: SQLite would write a log beside it. One that needs such a log is refused."""
    file = place.root / "workspace.db"
    if not file.exists():
        return sa.create_engine("sqlite://", poolclass=sa.NullPool)  # nothing is in it, as in a new one
    left = file.with_name(f"{file.name}-wal")
    how = "mode=ro" if left.exists() and left.stat().st_size else "mode=ro&immutable=1"
    address = f"{file.absolute().as_uri()}?{how}"
    return sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True), poolclass=sa.NullPool)


@lru_cache(maxsize=8)  # each keeps the statements that it has made: their making takes longer than most answers
def _engine(place: Place, here: Path) -> sa.Engine:
    """`here`, the folder that one is in, tells apart what a path from there means: an engine keeps to its first one."""
    # not as text: of a folder called `what?` the address would end before the ?, and hold what others have there
    beside = sa.URL.create("sqlite", database=str(place.root / "workspace.db"))
    try:
        url = sa.make_url(place.url or beside)
        patience = {"timeout": PATIENCE} if url.drivername.startswith("sqlite") else {}
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise StoreError(f"store.url names {url.drivername}: expected an address such as {_EXAMPLE}")
        return sa.create_engine(url, connect_args=patience, poolclass=sa.NullPool)
    except ModuleNotFoundError as missing:
        named = sa.make_url(url)
        raise StoreError(
            f"store.url ({named.drivername} on {named.host}): the driver {missing.name} is not installed: "
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
    return next((f": {what}" for words, what in _REMEDIES.items() if words in fault), "")


def _write_ahead(db: sa.Connection) -> None:
    """Puts a SQLite file into WAL mode; who finds another process at that is told `locked` at once, and tries again."""
    for left in reversed(range(200)):
        try:
            db.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except sa.exc.OperationalError as fault:
            if "locked" not in str(fault.orig) or not left:
                raise
        finally:
            db.rollback()
        sleep(0.05)


def _sql_table(table: tables.Table) -> sa.Table:
    return _defined(table.name, tuple(table.schema.items()), table.key)


@lru_cache
def _defined(name: str, columns: tuple[tuple[str, pl.DataType], ...], key: tuple[str, ...]) -> sa.Table:
    kinds = {pl.Int64: sa.BigInteger, pl.Float64: sa.Float, pl.Boolean: sa.Boolean}
    made = [sa.Column("row_", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True)]
    made += [sa.Column(column, kinds.get(kind.base_type(), sa.Text)()) for column, kind in columns]
    return sa.Table(name, sa.MetaData(), *made, sa.UniqueConstraint(*key))


def _make(db: sa.Connection, sql: sa.Table) -> None:
    """The table, unless it is there; the database decides, as two processes may both find it missing."""
    if sql.name in migrations.names(db):
        return
    if db.dialect.name == "postgresql":  # there IF NOT EXISTS alone can fail when two make the table at once
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(sql.name))))
    db.execute(sa.schema.CreateTable(sql, if_not_exists=True))


def read(place: Place, table: tables.Table) -> pl.DataFrame:
    sql = _sql_table(table)
    with _connection(place, reading=True) as db:
        if _barred(place) and sql.name not in migrations.names(db):
            return table.empty
        _make(db, sql)
        wanted = sa.select(*(sql.c[c] for c in table.columns)).order_by(sql.c.row_)
        found = db.execute(wanted.execution_options(yield_per=50_000))  # a million rows as Python objects fill 1.5 GB
        parts = [_typed(part, table) for part in found.partitions()]
        return pl.concat(parts) if parts else table.empty


def last_rows(place: Place, *some: tables.Table) -> dict[str, list[int]]:
    """table -> the number of its newest row and how many rows there are: others after every append.

    Of two who append at once to a server's database the one with the smaller numbers may be the later: the count tells.
    """
    with _connection(place, reading=True) as db:
        there = [table.name for table in some if sa.inspect(db).has_table(table.name)]
        # as text: a statement of SQLAlchemy's own takes longer to be made than to be answered
        newest = {name: db.execute(sa.text(f"SELECT max(row_), count(*) FROM {name}")).one() for name in there}
        return {table.name: [n or 0 for n in newest.get(table.name, (0, 0))] for table in some}


def count(place: Place, table: tables.Table) -> int:
    """How many rows it has; none of them is read."""
    with _connection(place, reading=True) as db:
        if not sa.inspect(db).has_table(table.name):
            return 0
        return int(db.execute(sa.text(f"SELECT count(*) FROM {table.name}")).scalar_one())


def largest(place: Place, table: tables.Table, column: str, **where: str) -> int:
    """The largest number in a column of the rows that have these values; 0 where none is."""
    sql = _sql_table(table)
    with _connection(place, reading=True) as db:
        if not sa.inspect(db).has_table(table.name):
            return 0
        wanted = sa.select(sa.func.max(sql.c[column])).where(*(sql.c[name] == value for name, value in where.items()))
        return int(db.execute(wanted).scalar() or 0)


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
        what = str(fault).splitlines()[0][:200]
        raise StoreError(
            f"table {table.name} of the database holds what was never written there ({what}){_remedy('malformed')}"
        ) from None


def append(place: Place, table: tables.Table, frame: pl.DataFrame) -> int:
    """Adds the rows whose key is not there yet, in one transaction, and says how many that were."""
    sql = _sql_table(table)
    nested, times = _as_text(table)
    rows = [_as_sql(row, nested, times) for row in frame.iter_rows(named=True)]
    with _connection(place) as db:
        _make(db, sql)
        insert = _insert_new(db, sql).execution_options(preserve_rowcount=True)  # ours alone, whoever else appends
        return sum(db.execute(insert, rows[n : n + 5_000]).rowcount for n in range(0, len(rows), 5_000))


def _insert_new(db: sa.Connection, sql: sa.Table) -> sa.Insert:
    """Adds the rows whose key is not there yet."""
    if db.dialect.name == "sqlite":
        return sqlite.insert(sql).on_conflict_do_nothing()
    from sqlalchemy.dialects import postgresql  # not at the start of every command

    return postgresql.insert(sql).on_conflict_do_nothing()


def erase(
    place: Place,
    gone: Iterable[tuple[tables.Table, pl.DataFrame]],
    new: Iterable[tuple[tables.Table, pl.DataFrame]],
    *,
    dry: bool = False,
) -> dict[str, int]:
    """Deletes every row that a row of its frame names by these columns, and adds the new rows, in one transaction.

    Gives the rows per table; with `dry` they are counted, and nothing is changed. `scrub` takes their bytes away.
    """
    counts: dict[str, int] = {}
    with _connection(place) as db:
        if db.dialect.name == "sqlite":
            db.exec_driver_sql("PRAGMA secure_delete=ON")
        for table, named in gone:
            sql = _sql_table(table)
            _make(db, sql)
            for part in named.iter_slices(400):  # of one statement: SQLite takes so many values
                here = sa.tuple_(*(sql.c[c] for c in named.columns)).in_(part.rows())
                if dry:
                    found = db.execute(sa.select(sa.func.count()).select_from(sql).where(here)).scalar_one()
                else:
                    found = db.execute(sa.delete(sql).where(here)).rowcount
                counts[table.name] = counts.get(table.name, 0) + found
        for table, frame in () if dry else new:
            sql, as_text = _sql_table(table), _as_text(table)
            _make(db, sql)
            if frame.height:
                db.execute(_insert_new(db, sql), [_as_sql(row, *as_text) for row in frame.iter_rows(named=True)])
    return counts


def replace(place: Place, rows: Iterable[tuple[tables.Table, pl.DataFrame]]) -> None:
    """Puts whole rows in the places of those with the same key, in one transaction; other rows are nowhere added."""
    with _connection(place) as db:
        for table, frame in rows:
            sql, as_text = _sql_table(table), _as_text(table)
            _make(db, sql)
            change = sa.update(sql).where(*(sql.c[c] == sa.bindparam(f"key_{c}") for c in table.key))
            for row in frame.iter_rows(named=True):
                db.execute(change, _as_sql(row, *as_text) | {f"key_{c}": row[c] for c in table.key})


def orphans(place: Place, table: tables.Table, of: tables.Table, column: str) -> list[str]:
    """What `table` holds in this column, and `of` does not."""
    ours, theirs = _sql_table(table), _sql_table(of)
    with _connection(place) as db:
        _make(db, ours)
        _make(db, theirs)
        known = sa.select(theirs.c[column]).where(theirs.c[column] == ours.c[column]).exists()
        return [str(name) for (name,) in db.execute(sa.select(ours.c[column]).where(~known))]


def scrub(place: Place) -> None:
    """Writes the database anew, so that no byte of a deleted row is left in its file; copies of migrations go.

    StoreError where somebody who reads a SQLite file keeps the bytes there. PostgreSQL keeps them in its log until
    its administrator has it removed.
    """
    with _connection(place) as db:
        engine = db.engine
        db.commit()
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as alone:
            if engine.dialect.name == "sqlite":
                alone.exec_driver_sql("VACUUM")
                busy, *_ = alone.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                if busy:
                    raise StoreError(
                        f"{engine.url.database}: another program has it open, so what was erased is still in the file:"
                        " close that program, then run the command again: it ends what it began"
                    )
                return
            names = sa.inspect(alone).get_table_names()
            for name in names:
                quoted = alone.dialect.identifier_preparer.quote(name)
                copied = name.partition("_schema_")[0] in tables.TABLES and "_schema_" in name
                if copied:
                    alone.exec_driver_sql(f"DROP TABLE {quoted}")
                elif name in tables.TABLES:
                    alone.exec_driver_sql(f"VACUUM FULL {quoted}")


@dataclass
class Keyed:
    """A table of the database, held open for one row at a time."""

    db: sa.Connection
    sql: sa.Table
    nested: dict[str, pl.DataType]
    times: dict[str, pl.DataType]

    def get(self, key: str) -> sa.Row[Values] | None:
        """The row with this value in the table's one key column, or None."""
        return self.db.execute(self._select, {"key": key}).first()

    @cached_property
    def _select(self) -> sa.Select[Values]:
        first = next(c for c in self.sql.constraints if isinstance(c, sa.UniqueConstraint)).columns[0]
        return sa.select(self.sql).where(first == sa.bindparam("key"))

    def add(self, row: Mapping[str, object]) -> None:
        """Adds the row unless its key is there; on disk when this returns, also for whoever is killed then."""
        self.db.execute(self._insert, _as_sql(row, self.nested, self.times))

    @cached_property
    def _insert(self) -> sa.Insert:
        return _insert_new(self.db, self.sql)


@contextmanager
def keyed(place: Place, table: tables.Table) -> Iterator[Keyed]:
    """The table held open: thousands of single rows a second, each its own transaction."""
    with _connection(place) as db:
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


def _as_sql(row: Mapping[str, object], nested: Iterable[str], times: Iterable[str]) -> dict[str, object]:
    found = dict(row)
    for column in nested:
        if found[column] is not None:
            found[column] = json.dumps(found[column], ensure_ascii=False)
    for column in times:
        if isinstance(time := found[column], datetime):
            found[column] = time.isoformat(timespec="microseconds")
    return found


def schema(place: Place) -> int | None:
    """The schema that the database has, brought up to date; None where it holds no table yet."""
    with _connection(place, reading=True) as db:
        return migrations.schema_of(db)
