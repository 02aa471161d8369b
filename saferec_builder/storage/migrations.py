"""Migrates a workspace of an older schema, step by step, when a newer program opens it.

A new table needs no step: it is created where it is missing. A new column or meaning needs one Step at the end of
STEPS, numbered by the schema that it leads to. The first command that opens a database migrates it, in one transaction
(a killed command leaves the old one), after a copy if a step changes its rows. A shard of a bulk table is migrated each
time it is read. Workspaces of a newer schema than this program's are refused.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import sqlalchemy as sa

from saferec_builder.core.errors import StoreError

FIRST = 1
MARK = "schema_"  # table of the steps that a database has been through; the first schema has no such table
Bulk = Callable[[pl.DataFrame], pl.DataFrame]
Copy = Callable[[int], AbstractContextManager[Path]]  # schema of a database -> path of its copy


@dataclass(frozen=True)
class Step:
    """`database` is called inside the transaction; `bulk`: table -> function that adds the new columns to rows."""

    what: str  # for people, in a few words
    database: Callable[[sa.Connection], None] | None = None
    bulk: Mapping[str, Bulk] = field(default_factory=dict)


_UNKNOWN = pl.lit(None, pl.String)
_REVISION = pl.col("crisis").cast(pl.Int32)  # an old text has at most one row with `crisis` and one without
STEPS: list[Step] = [
    Step(
        "statements on items have the words and the place they rest on",
        bulk={"warnings": lambda warnings: warnings.with_columns(words=_UNKNOWN, place=_UNKNOWN)},
    ),
    Step("marks of conversations are numbered", bulk={"marks": lambda marks: marks.with_columns(revision=_REVISION)}),
]


def newest() -> int:
    """The schema that this program writes."""
    return FIRST + len(STEPS)


def check(where: str, schema: int) -> None:
    """Raises StoreError for a schema that a newer program wrote."""
    if not isinstance(schema, int) or not FIRST <= schema <= newest():
        raise StoreError(
            f"{where}: schema {schema}, this program reads {FIRST} to {newest()}: update it "
            "(pip install --upgrade saferec-builder)"
        )


def bulk(table: str, schema: int) -> list[Bulk]:
    """The functions that migrate rows of a bulk table from this schema to the newest one, in order."""
    return [step.bulk[table] for step in STEPS[schema - FIRST :] if table in step.bulk]


# ---- the database


def names(db: sa.Connection) -> set[str]:
    """The names of the tables of an open database, in a tenth of the time of SQLAlchemy's inspector."""
    if db.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        query = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
    return {str(name) for (name,) in db.exec_driver_sql(query)}


def schema_of(db: sa.Connection) -> int | None:
    """The schema of an open database; None where it has no tables."""
    existing = names(db)
    if MARK in existing:
        return int(db.exec_driver_sql(f"SELECT MAX(number) FROM {MARK}").scalar_one())
    return FIRST if existing else None


def bring_up(db: sa.Connection, copy: Copy) -> None:
    """Migrates the database to the newest schema, once, even if other processes open it at the same time.

    `copy(schema)` gives the path for a copy of a SQLite file; on PostgreSQL each table is copied to NAME_schema_N.
    """
    seen = _checked_schema(db)
    db.rollback()
    if seen == newest() or newest() == FIRST:
        return
    _begin(db)
    schema = _checked_schema(db)  # another process may have been first
    if schema is not None and schema < newest():
        steps = [step.database for step in STEPS[schema - FIRST :] if step.database]
        if steps:
            _save(db, schema, copy)
        for step in steps:
            step(db)
    if schema != newest():
        _stamp(db)
    db.commit()


def _checked_schema(db: sa.Connection) -> int | None:
    schema = schema_of(db)
    if schema is not None:
        check(db.engine.url.set(query={}).render_as_string(hide_password=True), schema)
    return schema


def _begin(db: sa.Connection) -> None:
    """Begins a transaction that excludes other processes; SQLite's driver alone would begin it at the first write."""
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
