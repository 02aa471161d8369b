"""Rows of any table, made from its schema and a number."""

from datetime import UTC, datetime

import polars as pl

from saferec_builder.storage import tables

SAMPLE = {
    pl.String: 'a\u0301 \U0001f469\u200d\U0001f680 "quoted"',  # combining accent, ZWJ sequence, quotes
    pl.Int32: 3,
    pl.Int64: 2**40,
    pl.Float64: 0.25,
    pl.Boolean: True,  # for even numbers
}


def value(kind: pl.DataType, n: int) -> object:
    if isinstance(kind, pl.List):
        return [value(kind.inner, n), value(kind.inner, n + 1)]
    if isinstance(kind, pl.Struct):
        return {f.name: value(f.dtype, n) for f in kind.fields}
    if isinstance(kind, pl.Datetime):
        return datetime(2024, 1, 1, 12, 0, n, 5 * (n % 2), UTC)
    sample = SAMPLE[kind.base_type()]
    if isinstance(sample, bool):
        return n % 2 == 0
    return f"{sample}{n}" if isinstance(sample, str) else sample + n


def rows(table: tables.Table, *numbers: int) -> pl.DataFrame:
    data = [{c: value(kind, n) for c, kind in table.schema.items()} for n in numbers]
    frame = pl.DataFrame(data, schema=table.schema)
    if table in (tables.PROPOSALS, tables.REVIEWS):  # no text has their spans, so these rows make no claim
        frame = frame.with_columns(verdict=pl.lit(None, pl.String))
    return frame
