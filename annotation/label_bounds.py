"""What the labels miss and claim wrongly at most, by one state of the reviews: of a workspace now, or of a release.

reads  Reviewed
gives  LabelBounds; how everybody read what is known and was not suggested
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import polars as pl

from annotation import aggregation, controls, precision_bounds, recall_bounds, sampling_design as design
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.taxonomy import Taxonomy


@dataclass(frozen=True)
class Reviewed:
    """One state of the reviews; the tables below `auto` are all rows that there ever were."""

    taxonomy: Taxonomy
    readers: int
    current: Collection[str]  # conversations that may be given to somebody
    plots: Collection[str]  # items that are to be read
    judged: pl.DataFrame  # kind, subject, trait, verdict and method of labels as they stand
    standing: pl.DataFrame  # each person's last word (review_history.standing)
    votes: pl.DataFrame  # aggregation.votes, those on controls too
    auto: frozenset[tuple[str, str]]  # (conversation, trait) of labels that nobody has read
    labels: pl.DataFrame
    reviews: pl.DataFrame
    assignments: pl.DataFrame
    design: pl.DataFrame
    proposals: pl.DataFrame
    gold: pl.DataFrame
    decoys: pl.DataFrame
    erased: pl.DataFrame  # TOMBSTONES


def readings(of: Reviewed) -> pl.DataFrame:
    """How everybody read what is known and was not suggested (controls.readings)."""
    known = (of.judged, of.gold, of.proposals, of.decoys)
    return controls.readings(of.assignments, of.votes, *known, severe=of.taxonomy.severe, reviews=of.reviews)


def bounds(of: Reviewed) -> LabelBounds:
    """What the labels still miss at most, by the blind audit so far, and claim wrongly at most, by the rechecks; and
    what the flags of items miss, of those that somebody or something has read."""
    slugs = of.taxonomy.slugs
    said = design.said(of.judged, of.labels, of.reviews, of.current)
    blind = controls.blind_misses(readings(of), of.readers)
    drawn = (of.design, of.current, of.assignments, said, of.gold)
    found = recall_bounds.bounds(*drawn, slugs, auto=of.auto, blind=blind, gone=of.erased)
    voting, _ = controls.apart(of.votes, of.assignments)
    false, pooled = precision_bounds.false_shares(voting, of.assignments, of.auto, slugs, of.readers, of.reviews)
    flags = aggregation.plots(of.judged, of.standing, slugs, of.readers)
    items = recall_bounds.item_bounds(of.design, of.plots, of.assignments, flags, of.labels, of.reviews, slugs)
    return replace(found, false=false, false_pooled=pooled, items=items)
