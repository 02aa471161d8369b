"""Conversations whose readers reported, in a note, that the text tells who somebody is.

reads  reviews, the texts as they are now
gives  conversations with such a report, until they are removed, or their owner lets them pass
"""

from collections.abc import Sequence

import polars as pl

from annotation.review_history import BACK

_REPORT = r"(?i)\bpersonal[\W_]*(data|info|detail)|\bpii\b"  # guidelines.md asks for the first; people write others too
SHOWN = 5  # ids in a line


def reported(reviews: pl.DataFrame, now: pl.DataFrame) -> list[str]:
    """Ids, sorted. `now`: subject of the conversations that may be read.

    A text that changed may hold it still: another word of it may have been masked. Every note counts that anybody ever
    wrote on the conversation, whether or not their answer makes a label: an answer given again without it, a task
    handed back with it, or a reader who was set aside, tells nothing of what stands there.
    """
    theirs = pl.col("verdict").is_not_null() | BACK  # else it is the reason of whoever set them aside
    told = reviews.filter(theirs, pl.col("note").str.contains(_REPORT), kind="sensitivity")
    return told.join(now, on="subject", how="semi")["subject"].unique().sort().to_list()


def words(ids: Sequence[str]) -> str:
    """How many, and which: the first of them, where they are many."""
    more = f" and {len(ids) - SHOWN:,} more (`review status --json`)" if len(ids) > SHOWN else ""
    return f"{len(ids):,} conversation{'s' * (len(ids) != 1)}: {', '.join(ids[:SHOWN])}{more}"


REMEDY = "remove them (removals.csv or `saferec-build forget`)"
