"""Combinations of traits that few people share, where texts stay with their source: fewer of their traits are told.

reads  labels, who each conversation is of
gives  of whom what is withheld, so that all that is told of anybody is told of k people or more

Whoever knows a person's traits finds no fewer than k of them. A trait that is withheld is not absent: of somebody of
whom one is withheld, every trait that is not told is `withheld`, and their conversations teach nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from exports.build_rows import WITHHELD, unlearned as unlearned_rows
from exports.checks import small_groups
from exports.manifest_types import Combinations

RARE = "a rare combination of traits"  # of people of whom not even nothing could be told
_PAIR = {"subject": pl.String, "trait": pl.String}
Told = tuple[frozenset[str], bool]  # the traits that are told, and whether any is withheld


@dataclass(frozen=True)
class Hidden:
    """`told`: conversation -> the traits that are still told of it, of people of whom some are withheld; `gone`:
    conversations that are left out."""

    told: Mapping[str, frozenset[str]]
    gone: frozenset[str]
    facts: Combinations


def generalised(traits: Mapping[str, frozenset[str]], k: int) -> dict[str, Told]:
    """person -> what is told of them. Greedy: of a group that is too small the trait is withheld that joins it to the
    largest other one, the rarest first among equals; those with most traits first. Of k people or more each, but for
    those of whom nothing is told."""
    groups: dict[Told, list[str]] = {}
    for who, of in sorted(traits.items()):
        groups.setdefault((of, False), []).append(who)
    many = {trait: sum(trait in of for of in traits.values()) for trait in frozenset().union(*traits.values())}
    while rare := [told for told, of in groups.items() if len(of) < k and told[0]]:
        told = max(rare, key=lambda told: (len(told[0]), sorted(told[0]), told[1]))
        less = [(told[0] - {trait}, True) for trait in sorted(told[0], key=lambda trait: (many[trait], trait))]
        to = max(less, key=lambda one: len(groups.get(one, ())))  # the first of equals: the rarest trait goes
        groups.setdefault(to, []).extend(groups.pop(told))
    return {who: told for told, of in groups.items() for who in of}


def hidden(known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int) -> Hidden:
    """Of the conversations `kept` from the sources `silent`, by the labels `known` on these traits; without a known
    seeker a conversation is a person of its own."""
    rows = kept.filter(pl.col("source").is_in(list(silent)))
    people = rows.select(subject="conversation", who=pl.coalesce("seeker", "conversation"))
    present = known.filter(pl.col("trait").is_in(list(slugs)), verdict="present").join(people, on="subject")
    of = dict(present.group_by("who").agg(pl.col("trait").unique()).iter_rows())
    traits = {who: frozenset(some) for who, some in of.items()}
    found = generalised(traits, k)
    nothing = {who for who, told in found.items() if not told[0]}
    alone = nothing if len(nothing) < k else set[str]()
    each = list(people.iter_rows())
    return Hidden(
        told={one: found[who][0] for one, who in each if who in found and found[who][1] and who not in alone},
        gone=frozenset(one for one, who in each if who in alone),
        facts={
            "k": k,
            "people": len(traits),
            "withheld_of": sum(told[1] for told in found.values()),
            "traits": sum(map(len, traits.values())),
            "withheld": sum(len(traits[who]) - len(told[0]) for who, told in found.items()),
            "left_out": len(alone),
        },
    )


def withheld(
    known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int
) -> tuple[dict[str, int], Hidden]:
    """(traits that are withheld of everybody -> how many people have them, what is withheld beside them).

    Whoever a trait is withheld of does not count for it, nor who is left out: of the others alone, whose texts are
    released, it may be told of fewer than k. A trait that is then told of nobody needs no more.
    """
    small = small_groups(known, kept, slugs, k)
    while True:  # each round tells of fewer traits
        shown = [slug for slug in slugs if slug not in small]
        rare = hidden(known, kept, silent, shown, k)
        here = known.filter(~pl.col("subject").is_in(list(rare.gone)))
        whole = here.filter(~pl.col("subject").is_in(list(rare.told)))
        pairs = [(one, trait) for one, traits in rare.told.items() for trait in traits]
        part = here.join(pl.DataFrame(pairs, _PAIR, orient="row"), on=["subject", "trait"], how="semi")
        told = pl.concat([whole, part])
        fewer = {trait: n for trait, n in small_groups(told, kept, shown, k).items() if n}
        if not fewer:
            return small, rare
        small = {slug: (small | fewer)[slug] for slug in slugs if slug in small or slug in fewer}


def without(kept: pl.DataFrame, left_out: pl.DataFrame, of: Hidden) -> tuple[pl.DataFrame, pl.DataFrame]:
    """build_rows.ordered without those who are gone."""
    here = pl.col("conversation").is_in(list(of.gone))
    left = kept.filter(here).select("conversation", "source", reason=pl.lit(RARE))
    return kept.filter(~here).drop("place").with_row_index("place"), pl.concat([left_out, left])


def unlearned(built: pl.DataFrame, of: Hidden) -> pl.DataFrame:
    """Rows of build_rows.build: of whom something is withheld nobody can tell what is safe, so they teach nothing."""
    return unlearned_rows(built, built["conversation"].is_in(list(of.told)), WITHHELD)


def labels(released: pl.DataFrame, of: Hidden, slugs: Sequence[str]) -> pl.DataFrame:
    """The labels with `withheld` on every one of these traits that is not told of somebody, in each of their
    conversations with a label, whether there is a label on the trait or none: else its row would tell."""
    told = pl.Series([one in of.told for one in released["subject"]], dtype=pl.Boolean)
    pairs = zip(released["subject"], released["trait"], released["verdict"], strict=True)
    said = pl.Series([v == "present" and t in of.told.get(s, ()) for s, t, v in pairs], dtype=pl.Boolean)
    heads = released.filter(told).unique("subject", maintain_order=True)
    every = heads.drop("trait").join(pl.DataFrame({"trait": slugs}, {"trait": pl.String}), how="cross")
    rest = every.join(released.filter(said), on=["subject", "trait"], how="anti").with_columns(
        form=pl.lit(None, pl.String),
        verdict=pl.lit("withheld"),
        method=pl.lit("withheld"),
        spans=pl.lit([], released.schema["spans"]),
        reviews=pl.lit([], released.schema["reviews"]),
    )
    return pl.concat([released.filter(~told | said), rest.select(released.columns)]).sort("place", "trait")
