"""Writes docs/data-format.md from tables.py: `python -m tests.data_format`. A test compares the two."""

import polars as pl

from saferec_builder.storage import tables
from tests import ROOT

PAGE = ROOT / "docs" / "data-format.md"
HEAD = """\
# Data format: the tables of a workspace

For anyone who reads a workspace with other programs: every table, its key and its columns. The files of a release are
in [releases](releases.md). `python -m tests.data_format` makes this page of the tables in `saferec_builder/storage/`.

A workspace is a folder with a `saferec.toml`. Bulk tables are parquet shards in `tables/NAME/`; a shard counts once its
manifest, the `.json` of the same name, is beside it. Small, precious tables are in `workspace.db` (SQLite). Rows are
appended, never edited: if a key occurs twice, the last row counts. Offsets are Unicode code points, and
`turn.text[start:end] == quote` holds for every stored span.

A *ref* names an item: `source:id` (`imdb:tt0114709`, `redial:135508`) or `title:Name (Year)`. The catalog resolves refs
to item ids when they are needed, so a better catalog never changes what was mined.
"""


def kind(dtype: pl.DataType | type[pl.DataType]) -> str:
    """A short name of a polars type."""
    if isinstance(dtype, pl.List):
        return f"list of {kind(dtype.inner)}"
    if isinstance(dtype, pl.Struct):
        return "{" + ", ".join(f"{f.name}: {kind(f.dtype)}" for f in dtype.fields) + "}"
    return str(dtype).split("(")[0].lower()


def page() -> str:
    parts = [HEAD]
    for table in tables.TABLES.values():
        place = "parquet" if table.place == "bulk" else "workspace.db"
        parts.append(f"\n## {table.name}\n\n{table.meaning} Stored in {place}; key: {', '.join(table.key)}.\n")
        parts.append("| column | type | meaning |\n|---|---|---|")
        parts += [f"| {name} | {kind(t)} | {m.replace('|', chr(92) + '|')} |" for name, (t, m) in table.columns.items()]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
