"""Which proposals speak of a workspace as it is now: of these texts, and no proposer's that has a later word.

reads  proposals and readings, digests of the texts, assignments, the wordings that were asked
gives  the proposals that reviewers are asked about, and those that are sure
"""

import polars as pl

from annotation import precision_bounds as precision
from annotation.task_assignment import AUDIT, CONTROL, claims
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import pending, prompting
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage.tables import UNIT, last

TEXT = ["kind", "subject", "digest"]
UNCLAIMED = (AUDIT, CONTROL, "gold", "census", "band")  # why a text is assigned of which nobody claims anything


def standing(
    proposals: pl.DataFrame,
    current: pl.DataFrame,
    assignments: pl.DataFrame,
    readings: pl.DataFrame,
    asked: pl.DataFrame,
    taxonomy: Taxonomy,
) -> pl.DataFrame:
    """The last word of each proposer on the texts `current`, where it has not read them in today's words since.

    A text that was assigned for a claim, and of which nothing is claimed any more, keeps the claims on it, and so its
    readers: a design that says that it is read would wait for ever for the second of two. Of scores (`absent`) the last
    counts there too.
    """
    rows = proposals.with_row_index("row")
    now = last(rows.join(current, on=TEXT, how="semi", maintain_order="left"), *UNIT, "proposer")
    now = now.join(_superseded(claims(now), readings, asked, taxonomy), on="row", how="anti")
    begun = assignments.filter(~pl.col("why").is_in(UNCLAIMED)).join(claims(now), on=TEXT, how="anti")
    kept = with_last_scores(rows.join(begun, on=TEXT, how="semi", maintain_order="left"))
    return pl.concat([kept, now]).unique("row").sort("row").drop("row")


def with_last_scores(proposals: pl.DataFrame) -> pl.DataFrame:
    """Without the `absent` rows that their proposer has a later word on: one that has learned since scores anew."""
    last_word = pl.struct(*UNIT, "proposer").is_last_distinct()
    return proposals.filter((pl.col("verdict") != "absent") | last_word)


def sure(proposals: pl.DataFrame, current: pl.DataFrame, taxonomy: Taxonomy, confidence: float) -> pl.DataFrame:
    """Those of the standing proposals that may become labels without a reader: on this text and in these words."""
    today = (pl.col("proposer") != "rules") | (pl.col("version") == rules.VERSION)
    now = proposals.filter(today).join(current, on=TEXT, how="semi", maintain_order="left")
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
