"""Which proposals speak of a workspace as it is now: of these texts, and no proposer's that has a later word.

reads  proposals and readings, digests of the texts, assignments, the wordings that were asked
gives  the proposals that reviewers are asked about, and those that are sure
"""

import polars as pl

from annotation import precision_bounds as precision
from annotation.task_assignment import claims
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import pending, prompting
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage.tables import UNIT, last

TEXT = ["kind", "subject", "digest"]


def standing(
    proposals: pl.DataFrame,
    current: pl.DataFrame,
    assignments: pl.DataFrame,
    readings: pl.DataFrame,
    asked: pl.DataFrame,
    taxonomy: Taxonomy,
) -> pl.DataFrame:
    """The last word of each proposer on the texts `current`, where it has not read them in today's words since.

    What was assigned keeps the claims on the text that was assigned, and so its readers: a design that says that they
    are read would wait for ever for the second of two. Of scores (`absent`) the last counts there too.
    """
    rows, given = proposals.with_row_index("row"), assignments.select(TEXT).unique()
    kept = with_last_scores(rows.join(given, on=TEXT, how="semi", maintain_order="left"))
    free = rows.join(given, on=TEXT, how="anti", maintain_order="left")
    now = last(free.join(current, on=TEXT, how="semi", maintain_order="left"), *UNIT, "proposer")
    gone = _superseded(claims(now), readings, asked, taxonomy)
    return pl.concat([kept, now.join(gone, on="row", how="anti")]).sort("row").drop("row")


def with_last_scores(proposals: pl.DataFrame) -> pl.DataFrame:
    """Without the `absent` rows that their proposer has a later word on: one that has learned since scores anew."""
    last_word = pl.struct(*UNIT, "proposer").is_last_distinct()
    return proposals.filter((pl.col("verdict") != "absent") | last_word)


def sure(proposals: pl.DataFrame, current: pl.DataFrame, taxonomy: Taxonomy, confidence: float) -> pl.DataFrame:
    """Those of the standing proposals that may become labels without a reader: on this text and in these words."""
    now = proposals.join(current, on=TEXT, how="semi", maintain_order="left")
    return prompting.as_worded(precision.sure(now, confidence), taxonomy)


def _superseded(claims: pl.DataFrame, readings: pl.DataFrame, asked: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """`row` of the claims in other words, or by other rules, where the proposer has read the text in today's since."""
    today = pl.col("proposal").is_in(prompting.as_worded(claims, taxonomy)["proposal"].implode())
    by_rules = pl.col("proposer") == "rules"
    older = claims.filter(pl.when(by_rules).then(pl.col("version") != rules.VERSION).otherwise(~today))
    if older.is_empty():
        return older.select("row")
    words = pl.concat([asked, pending.rows(taxonomy)]).unique()
    words = words.join(pending.rows(taxonomy).select("trait", "wording"), on=["trait", "wording"], how="semi")
    read = readings.filter((pl.col("proposer") != "rules") | (pl.col("version") == rules.VERSION))
    later = older.select("row", *TEXT, "trait", "proposer").join(read, on=[*TEXT, "proposer"])
    return later.join(words, on=["taxonomy", "trait"], how="semi").select("row").unique()
