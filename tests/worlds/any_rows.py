"""Rows of any table, made from its schema and a number."""

from datetime import UTC, datetime

import polars as pl

from saferec_builder.storage import tables

SAMPLE = {
    pl.String: 'a\u0301 \U0001f469\u200d\U0001f680 "quoted"',  # combining accent, ZWJ sequence, quotes
    pl.Int32: 3,
    pl.Int64: 2**40,
    pl.Float64: 0.25,
    pl.Boolean: True,  # of even numbers
}


def value(kind: pl.DataType, n: int) -> object:
    if isinstance(kind, pl.List):
        return [value(kind.inner, n), value(kind.inner, n + 1)]
    if isinstance(kind, pl.Struct):
        return {f.name: value(f.dtype, n) for f in kind.fields}
    if isinstance(kind, pl.Datetime):
        return datetime(2024, 1, 1, 12, 0, n, 5 * (n % 2), UTC)
    made = SAMPLE[kind.base_type()]
    if isinstance(made, bool):
        return n % 2 == 0
    return f"{made}{n}" if isinstance(made, str) else made + n


def rows(table: tables.Table, *numbers: int) -> pl.DataFrame:
    data = [{c: value(kind, n) for c, kind in table.schema.items()} for n in numbers]
    made = pl.DataFrame(data, schema=table.schema)
    if table in (tables.PROPOSALS, tables.REVIEWS):  # their spans stand in no text: these rows claim nothing
        made = made.with_columns(verdict=pl.lit(None, pl.String))
    return made
