"""The review state of a workspace, read once: who was asked what, what they said, what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl

from annotation import (
    aggregation as stage,
    dealing,
    precision_bounds as precision,
    recall_bounds as bounds,
    reliability as ranking,
    routing as route,
)
from annotation.recall_bounds import Told
from saferec_builder import catalog
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.storage import spool as spilled, tables, workspace as store
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Desk:
    """Everything that review and adjudicate look at, read once; what was said only where somebody looks at it."""

    ws: Workspace
    taxonomy: Taxonomy
    known: pl.DataFrame  # TEXTS with null turns, but for the few that labels need
    whole: Callable[[], pl.DataFrame]
    proposals: pl.DataFrame
    assignments: pl.DataFrame
    reviews: pl.DataFrame
    labels: pl.DataFrame
    standing: pl.DataFrame  # each person's last word per unit, column `out` says why one does not count
    left_out: dict[str, int]
    votes: pl.DataFrame
    judged: pl.DataFrame  # labels as they would be now
    gold: pl.DataFrame
    decoys: pl.DataFrame
    auto: frozenset[tuple[str, str]]  # (conversation, trait) of sure proposals that nobody has to read
    withheld: dict[str, str]  # conversations that nobody is given, and why
    orders: frozenset[tuple[str, str]]  # (kind, subject) whose text gives orders to a model

    @property
    def texts(self) -> pl.DataFrame:
        """TEXTS with all that was said: read when it is asked for first, then held."""
        return self.whole()

    @property
    def given(self) -> pl.DataFrame:
        """TEXTS that may be handed out."""
        return withheld.without(self.texts, self.withheld)


def gather(folder: Path) -> Desk:
    ws = store.Workspace.open(folder)
    taxonomy = ws.taxonomy
    proposals, assignments, reviews, labels = (
        store.read(ws, t) for t in (tables.PROPOSALS, tables.ASSIGNMENTS, tables.REVIEWS, tables.LABELS)
    )
    proposals = proposals.filter(pl.col("trait").is_in(taxonomy.slugs))  # nobody is asked about a trait that left
    readings = store.read(ws, tables.READINGS)
    items = _items(ws, [readings, proposals, assignments, reviews])
    mined = spilled.narrow(ws)
    known = route.texts(mined.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"])), items)
    moved = reviews.join(known.filter("current"), on=["kind", "subject", "digest"], how="anti")["subject"]
    quoted = reviews.filter(stage.claims(), kind="sensitivity")["subject"]
    known = _with_turns(ws, known, pl.concat([moved, quoted]))  # of all others the digest says enough
    standing, left_out = stage.standing(reviews, known, taxonomy)
    held = withheld.reasons(ws, mined)
    votes = withheld.without(stage.votes(standing, taxonomy), held)
    judged = stage.adjudicate(votes, labels)
    auto: frozenset[tuple[str, str]] = frozenset()
    if least := ws.config.review.auto:
        sure = withheld.without(precision.sure(proposals, least), held)
        auto = precision.carried(sure, votes, judged, assignments)
        known = _with_turns(ws, known, pl.Series([subject for subject, _ in auto], dtype=pl.String))
        judged = stage.adjudicate(votes, labels, precision.labels(sure, auto, known))
    told = (proposals, assignments, reviews, labels, standing, left_out, votes, judged)
    whole = cache(lambda: route.texts(store.read(ws, tables.CONVERSATIONS), items))
    probed = (store.read(ws, tables.GOLD), store.read(ws, tables.DECOYS))
    return Desk(ws, taxonomy, known, whole, *told, *probed, auto, held, _orders(readings))


def _orders(readings: pl.DataFrame) -> frozenset[tuple[str, str]]:
    told = readings.filter(pl.col("orders").list.len() > 0) if "orders" in readings.columns else readings.clear()
    return frozenset(told.select("kind", "subject").iter_rows())


def known_gold(desk: Desk) -> frozenset[tuple[str, str]]:
    """(kind, subject) whose verdicts are known."""
    return frozenset(desk.gold.select("kind", "subject").iter_rows())


def _with_turns(ws: Workspace, known: pl.DataFrame, subjects: pl.Series) -> pl.DataFrame:
    """`known` with what was said in all revisions of these conversations."""
    said = spilled.turns(ws, subjects.unique()).unique(["subject", "digest"], keep="first")
    found = known.join(said, on=["subject", "digest"], how="left", suffix="_said", maintain_order="left")
    return found.with_columns(turns=pl.coalesce("turns", "turns_said")).drop("turns_said")


def queue(desk: Desk, share: float = 0.0) -> pl.DataFrame:
    """UNIT of what the adjudicator has to rule on: disputes, the closest first, and labels drawn to be rechecked."""
    told = ranking.rank(stage.by_reviewers(desk.votes))
    disputed = ranking.closest_first(stage.disputed(desk.judged), told)
    return pl.concat([disputed, precision.rechecks(desk.votes, desk.assignments, desk.auto, share)])


def told_bounds(desk: Desk) -> Told:
    """What the labels still miss at most, by the blind audit so far, and claim wrongly at most, by the rechecks."""
    slugs, pool = desk.taxonomy.slugs, withheld.without(desk.known, desk.withheld)
    plan = dealing.Plan(gold=known_gold(desk), orders=desk.orders, auto=desk.auto)
    claimed = frozenset(subject for kind, subject in route.called_for(desk.proposals, plan) if kind == "sensitivity")
    told = bounds.bounds(pool, desk.assignments, desk.judged, desk.gold, slugs, desk.auto, claimed)
    false, pooled = precision.false_shares(desk.votes, desk.assignments, desk.auto, slugs)
    return replace(told, false=false, false_pooled=pooled)


def _items(ws: Workspace, frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """The items that somebody or something has read; the catalog is merged only where there are any."""
    flags = [frame.filter(pl.col("kind") == "item_flag").select(item="subject") for frame in frames]
    read = pl.concat(flags).unique()
    if read.is_empty():
        return None
    items, _ = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    return items.join(read, on="item", how="semi", maintain_order="left")
