"""Decides what the next proposer of a cascade reads: texts that one was unsure of, or on which two differ."""

from collections.abc import Collection, Sequence

import polars as pl

from saferec_builder.proposing import calibration, human_labels as ground_truth, prompting
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.proposers import Step
from saferec_builder.storage import tables

Who = tuple[str, str]  # proposer, version


def unsure(proposals: pl.DataFrame, band: tuple[float, float]) -> set[str]:
    """Subjects with a claim that is `unsure`, or whose confidence lies inside the band."""
    low, high = band
    doubt = (pl.col("verdict") == "unsure") | ((pl.col("confidence") > low) & (pl.col("confidence") < high))
    return set(proposals.filter(doubt)["subject"])


def disputed(proposals: pl.DataFrame, one: Who, other: Who) -> set[str]:
    """Subjects on which two proposers differ: one finds a trait present, and the other does not.

    If the rules find nothing, that is no opinion: they know few words.
    """
    present = proposals.filter(verdict="present")
    by_one, by_other = (
        set(present.filter(proposer=name, version=version).select("subject", "trait").iter_rows())
        for name, version in (one, other)
    )
    pairs = (by_one - by_other if other[0] != "rules" else set()) | (by_other - by_one if one[0] != "rules" else set())
    return {subject for subject, _ in pairs}


def escalated(
    subjects: Collection[str],
    proposals: pl.DataFrame,
    earlier: Sequence[Who],
    *,
    read: Collection[str],
    band: tuple[float, float],
    skip_silent: bool,
    foreign: Collection[str] = (),
) -> set[str]:
    """Of these subjects, those that the next proposer of a cascade reads after the `earlier` ones.

    After the rules: all, or with skip_silent those on which the rules have a proposal (none that they have yet to read)
    and the `foreign` ones, in a language that they do not read. After a model: of what it has `read`, what it is unsure
    of, and what it sees differently from an earlier one.
    """
    last = earlier[-1]
    claims = proposals.filter(proposer=last[0], version=last[1])
    if last[0] == "rules":
        return set(subjects) & {*claims["subject"], *foreign} if skip_silent else set(subjects)
    doubts = unsure(claims, band).union(*(disputed(proposals, last, other) for other in earlier[:-1]))
    return doubts & set(subjects) & set(read)  # what it has not read, it has no opinion on


# ---- in a workspace


def doubts(corpus: Corpus, earlier: Sequence[Step]) -> set[str]:
    """Subjects that the next proposer of a cascade reads after the `earlier` ones."""
    options = corpus.ws.config.propose
    versions = [(step.name, corpus.version(step)) for step in earlier]
    read = corpus.rows(tables.READINGS).filter(proposer=versions[-1][0], version=versions[-1][1])["subject"]
    return escalated(
        [s.subject for s in corpus.subjects],
        current(corpus),
        versions,
        read=set(read),
        band=options.uncertain,
        skip_silent=options.skip_silent,
        foreign=corpus.foreign,
    )


def current(corpus: Corpus) -> pl.DataFrame:
    """Proposals on the current texts and the current wording of traits, with calibrated confidence."""
    return calibrated(corpus, prompting.in_current_wording(corpus.rows(tables.PROPOSALS), corpus.taxonomy))


def calibrated(corpus: Corpus, proposals: pl.DataFrame) -> pl.DataFrame:
    """The proposals with confidence calibrated by people's labels, for each proposer and trait with enough of them."""
    truth = ground_truth.labels(corpus)
    if len(truth.present) + len(truth.absent) < calibration.ENOUGH:
        return proposals
    parts = []
    for _, rows in proposals.group_by("proposer", "version", maintain_order=True):
        claims = rows.filter(verdict="present").to_dicts()
        fits = calibration.fits([r for r in claims if truth.of((r["subject"], r["trait"])) is not None], truth)
        confidence = [
            fits[t].of(c) if v == "present" and t in fits else c
            for t, v, c in rows.select("trait", "verdict", "confidence").iter_rows()
        ]
        parts.append(rows.with_columns(pl.Series("confidence", confidence, dtype=pl.Float64)))
    return pl.concat(parts) if parts else proposals
