"""Lists proposals or labels beside the text of their evidence, and texts in which readers saw personal data."""

import polars as pl

from annotation import reported_texts
from annotation.review_state import ReviewState, gather, readable
from saferec_builder.core.counts import many
from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import unknown_trait
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, texts_on_disk
from saferec_builder.storage.workspace import Workspace

STAGES = ("proposals", "labels", "reported")
VERDICTS = ("present", "unsure")  # those with evidence
AROUND = 120  # characters of a turn on each side of a quote
COLUMNS = ("conversation", "trait", "form", "by", "confidence", "turn", "text", "start", "end")


def browse(
    ws: Workspace, stage: str = "proposals", *, trait: str | None = None, verdict: str = "present"
) -> pl.DataFrame:
    """The current proposals or labels with this verdict, one row per evidence span.

    A label without a quote, as people who are unsure give none, has the quotes of the newest proposal, or else the
    first turn without any (start = end = 0).
    stage: `proposals` or `labels`; verdict: `present` or `unsure`. Columns: conversation, trait, form, by (the
    proposer, or how the label was made), confidence (null for labels), turn, text of that turn, start and end of the
    quote in it, in code points. Conversations that no reviewer gets, because of a crisis or a removal, are left out.
    `reported`: each turn of the conversations whose readers reported personal data, whole, with their notes as `by`
    and `personal data` as trait; `trait` and `verdict` do not apply. Raises UsageError for an unknown stage, verdict or
    trait.
    """
    if stage not in STAGES:
        raise UsageError(f"{stage}: nothing to browse: expected {' or '.join(STAGES)}")
    if verdict not in VERDICTS:
        raise UsageError(f"{verdict}: no verdict with evidence: expected {' or '.join(VERDICTS)}")
    slugs = [trait] if trait else list(ws.taxonomy.slugs)
    if trait and trait not in ws.taxonomy.slugs:
        raise unknown_trait(trait, ws.taxonomy.slugs)
    state = gather(ws)
    if stage == "reported":
        return _reported(ws, state)
    claims = _newest(state.proposals if stage == "proposals" else state.labels, slugs).filter(verdict=verdict)
    if stage == "labels":
        claims = _with_spans(claims, _newest(state.proposals, slugs))
    rows = claims.join(state.known.filter("current"), on=["subject", "digest"], how="semi")
    rows = withheld.without(rows, state.withheld)
    texts = texts_on_disk.turns(ws, rows["subject"].unique()).unique(["subject", "digest"], keep="first")
    with_texts = rows.join(texts, on=["subject", "digest"], maintain_order="left").explode("spans").unnest("spans")
    text = pl.col("turns").list.get(pl.col("turn")).struct.field("text")
    return with_texts.with_columns(text, conversation="subject").select(COLUMNS)


def first(claims: pl.DataFrame, stage: str, limit: int) -> pl.DataFrame:
    """The first `limit` rows of `browse`; of `reported` all turns of so many conversations."""
    if stage != "reported":
        return claims.head(limit)
    shown = claims["conversation"].unique(maintain_order=True).head(limit)
    return claims.filter(pl.col("conversation").is_in(shown.implode()))


def lines(claims: pl.DataFrame, shown: pl.DataFrame, stage: str, verdict: str) -> list[str]:
    """The rows `shown` of `claims`: each quote in its turn; of `reported` the note, then the whole conversation, as
    nobody has said where in it the personal data are. And the line of the counts."""
    text = []
    for row in shown.iter_rows(named=True):
        if stage == "reported":
            text += [f"{row['conversation']}: {row['by']}"] * (row["turn"] == 0) + [
                f"{row['turn'] + 1:>4}. {row['text']}"
            ]
            continue
        confidence = "" if row["confidence"] is None else f" {row['confidence']:.2f}"
        form = f"{row['form']}, " if row["form"] else ""
        text.append(f"{row['conversation']} turn {row['turn'] + 1}: {row['trait']}, {form}{row['by']}{confidence}")
        turn, start, end = row["text"], row["start"], row["end"]
        before, after = turn[max(0, start - AROUND) : start], turn[end : end + AROUND]
        dots = ("..." * (start > AROUND), "..." * (len(turn) > end + AROUND))
        text.append(f"    {dots[0]}{before}»{turn[start:end]}«{after}{dots[1]}")
    counts = (frame["conversation"].n_unique() if stage == "reported" else frame.height for frame in (claims, shown))
    return [*text, _count_line(stage, verdict, *counts)]


def _count_line(stage: str, verdict: str, total: int, shown: int) -> str:
    """How many rows there are and how many are shown, with the options that show the others."""
    rest = [f"--limit {total} shows all"] * (shown < total)
    if stage == "reported":
        return "; ".join([f"{stage}: {many(total, 'conversation', 'conversations')}, {shown:,} shown", *rest])
    rest += [f"--verdict {other} shows those that say {other}" for other in VERDICTS if other != verdict]
    return "; ".join([f"{stage} that say {verdict}: {many(total, 'quote', 'quotes')}, {shown:,} shown", *rest])


def _reported(ws: Workspace, state: ReviewState) -> pl.DataFrame:
    now = readable(state)
    notes = reported_texts.reports(state.reviews, now).group_by("subject").agg(by=pl.col("note").unique().sort())
    texts = texts_on_disk.turns(ws, notes["subject"]).join(now, ["subject", "digest"], "semi")
    texts = texts.unique("subject", keep="last").sort("subject").join(notes, "subject", maintain_order="left")
    turns = texts.explode("turns").with_columns(turn=pl.int_range(pl.len(), dtype=pl.Int32).over("subject"))
    text = pl.col("turns").struct.field("text")
    unset = {"form": pl.lit(None, pl.String), "confidence": pl.lit(None, pl.Float64)}
    return turns.with_columns(
        text.alias("text"),
        pl.col("by").list.join("; "),
        conversation="subject",
        trait=pl.lit("personal data"),
        start=pl.lit(0, pl.Int32),
        end=text.str.len_chars().cast(pl.Int32),
        **unset,
    ).select(COLUMNS)


def _with_spans(labels: pl.DataFrame, proposals: pl.DataFrame) -> pl.DataFrame:
    unit = ["subject", "digest", "trait"]
    proposed = (
        proposals.filter(pl.col("spans").list.len() > 0).unique(unit, keep="last").select(*unit, proposed="spans")
    )
    first_turn = pl.lit([{"turn": 0, "start": 0, "end": 0}], labels.schema["spans"])
    spans = pl.when(pl.col("spans").list.len() > 0).then("spans").otherwise(pl.coalesce("proposed", first_turn))
    return labels.join(proposed, unit, how="left", maintain_order="left").with_columns(spans=spans).drop("proposed")


def _newest(rows: pl.DataFrame, slugs: list[str]) -> pl.DataFrame:
    """The newest row of each conversation and trait (of proposals: and proposer), with its origin in `by`."""
    keys = ["kind", "subject", "trait"]
    if "proposer" in rows.columns:
        keys, rows = [*keys, "proposer"], rows.with_columns(by="proposer")
    else:
        rows = rows.with_columns(by="method", confidence=pl.lit(None, pl.Float64))
    newest = tables.last(rows, *keys).filter(pl.col("trait").is_in(slugs), kind="sensitivity")
    return newest.select("kind", "subject", "digest", "trait", "verdict", "form", "by", "confidence", "spans")
