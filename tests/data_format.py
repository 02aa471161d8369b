"""Writes docs/data-format.md and docs/release-format.md: `python -m tests.data_format`. A test compares them."""

import polars as pl
import pyarrow as pa

from exports import columns, formats
from saferec_builder.storage import tables
from tests import ROOT

PAGE = ROOT / "docs" / "data-format.md"
RELEASE_PAGE = ROOT / "docs" / "release-format.md"
HEAD = """\
# Data format: the tables of a workspace

For anyone who reads a workspace with other programs: every table, its key and its columns. Those of a release have
[a page of their own](release-format.md). `python -m tests.data_format` makes this page of the tables in
`saferec_builder/storage/`.

A workspace is a folder with a `saferec.toml`. Bulk tables are parquet shards in `tables/NAME/`; a shard counts once its
manifest, the `.json` of the same name, is beside it. Small, precious tables are in `workspace.db` (SQLite). Rows are
appended, never edited: a row whose key is there already is not added. Of several rows about one thing, such as the
revisions of a conversation or a person's reviews of a unit, the last counts. Offsets are Unicode code points, and
`turn.text[start:end] == quote` holds for every stored span.

A *ref* names an item: `source:id` (`imdb:tt0114709`, `redial:135508`) or `title:Name (Year)`. The catalog resolves refs
to item ids when they are needed, so a better catalog never changes what was mined.
"""


RELEASE_HEAD = """\
# Release format: the columns of a dataset

For anyone who reads a release: every config, its splits and its columns, as `datasets.load_dataset(DIR, CONFIG)` gives
them. [Releases](releases.md) describes the other files, and how a release is made. `croissant.json` holds the same
words for machines. `python -m tests.data_format` makes this page from `exports/columns.toml`.

Ids of conversations are keyed: without the owner's key nobody can compute them. Ids of items are those of the config
`items`. A sensitivity is a trait of `traits.toml`. If a source's licence keeps its text out of a release, the text
stays with its source.
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
        parts += [
            f"| {name} | `{kind(t)}` | {m.replace('|', chr(92) + '|')} |" for name, (t, m) in table.columns.items()
        ]
    return "\n".join(parts) + "\n"


def release_page() -> str:
    parts = [RELEASE_HEAD]
    for config, schema in formats.schemas({"gore": "SafeRec's key"}).items():
        parts.append(f"\n## {config}\n\nSplits: {', '.join(formats.CONFIGS[config])}.\n")
        parts.append("| column | type | meaning |\n|---|---|---|")
        for column in schema:
            words = columns.meaning(config, column.name)
            parts.append(f"| {column.name} | `{arrow_kind(column.type)}` | {words} |")
    return "\n".join(parts) + "\n"


def arrow_kind(dtype: pa.DataType) -> str:
    """A short name of an arrow type."""
    if pa.types.is_list(dtype):
        return f"list of {arrow_kind(dtype.value_type)}"
    if pa.types.is_struct(dtype):
        return "{" + ", ".join(f"{part.name}: {arrow_kind(part.type)}" for part in dtype) + "}"
    return {"bool": "boolean", "double": "float64"}.get(str(dtype), str(dtype))


if __name__ == "__main__":
    RELEASE_PAGE.write_text(release_page(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
