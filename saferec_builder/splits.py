"""Nobody is trained on a person and tested on the same person.

reads  conversations (conversation, source, seeker, time)
gives  splits (conversation, split, straddles)
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

import polars as pl

from saferec_builder.errors import ReleaseError, UsageError
from saferec_builder.tables import digest

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Shares:
    """How much of the rows is validation and test; the two dates together replace the shares of rows with a time."""

    validation: float
    test: float
    validation_from: date | None = None
    test_from: date | None = None

    def starts(self, times: pl.Series) -> tuple[datetime | None, datetime | None]:
        """The first instants of validation and of test; None where the share rounds to no row."""
        if self.validation_from and self.test_from:
            if self.validation_from >= self.test_from:
                raise UsageError("saferec.toml: [splits] validation_from must lie before test_from")
            midnight = [datetime.combine(day, time(), UTC) for day in (self.validation_from, self.test_from)]
            return midnight[0], midnight[1]
        if self.validation_from or self.test_from:
            raise UsageError("saferec.toml: [splits] validation_from and test_from go together: give both or none")
        known = times.drop_nulls().sort()
        test_at = known.len() - round(known.len() * self.test)
        validation_at = test_at - round(known.len() * self.validation)
        return (
            known[validation_at] if validation_at < test_at else None,
            known[test_at] if test_at < known.len() else None,
        )


def assign(conversations: pl.DataFrame, shares: Shares) -> pl.DataFrame:
    """One row per conversation, in the same order: its split, and whether its seeker also stands in a later split.

    Rows with a time: the latest share is test, the share before it is validation (rows of one instant stay together,
    in the later split). Rows without a time: a stable hash of the seeker, or of the conversation where there is no
    seeker, so that a new row never moves an old one. A row that straddles must not be released: its seeker's rows in
    the latest split stay.
    """
    level = (
        pl.when(pl.col("time").is_null())
        .then(_by_hash(shares.validation, shares.test))
        .otherwise(_by_time(*shares.starts(conversations["time"])))
    )
    latest = pl.col("level").max().over("seeker")
    return conversations.select("conversation", "seeker", level=level).select(
        "conversation",
        split=pl.col("level").replace_strict(dict(enumerate(SPLITS)), return_dtype=pl.String),
        straddles=pl.col("seeker").is_not_null() & (pl.col("level") < latest),
    )


def _by_time(validation_from: datetime | None, test_from: datetime | None) -> pl.Expr:
    def since(start: datetime | None) -> pl.Expr:
        return pl.lit(False) if start is None else pl.col("time") >= start

    return pl.when(since(test_from)).then(2).when(since(validation_from)).then(1).otherwise(0)


def _by_hash(validation: float, test: float) -> pl.Expr:
    def level(who: str) -> int:
        place = int(digest("split", who), 16) / 2**64
        return 2 if place < test else 1 if place < test + validation else 0

    return pl.coalesce("seeker", "conversation").map_elements(level, return_dtype=pl.Int32)


def rule(conversations: pl.DataFrame) -> str:
    """How these conversations were split, in words for the manifest and the card."""
    timeless = conversations.filter(pl.col("time").is_null())
    if timeless.is_empty():
        return "time"
    if timeless.height == conversations.height:
        return "seeker hash"
    names = ", ".join(sorted(timeless["source"].unique()))
    return f"time; seeker hash for rows without a time ({names})"


def check_leaks(rows: pl.DataFrame) -> None:
    """Stops a release in which a seeker or a conversation stands in two splits. Reads conversation, seeker, split."""
    for column in ("seeker", "conversation"):
        known = rows.filter(pl.col(column).is_not_null())
        leaks = known.group_by(column).agg(pl.col("split").unique().sort()).filter(pl.col("split").list.len() > 1)
        if leaks.height:
            who, where = leaks.sort(column).row(0)
            raise ReleaseError(
                f"release: {leaks.height} {column}s stand in more than one split, first {who} in {' and '.join(where)}:"
                " keep only the rows of the latest split (splits.assign marks the others)"
            )
