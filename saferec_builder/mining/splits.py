"""Assigns conversations to splits, so that nobody is trained on a person and tested on the same person.

reads  conversations (conversation, source, seeker, time), and `cluster` where near-duplicates were found, `seed` (the
       first work that is named) where rows without a time and a person are to be kept together by it, `earlier` (is it
       in the release before this one)
gives  splits (conversation, split, straddles)
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

import polars as pl

from saferec_builder.storage import config
from saferec_builder.storage.tables import digest

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Shares:
    """How much of the rows is validation and test; the two dates together replace the shares of rows with a time."""

    validation: float
    test: float
    validation_from: date | None = None  # both or neither
    test_from: date | None = None
    earlier: tuple[datetime | None, datetime | None] | None = None  # the starts of the release before this one

    def starts(self, times: pl.Series) -> tuple[datetime | None, datetime | None]:
        """The first instants of validation and of test; None where the share rounds to no row."""
        if self.validation_from and self.test_from:
            midnight = [datetime.combine(day, time(), UTC) for day in (self.validation_from, self.test_from)]
            return midnight[0], midnight[1]
        if self.earlier:
            return self.earlier  # a test row that becomes a train row of the next version spoils every comparison
        known = times.drop_nulls().sort()
        test_at = known.len() - round(known.len() * self.test)
        validation_at = test_at - round(known.len() * self.validation)
        return (
            known[validation_at] if validation_at < test_at else None,
            known[test_at] if test_at < known.len() else None,
        )


def shares(given: config.Splits, earlier: tuple[datetime | None, datetime | None] | None = None) -> Shares:
    """Of [splits] in saferec.toml, and the starts of the release before."""
    return Shares(given.validation, given.test, given.validation_from, given.test_from, earlier)


def assign(conversations: pl.DataFrame, shares: Shares) -> pl.DataFrame:
    """One row per conversation, in the same order: its split, and whether its seeker stands in another one, too.

    Rows with a time: the latest share is test, the share before it is validation (rows of one instant stay together,
    in the later split). Rows without a time: a stable hash of the seeker, or where there is none of the seed, or of the
    conversation, so that a new row never moves an old one. A row that straddles must not be released: of a seeker, and
    of a cluster of near-duplicates, the rows in one split stay. It is the latest of those that were released before, so
    that who comes back takes nothing out of the dataset; else the latest.
    """
    level = (
        pl.when(pl.col("time").is_null())
        .then(_by_hash(shares.validation, shares.test, "seed" in conversations.columns))
        .otherwise(_by_time(*shares.starts(conversations["time"])))
    )
    groups = [name for name in ("seeker", "cluster") if name in conversations.columns]
    before = pl.col("level").filter(pl.col("earlier")) if "earlier" in conversations.columns else pl.lit(None, pl.Int32)
    stays = pl.coalesce(before.max(), pl.col("level").max())
    other = [pl.col(name).is_not_null() & (pl.col("level") != stays.over(name)) for name in groups]
    return conversations.with_columns(level=level).select(
        "conversation",
        split=pl.col("level").replace_strict(dict(enumerate(SPLITS)), return_dtype=pl.String),
        straddles=pl.any_horizontal(other),
    )


def _by_time(validation_from: datetime | None, test_from: datetime | None) -> pl.Expr:
    def since(start: datetime | None) -> pl.Expr:
        return pl.lit(False) if start is None else pl.col("time") >= start

    return pl.when(since(test_from)).then(2).when(since(validation_from)).then(1).otherwise(0)


def _by_hash(validation: float, test: float, seeded: bool) -> pl.Expr:
    def level(who: str) -> int:
        place = int(digest("split", who), 16) / 2**64
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
