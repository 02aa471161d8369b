"""Combinations of traits that few people share, where texts stay with their source: fewer of their traits are told.

reads  labels, who each conversation is of, and in which split
gives  of which conversation what is withheld, so that all that is told of one is told of k people or more of its split

Whoever knows traits of a conversation finds those of k people or more with them, though source and split follow from
where and when it was written. Which conversations are of one person is not released. A trait that is withheld is not
absent: where one is withheld, every trait that is not told is `withheld`, and the conversation teaches nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from exports.build_rows import WITHHELD, unlearned as unlearned_rows
from exports.checks import small_groups
from exports.manifest_types import Combinations

RARE = "a rare combination of traits"  # conversations of which not even nothing could be told
_PAIR = {"subject": pl.String, "trait": pl.String}
Told = tuple[frozenset[str], bool]  # the traits that are told, and whether any is withheld


@dataclass(frozen=True)
class Hidden:
    """`told`: conversation -> the traits that are still told of it, of those of which some are withheld; `gone`:
    conversations that are left out."""

    told: Mapping[str, frozenset[str]]
    gone: frozenset[str]
    facts: Combinations


def generalised(known: Mapping[str, Told], people: Mapping[str, str], k: int) -> dict[str, Told]:
    """conversation -> what is told of it. Greedy: of a group that is too small the trait is withheld that joins it to
    the largest other one, the rarest first among equals; those with most traits first. Each is then of k people or
    more, but for those of which nothing is told."""
    groups: dict[Told, list[str]] = {}
    for one, told in sorted(known.items()):
        groups.setdefault(told, []).append(one)
    many = Counter(trait for of, _ in known.values() for trait in of)
    size = {told: _people(of, people) for told, of in groups.items()}
    while rare := [told for told, n in size.items() if n < k and told[0]]:
        told = max(rare, key=lambda told: (len(told[0]), sorted(told[0]), told[1]))
        less = [(told[0] - {trait}, True) for trait in sorted(told[0], key=lambda trait: (many[trait], trait))]
        to = max(less, key=lambda one: size.get(one, 0))  # the first of equals: the rarest trait goes
        groups.setdefault(to, []).extend(groups.pop(told))
        size = {one: n for one, n in size.items() if one != told} | {to: _people(groups[to], people)}
    return {one: told for told, of in groups.items() for one in of}


def _people(conversations: Iterable[str], people: Mapping[str, str]) -> int:
    return len({people[one] for one in conversations})


def hidden(known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int) -> Hidden:
    """Of the conversations `kept` from the sources `silent`, by the labels `known` on these traits, and by whether one
    is on another trait, which is withheld everywhere: such a conversation teaches nothing, and is seen by that. Without
    a known seeker a conversation is a person of its own."""
    rows = kept.filter(pl.col("source").is_in(list(silent)))
    rows = rows.select("source", "split", subject="conversation", who=pl.coalesce("seeker", "conversation"))
    shown = pl.col("trait").is_in(list(slugs))
    here = known.filter((shown & (pl.col("verdict") == "present")) | (~shown & pl.col("at_risk"))).join(rows, "subject")
    has = here.group_by("source", "split", "subject", "who").agg(
        traits=pl.col("trait").filter(shown).unique(), part=(~shown).any()
    )
    people = dict(has.select("subject", "who").iter_rows())
    before, found, gone = dict[str, Told](), dict[str, Told](), set[str]()
    for _, some in has.group_by("source", "split", maintain_order=True):
        theirs = {one: (frozenset(of), part) for one, of, part in some.select("subject", "traits", "part").iter_rows()}
        told = generalised(theirs, people, k)
        nothing = {one for one, of in told.items() if not of[0]}
        before, found, gone = before | theirs, found | told, gone | (nothing if _people(nothing, people) < k else set())
    lost = {one: len(before[one][0]) - len(told[0]) for one, told in found.items()}
    return Hidden(
        told={one: told for one, (told, part) in found.items() if part and one not in gone},
        gone=frozenset(gone),
        facts={
            "k": k,
            "people": _people((one for one, told in before.items() if told[0]), people),
            "withheld_of": _people((one for one, n in lost.items() if n), people),
            "traits": sum(len(told[0]) for told in before.values()),
            "withheld": sum(lost.values()),
            "left_out": len(gone),
        },
    )


def withheld(
    known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int
) -> tuple[dict[str, int], Hidden]:
    """(traits that are withheld of everybody -> how many people have them, what is withheld beside them).

    A conversation of which a trait is withheld does not count for it, nor one that is left out: of the others alone,
    whose texts are released, it may be told of fewer than k people. A trait that is then told of nobody needs no more.
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
