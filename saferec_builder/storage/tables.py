"""Every table of a workspace, as tables.toml defines it: its columns, its key, and what each column means.

Tables are append-only: a row is never edited, a changed opinion is a later row. Tables of many rows are parquet shards
(`bulk`), small and precious ones are in the database (`db`). docs/data-format.md is generated from them.
"""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.storage.schema import SPAN, TURN, Table, check, digest, keyed_digest, last

__all__ = ["SPAN", "TURN", "Table", "check", "digest", "keyed_digest", "last"]  # re-exported for callers

_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "text": pl.String,
    "bool": pl.Boolean,
    "float": pl.Float64,
    "int32": pl.Int32,
    "int64": pl.Int64,
    "time": pl.Datetime("us", "UTC"),
    "texts": pl.List(pl.String),
    "numbers": pl.List(pl.Int32),
    "turns": pl.List(TURN),
    "spans": pl.List(SPAN),
    "verdicts": pl.List(pl.Struct({"trait": pl.String, "verdict": pl.String})),
}


def _table(name: str, definition: dict[str, Any]) -> Table:
    columns = {column: (_TYPES[kind], meaning) for column, (kind, meaning) in definition["columns"].items()}
    return Table(name, definition["place"], tuple(definition["key"]), columns, definition["meaning"])


_DEFINITIONS = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
TABLES = {name: _table(name, definition) for name, definition in _DEFINITIONS.items()}
UNIT = ("kind", "subject", "trait")  # what is asked, reviewed and counted
SUBJECT = ("kind", "subject")  # a conversation or an item
TASK = (*SUBJECT, "reviewer")  # a subject that one person reads, or rules on
ANSWER = (*UNIT, "reviewer", "role")  # what one person says of a unit, in one role

ASKED = TABLES["asked"]
ASSIGNMENTS = TABLES["assignments"]
BATCHES = TABLES["batches"]
CATALOG_ROWS = TABLES["catalog_rows"]
CLUSTERS = TABLES["clusters"]
CONVERSATIONS = TABLES["conversations"]
DECOYS = TABLES["decoys"]
DESIGN = TABLES["design"]
DROPS = TABLES["drops"]
FORGOTTEN = TABLES["forgotten"]
GOLD = TABLES["gold"]
HONOURED = TABLES["honoured"]
KEYED = TABLES["keyed"]
LABELS = TABLES["labels"]
MARKS = TABLES["marks"]
ORIGINS = TABLES["origins"]
PROPOSALS = TABLES["proposals"]
READINGS = TABLES["readings"]
REJECTED = TABLES["rejected"]
REPLIES = TABLES["replies"]
REQUESTS = TABLES["requests"]
RESERVED = TABLES["reserved"]
REVIEWS = TABLES["reviews"]
SENT = TABLES["sent"]
SPEND = TABLES["spend"]
STATED = TABLES["stated"]
TASK_PAGES = TABLES["task_pages"]
TOMBSTONES = TABLES["tombstones"]
WARNINGS = TABLES["warnings"]
WAYS = TABLES["ways"]

HANDED_BACK = "handed back"  # the note of a `*` without a verdict: its reader prefers not to see the text
HANDED_BACK_WITH = f"{HANDED_BACK}: "  # the prefix of such a note with words for the team


def last_claims(proposals: pl.DataFrame) -> pl.DataFrame:
    """The PROPOSALS that are `present` or `unsure` in the last row of their proposer on the unit.

    Each proposer counts by itself: one that finds nothing does not withdraw the claim of another.
    """
    return last(proposals, *UNIT, "proposer").filter(pl.col("verdict").is_in(["present", "unsure"]))
