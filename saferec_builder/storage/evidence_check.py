"""Checks evidence: only the seeker's own words (for an item: its plot) at their place in our text count.

`fault` is the only rule. Proposals, returned reviews, every append, labels and releases use it, with the text of the
workspace in the revision that was shown, never with a copy of it from a server, a file or a model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from saferec_builder.core.errors import StoreError
from saferec_builder.storage.schema import TURN, digest

SPEAKER = {"sensitivity": "seeker", "item_flag": "plot"}  # kind -> role whose words count
NO_TURN = "no such turn"
NOT_FOUND = "quote not found"
NOT_THEIRS = "not the seeker's words"
NO_TEXT = "text not found"
UNFOUNDED = "evidence not in the text"  # for a review that was stored before this check existed

Turns = Sequence[Mapping[str, Any]]
TurnsOf = Mapping[tuple[str, str, str], Turns]  # by kind, subject, digest
TEXTS = pl.Schema([("kind", pl.String()), ("subject", pl.String()), ("digest", pl.String()), ("turns", pl.List(TURN))])
_SLICE = 10_000  # rows whose texts are in memory as Python objects


def fault(span: Mapping[str, Any] | None, turns: Turns | None, kind: str) -> str | None:
    """Why this span {turn, start, end, quote} is no evidence in `turns`. None: its quote stands at its place, word for
    word, in a turn of the role that counts for this kind of text."""
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
    """Returns (reason, quote) of the first span that is no evidence."""
    return next(((reason, (s or {}).get("quote") or "") for s in spans if (reason := fault(s, turns, kind))), None)


def split(rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (rows with valid evidence, the other rows with `reason` and `quote`).

    `rows` have kind, subject, digest, verdict and spans; a row without a verdict was taken back and claims nothing.
    `texts` has the schema TEXTS and each text once.
    """
    numbered = rows.with_row_index("row_")
    claims = numbered.filter(pl.col("verdict").is_not_null() & (pl.col("spans").list.len() > 0))
    problems: list[tuple[int, str, str]] = []
    for part, turns_of in with_texts(claims.select("row_", "kind", "subject", "digest", "spans"), texts):
        for row, *text, spans in part.iter_rows():
            if problem := first_fault(spans, turns_of.get(tuple(text)), text[0]):
                problems.append((row, *problem))
    schema = [("row_", numbered.schema["row_"]), ("reason", pl.String()), ("quote", pl.String())]
    faults = pl.DataFrame(problems, schema=schema, orient="row")
    refused = numbered.join(faults, on="row_", how="inner", maintain_order="left").drop("row_")
    return numbered.join(faults, on="row_", how="anti", maintain_order="left").drop("row_"), refused


def with_texts(rows: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, TurnsOf]]:
    """Yields (a slice of the rows, the turns of their texts): each text becomes Python objects once per slice."""
    for part in rows.sort("kind", "subject").iter_slices(_SLICE):
        shown = texts.join(part, on=["kind", "subject"], how="semi").select("kind", "subject", "digest", "turns")
        yield part, {(kind, subject, digest): turns for kind, subject, digest, turns in shown.iter_rows()}


def drops(stage: str, source: str, refused: pl.DataFrame) -> pl.DataFrame:
    """The rows of DROPS for the rows that `split` refused."""
    place = pl.concat_str("subject", "trait", separator=" ")
    detail = pl.concat_str(pl.col("trait"), pl.lit(": '"), pl.col("quote").str.slice(0, 80), pl.lit("'"))
    constants = (pl.lit(value).alias(name) for name, value in (("stage", stage), ("source", source)))
    return refused.select(*constants, place.alias("place"), "reason", detail.alias("detail"))


def refuse(table: str, rows: pl.DataFrame, texts: pl.DataFrame) -> None:
    """Raises StoreError where a row has invalid evidence; a last check, as callers have split such rows off."""
    _, refused = split(rows, texts)
    if refused.height:
        row = refused.row(0, named=True)
        raise StoreError(
            f"table {table}: {refused.height} rows with evidence that is none, first {row['trait']} on {row['subject']}"
            f" ({row['reason']}): nothing was written: this is a fault of the program, please report it"
        )


def texts(
    rows: pl.DataFrame, conversations: Callable[[], Iterable[pl.DataFrame]], plots: Callable[[], Iterable[pl.DataFrame]]
) -> pl.DataFrame:
    """Returns TEXTS for the evidence of these rows: conversations in every mined revision, and all plots of items.

    `conversations` and `plots` give the tables conversations and catalog_rows in parts, and are called only if a row
    needs them. A plot is found by its digest alone: the merging of items decides from which catalog row it comes.
    """
    claims = rows.filter(pl.col("spans").list.len() > 0).select("kind", "subject", "digest").unique()
    sensitivities, flags = claims.filter(kind="sensitivity"), claims.filter(kind="item_flag")
    keys = ["subject", "digest"]
    parts = [pl.DataFrame(schema=TEXTS)]
    for part in conversations() if sensitivities.height else ():
        table = part.select("digest", "turns", subject="conversation")
        parts.append(sensitivities.join(table, on=keys).select(list(TEXTS)))
    for part in plots() if flags.height else ():
        unique = part.filter(pl.col("plot").is_not_null()).select("plot").unique()
        table = unique.with_columns(pl.Series("digest", [digest(plot) for plot in unique["plot"]], dtype=pl.String))
        turn = pl.struct(role=pl.lit("plot"), text="plot", items=pl.lit([], pl.List(pl.String)))
        parts.append(flags.join(table, on="digest").with_columns(turns=pl.concat_list(turn)).select(list(TEXTS)))
    return pl.concat(parts).unique(list(TEXTS)[:3], keep="first", maintain_order=True)
