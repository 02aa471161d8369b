"""Assigns conversations to splits, so that nobody is trained on a person and tested on the same person.

reads  conversations (conversation, source, seeker, time); optional columns: `cluster` (of near-duplicates), `seed` (the
       first work named, which keeps rows without time and seeker together), `earlier` (whether the row is in the
       release before this one)
gives  splits (conversation, split, straddles)
"""

from datetime import UTC, datetime, time

import polars as pl

from saferec_builder.storage import config
from saferec_builder.storage.tables import digest

SPLITS = ("train", "validation", "test")
Starts = tuple[datetime | None, datetime | None]  # first instants of validation and of test; None: it has no dated row


def starts(times: pl.Series, section: config.Splits, before: Starts | None = None) -> Starts:
    """By the dates of [splits] in saferec.toml, else as in the release `before`, else by shares of the rows."""
    if section.validation_from and section.test_from:
        midnight = [datetime.combine(day, time(), UTC) for day in (section.validation_from, section.test_from)]
        return midnight[0], midnight[1]
    if before:
        return before  # versions cannot be compared if a test row of one is a train row of the next
    dated = times.drop_nulls().sort()
    test_at = dated.len() - round(dated.len() * section.test)
    validation_at = test_at - round(dated.len() * section.validation)
    return (
        dated[validation_at] if validation_at < test_at else None,
        dated[test_at] if test_at < dated.len() else None,
    )


def assign(conversations: pl.DataFrame, section: config.Splits, before: Starts | None = None) -> pl.DataFrame:
    """One row per conversation, in the same order: its split, and whether it straddles. `before`: see `starts`.

    Rows with a time: the latest share is test, the share before it is validation (rows of one instant stay together,
    in the later split). Rows without a time: by a stable hash of the seeker, else the seed, else the conversation,
    so that a new row never moves an old one. A row straddles, and must not be released, if another split keeps the
    rows of its seeker or of its cluster of near-duplicates. The split that keeps them is the latest one with a row of
    the earlier release, so that a returning seeker removes nothing from the dataset; without such a row the latest.
    """
    in_validation, in_test = (
        pl.lit(False) if start is None else pl.col("time") >= start
        for start in starts(conversations["time"], section, before)
    )
    level = (
        pl.when(pl.col("time").is_null())
        .then(_by_hash(section.validation, section.test, "seed" in conversations.columns))
        .otherwise(pl.when(in_test).then(2).when(in_validation).then(1).otherwise(0))
    )
    groups = [name for name in ("seeker", "cluster") if name in conversations.columns]
    earlier = (
        pl.col("level").filter(pl.col("earlier")) if "earlier" in conversations.columns else pl.lit(None, pl.Int32)
    )
    kept = pl.coalesce(earlier.max(), pl.col("level").max())
    elsewhere = [pl.col(name).is_not_null() & (pl.col("level") != kept.over(name)) for name in groups]
    return conversations.with_columns(level=level).select(
        "conversation",
        split=pl.col("level").replace_strict(dict(enumerate(SPLITS)), return_dtype=pl.String),
        straddles=pl.any_horizontal(elsewhere),
    )


def _by_hash(validation: float, test: float, seeded: bool) -> pl.Expr:
    def level(key: str) -> int:
        place = int(digest("split", key), 16) / 2**64
        return 2 if place < test else 1 if place < test + validation else 0

    return pl.coalesce("seeker", *["seed"] * seeded, "conversation").map_elements(level, return_dtype=pl.Int32)


def rule(conversations: pl.DataFrame) -> str:
    """How these conversations were split, in words for the manifest and the card."""
    timeless = conversations.filter(pl.col("time").is_null())
    if timeless.is_empty():
        return "time"
    how = "seeker hash" + (", else that of the first work named" if "seed" in conversations.columns else "")
    if timeless.height == conversations.height:
        return how
    names = ", ".join(sorted(timeless["source"].unique()))
    return f"time; {how} for rows without a time ({names})"
