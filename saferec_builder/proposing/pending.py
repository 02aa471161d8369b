"""Which traits are still to be asked about each text: after a change of the taxonomy, only those that changed."""

from collections.abc import Callable, Collection
from dataclasses import replace

import polars as pl

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables


def part_of(taxonomy: Taxonomy, slugs: Collection[str]) -> Taxonomy:
    """The taxonomy with these traits only; its digest depends on their wording."""
    if len(slugs) == len(taxonomy.traits):
        return taxonomy
    traits = tuple(t for t in taxonomy.traits if t.slug in slugs)
    return replace(taxonomy, traits=traits, digest=tables.digest("part", [t.wording for t in traits]))


def rows(taxonomy: Taxonomy) -> pl.DataFrame:
    """tables.ASKED rows of a taxonomy, or of a part of one."""
    return tables.ASKED.frame((taxonomy.digest, t.slug, t.wording) for t in taxonomy.traits)


def unread_part(
    taxonomy: Taxonomy, readings: pl.DataFrame, asked: pl.DataFrame
) -> Callable[[str, str], Taxonomy | None]:
    """Returns a function (subject, digest) -> the part of the taxonomy whose wording no reading of it had, or None.

    readings: those of one kind, proposer and version.
    """
    expected = {t.wording: t.slug for t in taxonomy.traits}
    wordings_of: dict[str, frozenset[str]] = {}
    for name, wording in asked.select("taxonomy", "wording").iter_rows():
        wordings_of[name] = wordings_of.get(name, frozenset()) | ({wording} & expected.keys())
    read: dict[tuple[str, str], frozenset[str]] = {}
    for subject, text, name in readings.select("subject", "digest", "taxonomy").iter_rows():
        read[subject, text] = read.get((subject, text), frozenset()) | wordings_of.get(name, frozenset())
    parts: dict[frozenset[str], Taxonomy | None] = {}

    def part(subject: str, text: str) -> Taxonomy | None:
        wordings = read.get((subject, text), frozenset())
        if wordings not in parts:
            slugs = [slug for wording, slug in expected.items() if wording not in wordings]
            parts[wordings] = part_of(taxonomy, slugs) if slugs else None
        return parts[wordings]

    return part
