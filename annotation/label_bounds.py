"""Bounds what the labels miss and claim wrongly, from one state of the reviews: a workspace's, or a release's.

reads  Reviewed
gives  LabelBounds; the readings of units with a known answer that were not suggested
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import polars as pl

from annotation import aggregation, controls, precision_bounds, recall_bounds, sampling_design
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import GOLD


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """One state of the reviews; the tables below `auto` hold all rows ever written."""

    taxonomy: Taxonomy
    readers: int
    current: Collection[str]  # conversations that may be assigned
    plots: Collection[str]  # items to read
    judged: pl.DataFrame  # kind, subject, trait, verdict and method of the current labels
    standing: pl.DataFrame  # each person's last review per unit; column `out`: the reason why it does not count
    all_votes: pl.DataFrame  # aggregation.votes, including those on blind controls, which make no labels
    auto: frozenset[tuple[str, str]]  # (conversation, trait) of labels that nobody has read
    labels: pl.DataFrame
    reviews: pl.DataFrame
    assignments: pl.DataFrame
    design: pl.DataFrame
    ever: pl.DataFrame  # all proposals ever made: a reviewer may have seen an old one
    gold: pl.DataFrame
    decoys: pl.DataFrame
    erased: pl.DataFrame  # TOMBSTONES


def readings(data: Reviewed) -> pl.DataFrame:
    """How reviewers read units with a known answer that were not suggested (controls.readings)."""
    facts = (data.assignments, data.all_votes, data.judged, data.gold, data.ever, data.decoys)
    return controls.readings(*facts, severe=data.taxonomy.severe, reviews=data.reviews)


def bounds(data: Reviewed) -> LabelBounds:
    """What the labels still miss at most, by the blind audit so far, and claim wrongly at most, by the rechecks; and
    what the flags miss of the items that a person or a proposer has read."""
    slugs = data.taxonomy.slugs
    verdicts = sampling_design.ever_judged(data.judged, data.labels, data.reviews, data.current)
    blind = controls.blind_misses(readings(data), data.readers)
    drawn = (data.design, data.current, data.assignments, verdicts, data.gold)
    ever_auto = frozenset(data.labels.filter(method="auto")["subject"])
    misses = recall_bounds.bounds(*drawn, slugs, auto=data.auto, ever_auto=ever_auto, blind=blind, gone=data.erased)
    voting = controls.label_votes(data.all_votes, data.assignments)
    false, pooled = precision_bounds.false_shares(
        voting, data.assignments, data.auto, slugs, data.readers, data.reviews
    )
    return replace(misses, false=false, false_pooled=pooled, items=_of_flags(data) if data.plots else None)


def _of_flags(data: Reviewed) -> LabelBounds:
    """The bounds on unsafe-item flags: relative to what the readers of a plot, and the adjudicator, would flag."""
    flags = aggregation.plots(data.judged, data.standing, data.taxonomy.slugs, data.readers)
    labels, reviews = (frame.filter(kind="item_flag") for frame in (data.labels, data.reviews))
    verdicts = sampling_design.ever_judged(flags, labels, reviews, data.plots)
    drawn = (data.design, data.plots, data.assignments, verdicts, GOLD.empty)
    return recall_bounds.bounds(*drawn, data.taxonomy.slugs, kind="item_flag")
