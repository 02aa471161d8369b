"""What was proposed and what people made of it, beside the words that it rests on."""

import polars as pl

from annotation.review_state import gather
from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import unknown_trait
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, texts_on_disk as spool
from saferec_builder.storage.workspace import Workspace

STAGES = ("proposals", "labels")
VERDICTS = ("present", "unsure")  # which have evidence


def browse(
    ws: Workspace, stage: str = "proposals", *, trait: str | None = None, verdict: str = "present"
) -> pl.DataFrame:
    """What has that verdict now, a row for each piece of evidence; UsageError where a word is none of those below.

    stage: `proposals` or `labels`; verdict: `present` or `unsure`. Columns: conversation, trait, form, by (who
    proposes, or how the label was made), confidence (null for labels), turn, text of that turn, start and end of the
    quote in it, in code points. Conversations that nobody is given, because of a crisis or a removal, are left out.
    """
    if stage not in STAGES:
        raise UsageError(f"{stage}: nothing to browse: expected {' or '.join(STAGES)}")
    if verdict not in VERDICTS:
        raise UsageError(f"{verdict}: no verdict with evidence: expected {' or '.join(VERDICTS)}")
    slugs = [trait] if trait else list(ws.taxonomy.slugs)
    if trait and trait not in ws.taxonomy.slugs:
        raise unknown_trait(trait, ws.taxonomy.slugs)
    desk = gather(ws)
    found = _newest(desk.proposals if stage == "proposals" else desk.labels, slugs).filter(verdict=verdict)
    rows = withheld.without(
        found.join(desk.known.filter("current"), on=["subject", "digest"], how="semi"), desk.withheld
    )
    texts = spool.turns(ws, rows["subject"].unique()).unique(["subject", "digest"], keep="first")
    said = rows.join(texts, on=["subject", "digest"], maintain_order="left").explode("spans")
    return said.select(
        "trait",
        "form",
        "by",
        "confidence",
        pl.col("spans").struct.field("turn", "start", "end"),
        conversation="subject",
        text=pl.col("turns").list.get(pl.col("spans").struct.field("turn")).struct.field("text"),
    ).select("conversation", "trait", "form", "by", "confidence", "turn", "text", "start", "end")


def _newest(rows: pl.DataFrame, slugs: list[str]) -> pl.DataFrame:
    """The newest of each (conversation, trait), of proposals that of each proposer, with who says so in `by`."""
    keys = ["kind", "subject", "trait"]
    if "proposer" in rows.columns:
        keys, rows = [*keys, "proposer"], rows.with_columns(by="proposer")
    else:
        rows = rows.with_columns(by="method", confidence=pl.lit(None, pl.Float64))
    found = tables.last(rows, *keys).filter(pl.col("trait").is_in(slugs), kind="sensitivity")
    return found.select("kind", "subject", "digest", "trait", "verdict", "form", "by", "confidence", "spans")
