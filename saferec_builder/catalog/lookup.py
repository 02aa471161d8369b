"""Looks up what a workspace's catalog says about an item and why, what is missing, and which rows were merged."""

from dataclasses import dataclass

import polars as pl

from saferec_builder.catalog import explain, known_works, linking, merging
from saferec_builder.catalog.explain import Explained, Verdict
from saferec_builder.catalog.gaps import gaps as ranked, mentioned, uses
from saferec_builder.core.errors import UsageError, near
from saferec_builder.sources import DOMAINS
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace


def check(ws: Workspace, title: str, trait: str, *, domain: str | None = None) -> Verdict:
    """Does the item called "Title (Year)" break this trait (a slug)? `domain` distinguishes a film and a game of one
    title. An id as in `show` works, too.

    A title that the catalog lacks, or has twice, is unknown. Raises UsageError for an unknown trait or domain, or an
    empty catalog.
    """
    known_domain(domain)
    trait_, (items, links) = ws.taxonomy[trait], merged(ws)
    warnings = workspace.read(ws, tables.WARNINGS)
    return explain.judged(title, domain, trait_, items, links, warnings, rule=ws.config.rule)


def show(ws: Workspace, item: str, *, domain: str | None = None) -> Explained:
    """Everything known about one item ("Title (Year)", a ref such as imdb:tt0078748, tt0078748, an item id).

    Raises UsageError if the catalog lacks it, or has several that could be meant, or for an unknown domain.
    """
    known_domain(domain)
    items, links = merged(ws)
    by_title = linking.index(items)
    match = explain.resolved(item, domain, items, links, by_title)
    if match.item is None:
        similar = match.candidates or explain.alike(item, items)
        options = explain.candidates(similar, items).to_dicts()
        listed = "; ".join(f"{c['title']} [{c['domain']}] {c['ref']}" for c in options)
        details = f": {listed}; say which by its id" if match.candidates else ": the catalog does not hold it"
        details += f"; did you mean {listed}?" if listed and not match.candidates else ""
        raise UsageError(f"{item!r} is {match.match.replace('_', ' ')}{details}")
    warnings = workspace.read(ws, tables.WARNINGS)
    return explain.explained(match.item, items, links, warnings, ws.taxonomy, ws.config.rule, by_title=by_title)


def known_domain(domain: str | None) -> None:
    """Raises UsageError for an unknown domain, in which no item could be found."""
    if domain is not None and domain not in DOMAINS:
        raise UsageError(f"domain {domain!r}: {near(domain, DOMAINS)}")


def merged(ws: Workspace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(items, links) of merging.merge; raises UsageError for an empty catalog."""
    rows = workspace.read(ws, tables.CATALOG_ROWS)
    if rows.is_empty():
        raise UsageError(f"{ws.place}: the catalog is empty: run `saferec-build catalog add SOURCE PATH` first")
    return merging.merge(rows)


@dataclass(frozen=True)
class Gaps:
    """items: gaps.GAPS, highest `waiting` first; unlinked: (conversation, ref) of refs that match no single item."""

    items: pl.DataFrame
    unlinked: pl.DataFrame
    redial: bool = False  # ids of ReDial are among the unlinked, and none of its films was added


def gaps(ws: Workspace) -> Gaps:
    """The missing warnings that touch the most conversations: what to fetch or to review next.

    A seeker is sensitive to what labels say; if none is settled, to what a proposal or one of its readers says. Raises
    UsageError if no conversation was mined yet.
    """
    conversations = tables.last(workspace.read(ws, tables.CONVERSATIONS), "conversation")
    if conversations.is_empty():
        raise UsageError(f"{ws.place}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    rows = workspace.read(ws, tables.CATALOG_ROWS)
    items, links = merging.merge(rows)
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    refs, undated = texts_on_disk.refs(conversations, "conversation"), ws.config.release.titles == "any"
    linked, mentions = linking.finders(refs["ref"], items, links, judged.works, undated=undated)
    used = pl.concat([uses(refs, linked), mentioned(conversations, mentions)]).unique(maintain_order=True)
    unlinked = refs.filter(~pl.col("ref").is_in(list(linked)))
    redial = bool(unlinked["ref"].str.starts_with("redial:").any()) and not (rows["source"] == "redial").any()
    return Gaps(ranked(items, judged.oracle, used, _sensitive(ws, conversations)), unlinked, redial)


def _sensitive(ws: Workspace, conversations: pl.DataFrame) -> pl.DataFrame:
    """(conversation, trait) of traits that seekers are sensitive to, or may be, by claims on these texts."""
    labels = tables.last(workspace.read(ws, tables.LABELS), *tables.UNIT)
    settled, unresolved = (labels.filter(pl.col("verdict").is_null() == unsettled) for unsettled in (False, True))
    current = conversations.select("digest", subject="conversation")
    proposals = workspace.read(ws, tables.PROPOSALS).join(current, on=["subject", "digest"], maintain_order="left")
    proposals = tables.last_claims(proposals).join(settled, tables.UNIT, how="anti")
    review_ids = unresolved.select("reviews").explode("reviews")  # a half-read audit leaves most traits without any
    reviews = workspace.read(ws, tables.REVIEWS).join(review_ids, left_on="review", right_on="reviews", how="semi")
    claims = pl.concat([frame.select(*tables.UNIT, "verdict") for frame in (settled, proposals, reviews)])
    present = claims.filter(pl.col("kind") == "sensitivity", pl.col("verdict").is_in(["present", "unsure"]))
    return present.select("trait", conversation="subject").unique()


@dataclass(frozen=True)
class Merges:
    """Rows of merging.MERGES: those that became part of another source's item, and ids that two items claim."""

    joined: pl.DataFrame
    conflicts: pl.DataFrame


def merges(ws: Workspace) -> Merges:
    """Every row of a source that became part of another source's item, and the id or title that joined them; first
    those whose titles share no word."""
    rows = merging.merges(workspace.read(ws, tables.CATALOG_ROWS)).sort("unlike", descending=True, maintain_order=True)
    is_conflict = pl.col("by") == merging.ID_CONFLICT
    return Merges(rows.filter(~is_conflict), rows.filter(is_conflict))
