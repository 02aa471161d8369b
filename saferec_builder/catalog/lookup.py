"""Looks up what a workspace's catalog says of an item and why, what it does not know, and which rows were merged."""

from dataclasses import dataclass

import polars as pl

from saferec_builder.catalog import explain, known_works, linking, merging
from saferec_builder.catalog.explain import Explained, Verdict
from saferec_builder.catalog.gaps import gaps as ranked, said, uses
from saferec_builder.core.errors import UsageError, near
from saferec_builder.sources import DOMAINS
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace


def check(ws: Workspace, title: str, trait: str, *, domain: str | None = None) -> Verdict:
    """Does the item called "Title (Year)" break this trait (a slug)? `domain` tells a film and a game of one title.
    An id as `show` takes it will do, too.

    A title that the catalog does not hold, or holds twice, is unknown. UsageError: no such trait or domain; an empty
    catalog.
    """
    known_domain(domain)
    asked, (items, links) = ws.taxonomy[trait], _merged(ws)
    warnings = workspace.read(ws, tables.WARNINGS)
    return explain.judged(title, domain, asked, items, links, warnings, rule=ws.config.rule)


def show(ws: Workspace, item: str, *, domain: str | None = None) -> Explained:
    """All that is known of one item ("Title (Year)", a ref such as imdb:tt0078748, tt0078748, an item id).

    UsageError: the catalog does not hold it, or several that could be meant; no such domain.
    """
    known_domain(domain)
    items, links = _merged(ws)
    by_title = linking.index(items)
    match = explain.resolved(item, domain, items, links, by_title)
    if match.item is None:
        near = match.candidates or explain.alike(item, items)
        like = explain.candidates(near, items).to_dicts()
        which = "; ".join(f"{c['title']} [{c['domain']}] {c['ref']}" for c in like)
        more = f": {which}; say which by its id" if match.candidates else ": the catalog does not hold it"
        more += f"; did you mean {which}?" if which and not match.candidates else ""
        raise UsageError(f"{item!r} is {match.match.replace('_', ' ')}{more}")
    warnings = workspace.read(ws, tables.WARNINGS)
    return explain.explained(match.item, items, links, warnings, ws.taxonomy, ws.config.rule, by_title)


def known_domain(domain: str | None) -> None:
    """UsageError where there is none that is called so: no item would be found in it."""
    if domain is not None and domain not in DOMAINS:
        raise UsageError(f"domain {domain!r}: {near(domain, DOMAINS)}")


def _merged(ws: Workspace) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = workspace.read(ws, tables.CATALOG_ROWS)
    if rows.is_empty():
        raise UsageError(f"{ws.root}: the catalog is empty: run `saferec-build catalog add SOURCE PATH` first")
    return merging.merge(rows)


@dataclass(frozen=True)
class Gaps:
    """items: gaps.GAPS, most waiting first; unlinked: (conversation, ref) of what is no one item of the catalog."""

    items: pl.DataFrame
    unlinked: pl.DataFrame
    redial: bool = False  # ids of ReDial are among these


def gaps(ws: Workspace) -> Gaps:
    """Which missing warnings touch the most conversations: what to fetch or to review next.

    A seeker is sensitive to what labels say; where none is settled, to what a proposal or one of its readers says.
    UsageError: no conversation was mined yet.
    """
    conversations = tables.last(workspace.read(ws, tables.CONVERSATIONS), "conversation")
    if conversations.is_empty():
        raise UsageError(f"{ws.root}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    items, links = merging.merge(workspace.read(ws, tables.CATALOG_ROWS))
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    named, undated = texts_on_disk.refs(conversations, "conversation"), ws.config.release.titles == "any"
    linked, mentions = linking.finders(named["ref"], items, links, judged.works, undated=undated)
    used = pl.concat([uses(named, linked), said(conversations, mentions)]).unique(maintain_order=True)
    unlinked = named.filter(~pl.col("ref").is_in(list(linked)))
    redial = bool(unlinked["ref"].str.starts_with("redial:").any())
    return Gaps(ranked(items, judged.oracle, used, _sensitive(ws, conversations)), unlinked, redial)


def _sensitive(ws: Workspace, conversations: pl.DataFrame) -> pl.DataFrame:
    """(conversation, trait) of what seekers are sensitive to, or may be, by claims on these texts."""
    labels = tables.last(workspace.read(ws, tables.LABELS), *tables.UNIT)
    settled, open_ = (labels.filter(pl.col("verdict").is_null() == unsettled) for unsettled in (False, True))
    now = conversations.select("digest", subject="conversation")
    proposals = workspace.read(ws, tables.PROPOSALS).join(now, on=["subject", "digest"], maintain_order="left")
    proposals = tables.last_claims(proposals).join(settled, tables.UNIT, how="anti")
    heard = open_.select("reviews").explode("reviews")  # of half-read audits most traits are open, and nobody's word
    reviews = workspace.read(ws, tables.REVIEWS).join(heard, left_on="review", right_on="reviews", how="semi")
    claims = pl.concat([frame.select(*tables.UNIT, "verdict") for frame in (settled, proposals, reviews)])
    asked = claims.filter(pl.col("kind") == "sensitivity", pl.col("verdict").is_in(["present", "unsure"]))
    return asked.select("trait", conversation="subject").unique()


@dataclass(frozen=True)
class Merges:
    """Rows of merging.MERGES: those that became part of another source's item, and ids that two items claim."""

    joined: pl.DataFrame
    conflicts: pl.DataFrame


def merges(ws: Workspace) -> Merges:
    """Every row of a source that became part of another source's item, and by which id or title."""
    found = merging.merges(workspace.read(ws, tables.CATALOG_ROWS))
    clash = pl.col("by") == merging.ID_CONFLICT
    return Merges(found.filter(~clash), found.filter(clash))
