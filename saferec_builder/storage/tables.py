"""Every table of a workspace: tables.toml says its columns, its key, and what each column means.

A table is append-only: a row is never edited, a changed mind is a later row. Those of many rows are parquet shards
(`bulk`), the small and precious ones are in the database (`db`). docs/data-format.md is made from here.
"""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.storage.schema import SPAN, TURN, Table, check, digest, keyed_digest, last, texts

__all__ = ["SPAN", "TURN", "Table", "check", "digest", "keyed_digest", "last", "texts"]  # from here too, for callers

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


def _table(name: str, said: dict[str, Any]) -> Table:
    columns = {column: (_TYPES[kind], meaning) for column, (kind, meaning) in said["columns"].items()}
    return Table(name, said["place"], tuple(said["key"]), columns, said["meaning"])


_SAID = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
TABLES = {name: _table(name, said) for name, said in _SAID.items()}
UNIT = ("kind", "subject", "trait")  # what is asked and judged, and what counts

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

HANDED_BACK = "handed back"  # the note of a `*` without a verdict: its reader would rather not see the text
HANDED_BACK_WITH = f"{HANDED_BACK}: "  # begins it where they wrote one for the team


def last_claims(proposals: pl.DataFrame) -> pl.DataFrame:
    """PROPOSALS `present` or `unsure` that their proposer has said nothing else of since.

    The last word counts of each proposer by itself: one that finds nothing takes no other's claim away.
    """
    return last(proposals, *UNIT, "proposer").filter(pl.col("verdict").is_in(["present", "unsure"]))
