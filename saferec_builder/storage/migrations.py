"""Migrates a workspace of an older schema, step by step, when a newer program opens it.

A new table needs no step: it is made where it is missing. A new column, or a new meaning, is one Step at the end of
STEPS; its number is the schema's that it leads to. The database is brought up to date by the first command that opens
it, in one transaction (whoever is killed leaves the old one), after a copy where a step changes its rows; a shard of a
bulk table as it is read. Workspaces of a newer schema than this program's are refused.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import sqlalchemy as sa

from saferec_builder.core.errors import StoreError
from saferec_builder.core.json_value import JsonValue

FIRST = 1
MARK = "schema_"  # the database's table of the steps that it was taken through; one of the first schema has none
Bulk = Callable[[pl.DataFrame], pl.DataFrame]
Copy = Callable[[int], AbstractContextManager[Path]]  # schema -> where the copy of such a database goes


@dataclass(frozen=True)
class Step:
    """`database` gets the connection inside the transaction; `bulk`: table -> its rows with the new columns."""

    what: str  # for people, in a few words
    database: Callable[[sa.Connection], None] | None = None
    bulk: Mapping[str, Bulk] = field(default_factory=dict)


def _unread(warnings: pl.DataFrame) -> pl.DataFrame:
    """Statements of before the columns: nobody knows the words and the place any more."""
    return warnings.with_columns(words=pl.lit(None, pl.String), place=pl.lit(None, pl.String))


def _numbered(marks: pl.DataFrame) -> pl.DataFrame:
    """Of before the column a text had at most one row with `crisis` and one without, in whichever shards."""
    return marks.with_columns(revision=pl.col("crisis").cast(pl.Int32))


STEPS: list[Step] = [
    Step("statements on items have the words and the place they rest on", None, {"warnings": _unread}),
    Step("marks of conversations are numbered", None, {"marks": _numbered}),
]


def newest() -> int:
    """The schema that this program writes."""
    return FIRST + len(STEPS)


def check(where: str, schema: int) -> None:
    """Refuses what a newer program wrote."""
    if not isinstance(schema, int) or not FIRST <= schema <= newest():
        raise StoreError(
            f"{where}: schema {schema}, this program reads {FIRST} to {newest()}: update it "
            "(pip install --upgrade saferec-builder)"
        )


def bulk(table: str, schema: int) -> list[Bulk]:
    """What takes rows of a bulk table from this schema to the newest one, in order."""
    return [step.bulk[table] for step in STEPS[schema - FIRST :] if table in step.bulk]


def add_column(db: sa.Connection, table: str, column: str, kind: str, value: JsonValue) -> None:
    """A column of SQL type `kind` with one value in all rows so far; nothing where the table is not made yet."""
    found = sa.inspect(db)
    if not found.has_table(table) or column in {one["name"] for one in found.get_columns(table)}:
        return
    name = sa.sql.quoted_name(table, quote=True)
    db.execute(sa.text(f'ALTER TABLE "{name}" ADD COLUMN "{column}" {kind}'))
    db.execute(sa.text(f'UPDATE "{name}" SET "{column}" = :value'), {"value": value})


# ---- the database


def names(db: sa.Connection) -> set[str]:
    """The tables of an open database. In one statement of its own: an inspector's takes ten times as long."""
    if db.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        query = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
    return {str(name) for (name,) in db.exec_driver_sql(query)}


def schema_of(db: sa.Connection) -> int | None:
    """The schema of an open database; None of one without tables."""
    found = names(db)
    if MARK in found:
        return int(db.execute(sa.text(f"SELECT MAX(number) FROM {MARK}")).scalar_one())
    return FIRST if found else None


def bring_up(db: sa.Connection, copy: Copy) -> None:
    """Takes the database to the newest schema, once, whoever else opens it at the same time.

    `copy(schema)` gives the place of SQLite's copy as it was; on PostgreSQL each table is copied to NAME_schema_N.
    """
    known = _known(db)
    db.rollback()
    if known == newest() or newest() == FIRST:
        return
    _begin(db)
    found = _known(db)  # another process may have been first
    if found is not None and found < newest():
        steps = [step.database for step in STEPS[found - FIRST :] if step.database]
        if steps:
            _save(db, found, copy)
        for step in steps:
            step(db)
    if found != newest():
        _stamp(db)
    db.commit()


def _known(db: sa.Connection) -> int | None:
    found = schema_of(db)
    if found is not None:
        check(db.engine.url.set(query={}).render_as_string(hide_password=True), found)
    return found


def _begin(db: sa.Connection) -> None:
    """One process at a time; SQLite's driver alone would begin with the first row that is written."""
    if db.dialect.name == "sqlite":
        db.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(MARK))))


def _save(db: sa.Connection, schema: int, copy: Copy) -> None:
    if db.dialect.name == "sqlite":
        with (
            copy(schema) as place,
            closing(sqlite3.connect(db.engine.url.database or "")) as source,
            closing(sqlite3.connect(place)) as target,
        ):
            source.backup(target)
        return
    for name in sa.inspect(db).get_table_names():
        if "_schema_" not in name and name != MARK:
            db.execute(sa.text(f'CREATE TABLE IF NOT EXISTS "{name}_schema_{schema}" AS TABLE "{name}"'))


def _stamp(db: sa.Connection) -> None:
    db.execute(sa.text(f"CREATE TABLE IF NOT EXISTS {MARK} (number BIGINT PRIMARY KEY, what TEXT)"))
    done = {number for (number,) in db.execute(sa.text(f"SELECT number FROM {MARK}"))}
    for number, step in enumerate(STEPS, FIRST + 1):
        if number not in done:
            row = {"number": number, "what": step.what}
            db.execute(sa.text(f"INSERT INTO {MARK} VALUES (:number, :what)"), row)
