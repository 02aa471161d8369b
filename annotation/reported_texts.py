"""Conversations whose readers reported in a note that the text reveals somebody's identity.

reads  reviews, the current texts
gives  conversations with such a report, until they are removed, or their owner allows them
"""

from collections.abc import Sequence

import polars as pl

from annotation.review_history import BACK

_REPORT = r"(?i)\bpersonal[\W_]*(data|info|detail)|\bpii\b"  # guidelines.md asks for the first; people vary it
SHOWN = 5  # ids in a line


def reported(reviews: pl.DataFrame, now: pl.DataFrame) -> list[str]:
    """Ids, sorted. `now`: subject of the conversations that may be read."""
    return reports(reviews, now)["subject"].unique().sort().to_list()


def reports(reviews: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """The reviews whose note reports it.

    A changed text may still contain it: something else in it may have been masked. So every note ever written on the
    conversation counts, whether or not its answer makes a label: neither a new answer without the note, nor a task that
    was handed back, nor a reader who was set aside shows that the text is clean.
    """
    by_readers = pl.col("verdict").is_not_null() | BACK  # else the note is the reason why a reviewer was set aside
    rows = reviews.filter(by_readers, pl.col("note").str.contains(_REPORT), kind="sensitivity")
    return rows.join(now, on="subject", how="semi")


def words(ids: Sequence[str]) -> str:
    """The number of conversations and their ids, only the first of them if there are many."""
    more = f" and {len(ids) - SHOWN:,} more (`review status --json`)" if len(ids) > SHOWN else ""
    return f"{len(ids):,} conversation{'s' * (len(ids) != 1)}: {', '.join(ids[:SHOWN])}{more}"


REMEDY = "remove them (removals.csv or `saferec-build forget`)"
