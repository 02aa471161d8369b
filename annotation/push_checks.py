"""Checks before a push: unfit reviewers, missing texts, and answers in files that it would overwrite."""

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from annotation import pull, review_history
from annotation.review_state import ReviewState
from annotation.tools.tasks_and_answers import SAID_AGAIN
from saferec_builder.core.errors import ReviewError, UsageError


@dataclass(frozen=True)
class People:
    """The people named for a push."""

    reviewers: tuple[str, ...]
    adjudicator: str | None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.reviewers, *([self.adjudicator] if self.adjudicator else [])]))


def check_texts(state: ReviewState) -> None:
    if state.texts.is_empty():
        raise UsageError(f"{state.ws.root}: there is nothing to review: run `saferec-build mine SOURCE PATH` first")


def check_limits(budget: int | None, minutes: float | None) -> None:
    """0 would say no limit to the rest of the push, and nothing at all to whoever types it."""
    for name, limit in (("budget", budget), ("minutes", minutes)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} {limit:g}: expected more than 0; without it, everything is handed out")


def check_people(people: People, assignments: pl.DataFrame) -> None:
    if not people.names:
        raise UsageError("nobody to review: give --reviewer NAME (twice or more) or --adjudicator NAME")
    for name in people.names:
        if not re.fullmatch(r"(?!\.)(?=.*[^\W_])[\w.-]{1,64}", name):
            raise UsageError(
                f"reviewer {name[:80]!r}: a name has at most 64 letters, digits and -_. only; it becomes a file's name"
            )
    names = [name.casefold() for name in people.reviewers]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{repeated[0]!r} is named twice: one person is never two readers")
    by_name = {name.casefold(): name for name in [*people.reviewers, *assignments["reviewer"]]}
    for name in people.names:
        if (earlier := by_name.get(name.casefold(), name)) != name:
            raise UsageError(f"{name}: {earlier} has tasks here: one person is never two readers")


def check_aside(people: People, reviews: pl.DataFrame) -> None:
    if away := sorted(review_history.aside(reviews) & {*people.names}):
        raise UsageError(f"{away[0]}: their work is set aside: name others, or run `review set-aside {away[0]} --undo`")


def check_pulled(state: ReviewState, paths: list[Path]) -> None:
    """Raises ReviewError if a file to be overwritten holds an answer that was never pulled into the workspace."""
    pulled = pull.of_files(state, paths)
    facts = ["kind", "subject", "trait", "reviewer", "role", "digest", "verdict"]
    taxonomy = pl.when(pl.col("trait") == "*").then("taxonomy")  # the same `*` for other traits is a different answer
    quotes = pl.col("spans").list.eval(pl.element().struct.field("quote"))
    new, stored, standing = (
        rows.select(*facts, "form", "note", of=taxonomy, quotes=quotes)
        for rows in (pull.new(state, pulled), state.reviews, state.standing.filter(pl.col("out").is_null()))
    )
    unpulled = new.join(stored, on=[*facts, "of"], how="anti", nulls_equal=True)
    # a push fills in the answers that still hold in a changed text
    unpulled = unpulled.join(standing, on=standing.columns, how="anti", nulls_equal=True)
    waiting = unpulled.height + sum(reason != SAID_AGAIN for _, _, _, reason, _ in pulled.drops)
    if waiting:
        names = " ".join(str(path) for path in paths)
        raise ReviewError(
            f"{names}: {waiting} answers in there are not in the workspace yet: run"
            f" `saferec-build review pull --tool files {names}`, correct what it names, or move the file away"
        )
