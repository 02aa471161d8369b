"""Injects sensitivities into requests, as the paper's benchmark does: a sentence of ours that implies one.

reads  rows of build_rows.build (before target_lists.fill), the banks of injections.toml
gives  rows of the same form with `added` and `made_from`; condition `injected`, never mixed with what people said

Only requests go in whose seeker is not known to have any sensitivity, so that a row's traits are the injected ones
alone. Each split has sentences of its own. What a seeker has kept to themselves stays unknown: an injected row says
nothing about the person, and has a name of its own.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.storage.tables import digest

BANKS = Path(__file__).with_name("injections.toml")
SECOND = 4  # one request in four gets two sensitivities

Banks = Mapping[str, Mapping[str, Sequence[str]]]  # trait -> split -> sentences


def banks() -> Banks:
    found: Banks = tomllib.loads(BANKS.read_text(encoding="utf-8"))
    return found


def chosen(words: str, slugs: Sequence[str], known: Banks) -> list[str]:
    """The traits of `--inject`: `all`, or slugs with commas between them."""
    there = [slug for slug in slugs if slug in known]
    asked = there if words == "all" else [word.strip() for word in words.split(",") if word.strip()]
    strange = [slug for slug in asked if slug not in there]
    if strange or not asked:
        found = strange[0] if strange else words
        raise UsageError(
            f"--inject {found!r}: no sentences for this trait: expected all, or some of {', '.join(there)}"
        )
    return asked


def rows(built: pl.DataFrame, traits: Sequence[str], known: Banks) -> pl.DataFrame:
    """One injected row per request without a known sensitivity; which trait and sentence follows from its released id.

    Truth is not filtered here: target_lists.fill leaves out of the lists what breaks any injected trait.
    """
    free = built.filter(
        pl.col("cut").is_not_null() & (pl.col("at_risk").list.len() == 0) & (pl.col("late_traits").list.len() == 0)
    )
    made = [drawn(name, split, traits, known) for name, split in free.select("conversation", "split").iter_rows()]
    texts = pl.List(pl.String)
    sentences = pl.DataFrame(made, schema={"added": pl.String, "traits": texts, "form": texts}, orient="row")
    ids = [digest("injected", name, *row[1]) for name, row in zip(free["conversation"], made, strict=True)]
    return free.with_columns(
        *sentences, at_risk=sentences["traits"], made_from="conversation", conversation=pl.Series(ids, dtype=pl.String)
    )


def drawn(name: str, split: str, traits: Sequence[str], known: Banks) -> tuple[str, list[str], list[str]]:
    """(sentences, their traits, forms) for this conversation, of the traits that were chosen."""
    number = int(digest("inject", name), 16)
    first = traits[number % len(traits)]
    others = [t for t in traits if t != first]
    number //= len(traits)
    second = [others[(number // SECOND) % len(others)]] if others and number % SECOND == 0 else []
    picked = [first, *second]
    sentences = [bank[(number // 7919) % len(bank)] for bank in (known[t][split] for t in picked)]
    return " ".join(sentences), picked, ["implicit"] * len(picked)
