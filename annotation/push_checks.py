"""What keeps a push from starting: who cannot review, what cannot be asked for, and answers that it would overwrite."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from annotation import pull, review_history
from annotation.review_state import Desk
from annotation.tools.tasks_and_answers import SAID_AGAIN
from saferec_builder.core.errors import ReviewError, UsageError


@dataclass(frozen=True)
class People:
    """Those named on a push."""

    reviewers: tuple[str, ...]
    adjudicator: str | None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.reviewers, *([self.adjudicator] if self.adjudicator else [])]))


def check_texts(desk: Desk) -> None:
    if desk.texts.is_empty():
        raise UsageError(f"{desk.ws.root}: there is nothing to review: run `saferec-build mine` first")


def check_people(who: People, assignments: pl.DataFrame) -> None:
    if not who.names:
        raise UsageError("nobody to review: give --reviewer NAME (twice or more) or --adjudicator NAME")
    for name in who.names:
        if (
            not name.replace("-", "").replace("_", "").replace(".", "").isalnum()
            or name.startswith(".")
            or len(name) > 64
        ):
            raise UsageError(
                f"reviewer {name[:80]!r}: a name has at most 64 letters, digits and -_. only; it becomes a file's name"
            )
    folded = [name.casefold() for name in who.reviewers]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        raise UsageError(f"{twice[0]!r} is named twice: one person is never two readers")
    known = {name.casefold(): name for name in [*who.reviewers, *assignments["reviewer"]]}
    for name in who.names:
        if (other := known.get(name.casefold(), name)) != name:
            raise UsageError(f"{name}: {other} has tasks here: one person is never two readers")


def check_aside(who: People, reviews: pl.DataFrame) -> None:
    if gone := sorted(review_history.aside(reviews) & {*who.names}):
        raise UsageError(f"{gone[0]}: their work is set aside: name others, or run `review set-aside {gone[0]} --undo`")


def check_pulled(desk: Desk, paths: list[Path]) -> None:
    """A file is not overwritten while it holds an answer that the workspace has never had."""
    pulled = pull.of_files(desk, paths)
    facts = ["kind", "subject", "trait", "reviewer", "role", "digest", "verdict"]
    spoken_for = pl.when(pl.col("trait") == "*").then("taxonomy")  # the same `*` for other traits is another answer
    new, known = (rows.select(*facts, of=spoken_for) for rows in (pull.new(desk, pulled), desk.reviews))
    never = new.join(known, on=new.columns, how="anti", nulls_equal=True)
    waiting = never.height + sum(reason != SAID_AGAIN for _, _, _, reason, _ in pulled.drops)
    if waiting:
        names = " ".join(str(path) for path in paths)
        raise ReviewError(
            f"{names}: {waiting} answers in there are not in the workspace yet: run"
            f" `saferec-build review pull --tool files {names}`, correct what it names, or move the file away"
        )
