"""Withholds traits from combinations that few people share, in conversations whose texts stay with their source.

reads  labels, the seeker and the split of each conversation
gives  what is withheld of which conversation, so that its released traits are shared by k people or more of its split

Somebody who knows traits of a conversation then finds k people or more with them, even if they know source and split
from where and when it was written. Which conversations are of one person is not released. A withheld trait is not
absent: if one is withheld, every trait that is not released is `withheld`, and the conversation teaches nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from exports import build_rows, checks
from exports.checks import person, small_groups
from exports.manifest_types import Combinations

RARE = "a rare combination of traits"  # conversations that are too few even with all traits withheld
Combination = tuple[frozenset[str], bool]  # the traits that are released, and whether any is withheld


@dataclass(frozen=True)
class Hidden:
    """`reduced`: conversation with withheld traits -> the traits that are still released of it. `left_out`:
    conversations that are left out."""

    reduced: Mapping[str, frozenset[str]]
    left_out: frozenset[str]
    facts: Combinations

    @property
    def pairs(self) -> pl.DataFrame:
        """`reduced` as (subject, trait)."""
        pairs = [(name, trait) for name, traits in self.reduced.items() for trait in traits]
        return pl.DataFrame(pairs, {"subject": pl.String, "trait": pl.String}, orient="row")


def generalised(combinations: Mapping[str, Combination], people: Mapping[str, str], k: int) -> dict[str, Combination]:
    """Returns conversation -> released traits. Groups of equal traits have k people or more, but for the empty one.
    Greedy: takes the small group with most traits, and withholds the trait that joins it to the largest other group;
    among equals the rarest trait."""
    groups: dict[Combination, list[str]] = {}
    for name, key in sorted(combinations.items()):
        groups.setdefault(key, []).append(name)
    count = Counter(trait for traits, _ in combinations.values() for trait in traits)
    size = {key: _people(names, people) for key, names in groups.items()}
    while small := [key for key, n in size.items() if n < k and key[0]]:
        key = max(small, key=lambda key: (len(key[0]), sorted(key[0]), key[1]))
        smaller = [(key[0] - {trait}, True) for trait in sorted(key[0], key=lambda trait: (count[trait], trait))]
        target = max(smaller, key=lambda key: size.get(key, 0))  # the first of equals withholds the rarest trait
        groups.setdefault(target, []).extend(groups.pop(key))
        size = {other: n for other, n in size.items() if other != key} | {target: _people(groups[target], people)}
    return {name: key for key, names in groups.items() for name in names}


def _people(conversations: Iterable[str], people: Mapping[str, str]) -> int:
    return len({people[name] for name in conversations})


def hidden(known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int) -> Hidden:
    """Returns what is withheld of the conversations `kept` from the sources `silent`, by the labels `known` on `slugs`.
    A conversation at risk of another trait, which is withheld everywhere, teaches nothing, which tells it apart from
    others."""
    rows = kept.filter(pl.col("source").is_in(list(silent)))
    rows = rows.select("source", "split", subject="conversation", who=person(rows))
    open_ = pl.col("trait").is_in(list(slugs))
    has = known.filter((open_ & (pl.col("verdict") == "present")) | (~open_ & pl.col("at_risk"))).join(rows, "subject")
    by_subject = has.group_by("source", "split", "subject", "who").agg(
        traits=pl.col("trait").filter(open_).unique(), part=(~open_).any()
    )
    people = dict(by_subject.select("subject", "who").iter_rows())
    before, after, left_out = dict[str, Combination](), dict[str, Combination](), set[str]()
    for _, group in by_subject.group_by("source", "split", maintain_order=True):
        full = {name: (frozenset(t), part) for name, t, part in group.select("subject", "traits", "part").iter_rows()}
        reduced = generalised(full, people, k)
        empty = {name for name, traits in reduced.items() if not traits[0]}
        before |= full
        after |= reduced
        left_out |= empty if _people(empty, people) < k else set()
    lost = {name: len(before[name][0]) - len(traits[0]) for name, traits in after.items()}
    return Hidden(
        reduced={name: traits for name, (traits, part) in after.items() if part and name not in left_out},
        left_out=frozenset(left_out),
        facts={
            "k": k,
            "people": _people((name for name, traits in before.items() if traits[0]), people),
            "withheld_of": _people((name for name, n in lost.items() if n), people),
            "traits": sum(len(traits[0]) for traits in before.values()),
            "withheld": sum(lost.values()),
            "left_out": len(left_out),
        },
    )


def withheld(
    known: pl.DataFrame, kept: pl.DataFrame, silent: Sequence[str], slugs: Sequence[str], k: int
) -> tuple[dict[str, int], Hidden]:
    """Returns traits that are withheld of everybody -> how many people have them, and what is withheld besides.

    A conversation does not count for a trait that is withheld of it, nor if it is left out: among the others alone,
    whose texts are released, the trait may have fewer than k people. A trait without people then needs nothing more.
    """
    small = small_groups(known, kept, slugs, k)
    while True:  # each round releases fewer traits
        allowed = [slug for slug in slugs if slug not in small]
        rare = hidden(known, kept, silent, allowed, k)
        labels = known.filter(~pl.col("subject").is_in(list(rare.left_out)))
        complete = labels.filter(~pl.col("subject").is_in(list(rare.reduced)))
        partial = labels.join(rare.pairs, on=["subject", "trait"], how="semi")
        released = pl.concat([complete, partial])
        fewer = {trait: n for trait, n in small_groups(released, kept, allowed, k).items() if n}
        if not fewer:
            return small, rare
        small = {slug: (small | fewer)[slug] for slug in slugs if slug in small or slug in fewer}


def without(kept: pl.DataFrame, left_out: pl.DataFrame, rare: Hidden) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns the result of build_rows.ordered without the conversations that are left out."""
    is_left_out = pl.col("conversation").is_in(list(rare.left_out))
    dropped = kept.filter(is_left_out).select("conversation", "source", reason=pl.lit(RARE))
    return kept.filter(~is_left_out).drop("place").with_row_index("place"), pl.concat([left_out, dropped])


def released_rows(built: pl.DataFrame, rare: Hidden, keep: Collection[str], turns: checks.TurnsAt) -> pl.DataFrame:
    """Returns the rows of build_rows.build that a release has. Sources that `keep` their texts have no further
    requests, as their number would identify a text. A row teaches nothing if a trait is withheld, as what is safe is
    then unknown, or if its answer is in a train request."""
    rows = built.filter((pl.col("further") == 0) | ~pl.col("source").is_in(list(keep)))
    rows = build_rows.unlearned(rows, rows["conversation"].is_in(list(rare.reduced)), build_rows.WITHHELD)
    return checks.without_repeated_answers(rows, turns)


def labels(released: pl.DataFrame, rare: Hidden, slugs: Sequence[str]) -> pl.DataFrame:
    """Returns the labels with `withheld` for each of these traits that is not released of a conversation in
    rare.reduced, whether it has a label on the trait or not: else the presence of the row would disclose it."""
    is_partial = pl.col("subject").is_in(list(rare.reduced))
    stated = released.filter(is_partial, verdict="present").join(rare.pairs, on=["subject", "trait"], how="semi")
    conversations = released.filter(is_partial).unique("subject", maintain_order=True)
    all_pairs = conversations.drop("trait").join(pl.DataFrame({"trait": slugs}, {"trait": pl.String}), how="cross")
    rest = all_pairs.join(stated, on=["subject", "trait"], how="anti").with_columns(
        form=pl.lit(None, pl.String),
        verdict=pl.lit("withheld"),
        method=pl.lit("withheld"),
        spans=pl.lit([], released.schema["spans"]),
        reviews=pl.lit([], released.schema["reviews"]),
    )
    return pl.concat([released.filter(~is_partial), stated, rest.select(released.columns)]).sort("place", "trait")
