"""Checks evidence: only the seeker's own words (of an item: its plot's), at their place in our text, count.

`fault` is the one rule. Proposals, answers that come back, every append, labels and releases ask it, each against the
text of the workspace in the revision that was shown: what a server, a file or a model repeats of a text is no text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from saferec_builder.core.errors import StoreError
from saferec_builder.storage.schema import TURN, digest

SPEAKER = {"sensitivity": "seeker", "item_flag": "plot"}  # kind -> whose words they are
NO_TURN = "no such turn"
NOT_FOUND = "quote not found"
NOT_THEIRS = "not the seeker's words"
NO_TEXT = "text not found"
UNFOUNDED = "evidence not in the text"  # of a review that was stored before anybody looked

Turns = Sequence[Mapping[str, Any]]
TEXTS = pl.Schema([("kind", pl.String()), ("subject", pl.String()), ("digest", pl.String()), ("turns", pl.List(TURN))])
_SLICE = 10_000  # rows whose turns are Python objects at once


def fault(span: Mapping[str, Any] | None, turns: Turns | None, kind: str) -> str | None:
    """Why this span {turn, start, end, quote} is no evidence in `turns`, or None: its quote stands there, word for
    word, and whose words count in this kind of text said it."""
    if turns is None:
        return NO_TEXT
    if span is None:
        return NOT_FOUND
    turn, start, end = (span[name] for name in ("turn", "start", "end"))
    if turn is None or not 0 <= turn < len(turns):
        return NO_TURN
    text, quote = turns[turn]["text"] or "", span["quote"]
    if start is None or end is None or not 0 <= start < end <= len(text) or text[start:end] != quote:
        return NOT_FOUND
    return None if turns[turn]["role"] == SPEAKER.get(kind) else NOT_THEIRS


def first_fault(spans: Iterable[Mapping[str, Any] | None], turns: Turns | None, kind: str) -> tuple[str, str] | None:
    """(reason, the quote) of the first span that is no evidence."""
    return next(((why, (span or {}).get("quote") or "") for span in spans if (why := fault(span, turns, kind))), None)


def split(rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows whose evidence stands, the others with `reason` and `quote`).

    `rows` have kind, subject, digest, verdict and spans; a row without a verdict was taken back and claims nothing.
    `texts` are TEXTS, each once.
    """
    each = rows.with_row_index("row_")
    claims = each.filter(pl.col("verdict").is_not_null() & (pl.col("spans").list.len() > 0))
    known = texts.select(list(TEXTS)).with_columns(there=pl.lit(True))
    found: list[tuple[int, str, str]] = []
    for part in claims.select("row_", "kind", "subject", "digest", "spans").iter_slices(_SLICE):
        both = part.join(known, on=["kind", "subject", "digest"], how="left")
        for row, kind, spans, turns, there in both.select("row_", "kind", "spans", "turns", "there").iter_rows():
            if why := first_fault(spans, turns if there else None, kind):
                found.append((row, *why))
    schema = [("row_", each.schema["row_"]), ("reason", pl.String()), ("quote", pl.String())]
    faults = pl.DataFrame(found, schema=schema, orient="row")
    gone = each.join(faults, on="row_", how="inner", maintain_order="left").drop("row_")
    return each.join(faults, on="row_", how="anti", maintain_order="left").drop("row_"), gone


def drops(stage: str, source: str, gone: pl.DataFrame) -> pl.DataFrame:
    """Rows of DROPS for what `split` left out."""
    place = pl.concat_str("subject", "trait", separator=" ")
    detail = pl.concat_str(pl.col("trait"), pl.lit(": '"), pl.col("quote").str.slice(0, 80), pl.lit("'"))
    fixed = (pl.lit(word).alias(name) for name, word in (("stage", stage), ("source", source)))
    return gone.select(*fixed, place.alias("place"), "reason", detail.alias("detail"))


def refuse(table: str, rows: pl.DataFrame, texts: pl.DataFrame) -> None:
    """The last gate: raises where a row claims evidence that does not stand. Who appends has split such rows off."""
    _, gone = split(rows, texts)
    if gone.height:
        row = gone.row(0, named=True)
        raise StoreError(
            f"table {table}: {gone.height} rows with evidence that is none, first {row['trait']} on {row['subject']}"
            f" ({row['reason']}): nothing was written: this is a fault of the program, please report it"
        )


def texts(
    rows: pl.DataFrame, conversations: Callable[[], Iterable[pl.DataFrame]], plots: Callable[[], Iterable[pl.DataFrame]]
) -> pl.DataFrame:
    """TEXTS that these rows' evidence speaks of, in every revision that was mined, and every plot that an item had.

    `conversations` and `plots` give the tables conversations and catalog_rows part by part, and are asked only where
    a row needs them. A plot is named by its digest alone: which catalog row it came from is the merge's to say.
    """
    claims = rows.filter(pl.col("spans").list.len() > 0).select("kind", "subject", "digest").unique()
    spoken, shown = claims.filter(kind="sensitivity"), claims.filter(kind="item_flag")
    keys = ["subject", "digest"]
    parts = [pl.DataFrame(schema=TEXTS)]
    for part in conversations() if spoken.height else ():
        named = part.select("digest", "turns", subject="conversation")
        parts.append(spoken.join(named, on=keys).select(list(TEXTS)))
    for part in plots() if shown.height else ():
        found = part.filter(pl.col("plot").is_not_null()).select("plot").unique()
        named = found.with_columns(pl.Series("digest", [digest(plot) for plot in found["plot"]], dtype=pl.String))
        turn = pl.struct(role=pl.lit("plot"), text="plot", items=pl.lit([], pl.List(pl.String)))
        parts.append(shown.join(named, on="digest").with_columns(turns=pl.concat_list(turn)).select(list(TEXTS)))
    return pl.concat(parts).unique(list(TEXTS)[:3], keep="first", maintain_order=True)
