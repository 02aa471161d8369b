"""Selects the proposals that apply to the current texts and were not replaced by later ones of the same proposer.

reads  proposals and readings, digests of the texts, assignments, the wordings that proposers were asked with
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
UNCLAIMED = (AUDIT, CONTROL, "gold", "census", "band")  # reasons to assign a text without claims


def standing(
    proposals: pl.DataFrame,
    current: pl.DataFrame,
    assignments: pl.DataFrame,
    readings: pl.DataFrame,
    asked: pl.DataFrame,
    taxonomy: Taxonomy,
) -> pl.DataFrame:
    """The last proposals of each proposer on the texts `current`, unless it has read them again without making them.

    A text that was assigned for a claim, and on which nothing is claimed any more, keeps its old claims, and so its
    readers: a design that counts it as read would wait for ever for the second of two. Of scores (`absent`) the last
    one counts there, too.
    """
    rows = proposals.with_row_index("row")
    latest = last(rows.join(current, on=TEXT, how="semi", maintain_order="left"), *UNIT, "proposer")
    latest = latest.join(_superseded(claims(latest), readings, asked, taxonomy), on="row", how="anti")
    unclaimed = assignments.filter(~pl.col("why").is_in(UNCLAIMED)).join(claims(latest), on=TEXT, how="anti")
    older = rows.join(unclaimed, on=TEXT, how="semi", maintain_order="left")
    is_last = pl.struct(*UNIT, "proposer").is_last_distinct()  # a proposer that was trained again gives new scores
    older = older.filter((pl.col("verdict") != "absent") | is_last)
    return pl.concat([older, latest]).unique("row").sort("row").drop("row")


def sure(proposals: pl.DataFrame, current: pl.DataFrame, taxonomy: Taxonomy, confidence: float) -> pl.DataFrame:
    """The standing proposals that may become labels without a reader: on this text and in this wording."""
    by_current_rules = (pl.col("proposer") != "rules") | (pl.col("version") == rules.VERSION)
    current_rows = proposals.filter(by_current_rules).join(current, on=TEXT, how="semi", maintain_order="left")
    return prompting.in_current_wording(precision.sure(current_rows, confidence), taxonomy)


def _superseded(claims: pl.DataFrame, readings: pl.DataFrame, asked: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """`row` of claims that their proposer has not made again: it has since read the text, asked about the trait in its
    present wording, by another version (other rules, another prompt), or where the claim is in an old wording."""
    is_current = pl.col("proposal").is_in(prompting.in_current_wording(claims, taxonomy)["proposal"].implode())
    wordings = pl.concat([asked, pending.rows(taxonomy)]).unique()
    wordings = wordings.join(pending.rows(taxonomy).select("trait", "wording"), on=["trait", "wording"], how="semi")
    read = readings.select(*TEXT, "proposer", "taxonomy", by="version")
    later = claims.drop("taxonomy").join(read, on=[*TEXT, "proposer"], maintain_order="right")
    later = later.join(wordings, on=["taxonomy", "trait"], how="semi", maintain_order="left")
    return last(later, "row").filter((pl.col("version") != pl.col("by")) | ~is_current).select("row")
