"""Defines a table: typed columns with their meaning, a key, and the check that each stored frame must pass."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypedDict

import polars as pl

from saferec_builder.core.errors import StoreError

SPAN = pl.Struct({"turn": pl.Int32, "start": pl.Int32, "end": pl.Int32, "quote": pl.String})
TURN = pl.Struct({"role": pl.String, "text": pl.String, "items": pl.List(pl.String)})


class Span(TypedDict):
    """A SPAN: `quote` in a text, with its turn (from 0), start and end in code points."""

    turn: int
    start: int
    end: int
    quote: str


_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


@dataclass(frozen=True)
class Table:
    """The definition of a table, as tables.toml has it."""

    name: str
    place: Literal["bulk", "db"]  # bulk: parquet shards; db: small, precious, transactional
    key: tuple[str, ...]
    columns: dict[str, tuple[pl.DataType | type[pl.DataType], str]]  # name -> (type, meaning)
    meaning: str

    @cached_property
    def schema(self) -> pl.Schema:
        return pl.Schema({name: kind for name, (kind, _) in self.columns.items()})

    @cached_property
    def empty(self) -> pl.DataFrame:
        return self.frame(())

    def frame(self, rows: Iterable[Any]) -> pl.DataFrame:
        """Rows of this table, from tuples in the order of its columns or from dicts; what a dict lacks is null."""
        return pl.DataFrame(list(rows), schema=self.schema, orient="row")


def check(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Returns the frame with the table's columns in order; raises StoreError that names the first problem."""
    missing = [c for c in table.columns if c not in frame.columns]
    unexpected = [c for c in frame.columns if c not in table.columns]
    if missing or unexpected:
        raise StoreError(f"table {table.name}: columns missing {missing}, not expected {unexpected}")
    frame = frame.select(list(table.columns))
    wrong = [c for c, kind in table.schema.items() if frame.schema[c] != kind]
    if wrong and frame.height:
        raise StoreError(
            f"table {table.name}: column {wrong[0]} is {frame.schema[wrong[0]]}, expected {table.schema[wrong[0]]}"
        )
    frame = frame if not wrong else table.empty
    if frame.select(pl.any_horizontal(pl.col(table.key).is_null().any())).item():
        raise StoreError(f"table {table.name}: a null in its key {table.key}")
    return frame


def last(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The last row per key, in order of appearance: what counts in an append-only table."""
    return frame.unique(list(keys), keep="last", maintain_order=True)


def lists(column: pl.Series) -> list[list[Any]]:
    """The lists of a column as Python lists, empty for null; polars would make a Series of each."""
    ends = column.list.len().fill_null(0).cum_sum().to_list()
    flat = column.explode(empty_as_null=False, keep_nulls=False).to_list()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def frame(rows: list[dict[str, Any]], kinds: Mapping[str, Any]) -> pl.DataFrame:
    """Builds a frame of these column types from rows, through arrow: polars alone takes six times as long for lists."""
    import pyarrow as pa  # slow, so not at the start of every command

    schema = pl.Schema(kinds)
    # arrow would make a null of what no enum holds; the cast refuses it
    enums = [name for name, kind in schema.items() if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Enum)]
    empty = pl.DataFrame(schema={**schema, **dict.fromkeys(enums, pl.List(pl.String))})
    arrow = empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return pl.DataFrame(pa.Table.from_pylist(rows, schema=arrow), schema=empty.schema).cast(schema)


def digest(*parts: Any) -> str:
    """16 hex digits that identify these parts; lists and structs count as their JSON."""
    return hashlib.blake2b(_JSON.encode(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def keyed_digest(secret: bytes, *parts: str) -> str:
    """16 hex digits that identify these parts; nobody without the secret can trace them back."""
    return hashlib.blake2b("\n".join(parts).encode(), key=secret[:64], digest_size=8).hexdigest()
