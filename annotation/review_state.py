"""The review state of a workspace, read once: who was asked what, what they said, what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import polars as pl

from annotation import (
    aggregation,
    controls,
    gold_and_decoys as quality_checks,
    label_bounds as bounding,
    precision_bounds as precision,
    rejections,
    reliability,
    reported_texts,
    review_history,
    routing,
    standing_claims,
)
from annotation.recall_bounds import LabelBounds
from annotation.task_assignment import BLIND, HELD_BACK, claims
from saferec_builder import catalog
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, texts_on_disk as spool, workspace
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class ReviewState:
    """Everything that review and adjudicate look at, read once; the texts only where somebody looks at them."""

    ws: Workspace
    taxonomy: Taxonomy
    known: pl.DataFrame  # TEXTS with null turns, but for the few that labels need
    whole: Callable[[], pl.DataFrame]
    proposals: pl.DataFrame  # those that stand now (standing_claims.py)
    ever: pl.DataFrame  # all that there ever were: who was shown one was shown it
    sure: pl.DataFrame  # of those that stand, what may become a label without a reader
    assignments: pl.DataFrame
    design: pl.DataFrame
    erased: pl.DataFrame  # TOMBSTONES
    reviews: pl.DataFrame
    labels: pl.DataFrame
    standing: pl.DataFrame  # each person's last word per unit, column `out` says why one does not count
    left_out: dict[str, int]
    votes: pl.DataFrame  # those that make labels
    judged: pl.DataFrame  # labels as they would be now
    gold: pl.DataFrame
    decoys: pl.DataFrame
    auto: frozenset[tuple[str, str]]  # (conversation, trait) of sure proposals that nobody has to read
    withheld: dict[str, str]  # conversations that nobody is given, and why
    orders: frozenset[tuple[str, str]]  # (kind, subject) whose text gives orders to a model
    control_votes: pl.DataFrame  # on blind controls: they make no labels

    @property
    def texts(self) -> pl.DataFrame:
        """TEXTS with all turns: read when it is asked for first, then held."""
        return self.whole()

    @cached_property
    def disputed(self) -> pl.DataFrame:
        """UNIT of what waits for an adjudicator."""
        return aggregation.disputed(self.votes, self.ws.config.review.readers)

    @property
    def given(self) -> pl.DataFrame:
        """TEXTS that may be assigned."""
        return withheld.without(self.texts, self.withheld)


def gather(ws: Workspace) -> ReviewState:
    """Reads it. A caller who goes on to append holds its lock since before."""
    taxonomy, read = ws.taxonomy, partial(workspace.read, ws)
    assignments, design, labels = read(tables.ASSIGNMENTS), read(tables.DESIGN), read(tables.LABELS)
    reviews, readings = read(tables.REVIEWS), read(tables.READINGS)
    proposals = read(tables.PROPOSALS)
    proposals = proposals.filter(pl.col("trait").is_in(taxonomy.slugs))  # nobody is asked about a trait that left
    items = _items(ws, [readings, proposals, assignments, reviews])
    mined = spool.narrow(ws)
    known = routing.texts(mined.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"])), items)
    now, asked = known.filter("current"), read(tables.ASKED)
    ever, proposals = proposals, standing_claims.standing(proposals, now, assignments, readings, asked, taxonomy)
    moved = reviews.join(now, on=["kind", "subject", "digest"], how="anti")["subject"]
    quoted = reviews.filter(review_history.claims(), kind="sensitivity")["subject"]
    known = _with_turns(ws, known, pl.concat([moved, quoted]))  # of all others the digest says enough
    standing, left_out = review_history.standing(reviews, known, taxonomy)
    said = review_history.spelled(standing, asked, taxonomy)
    held = withheld.reasons(ws, mined)
    votes, on_controls = controls.apart(withheld.without(aggregation.votes(said, taxonomy), held), assignments)
    readers = ws.config.review.readers
    judged = aggregation.adjudicate(votes, labels, readers=readers)
    auto: frozenset[tuple[str, str]] = frozenset()
    sure = proposals.clear()
    if least := ws.config.review.auto:
        sure = withheld.without(standing_claims.sure(proposals, now, taxonomy, least), held)
        auto = precision.carried(sure, votes, judged, assignments, design)
        known = _with_turns(ws, known, pl.Series([subject for subject, _ in auto], dtype=pl.String))
        judged = aggregation.adjudicate(votes, labels, precision.labels(sure, auto, known), readers=readers)
    return ReviewState(
        ws=ws,
        taxonomy=taxonomy,
        known=known,
        whole=cache(lambda: routing.texts(read(tables.CONVERSATIONS), items)),
        proposals=proposals,
        ever=ever,
        sure=sure,
        assignments=assignments,
        design=design,
        erased=read(tables.TOMBSTONES),
        reviews=reviews,
        labels=labels,
        standing=standing,
        left_out=left_out,
        votes=votes,
        judged=judged,
        gold=read(tables.GOLD),
        decoys=read(tables.DECOYS),
        auto=auto,
        withheld=held,
        orders=frozenset(readings.filter(pl.col("orders").list.len() > 0).select("kind", "subject").iter_rows()),
        control_votes=on_controls,
    )


def _with_turns(ws: Workspace, known: pl.DataFrame, subjects: pl.Series) -> pl.DataFrame:
    """`known` with the turns of all revisions of these conversations."""
    turns = spool.turns(ws, subjects.unique()).unique(["subject", "digest"], keep="first")
    found = known.join(turns, on=["subject", "digest"], how="left", suffix="_read", maintain_order="left")
    return found.with_columns(turns=pl.coalesce("turns", "turns_read")).drop("turns_read")


def queue(desk: ReviewState, share: float = 0.0) -> pl.DataFrame:
    """UNIT of what the adjudicator has to rule on: disputes, the closest first, and labels drawn to be rechecked."""
    disputed = desk.disputed
    if disputed.height > 1:
        disputed = reliability.closest_first(disputed, reliability.rank(aggregation.by_reviewers(desk.votes)))
    readers = desk.ws.config.review.readers
    return pl.concat([disputed, precision.rechecks(desk.votes, desk.assignments, desk.auto, share, readers)])


def found_units(desk: ReviewState) -> pl.DataFrame:
    """UNIT of all that somebody or something found in a text."""
    return routing.found_units(desk.ever, desk.standing, desk.gold)


def still_open(
    desk: ReviewState,
    assignments: pl.DataFrame,
    due: pl.DataFrame,
    avoid: frozenset[tuple[str, str]],
    planted: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """What every open task shows now (routing.UNITS, `rejected`: rejections.attach, and `hard`: whether something
    severe is known of it), without the tasks that are revoked; `planted` are new decoys."""
    opinions = aggregation.opinions(desk.votes, due)
    back = routing.revoked(assignments, found_units(desk), due, desk.standing, avoid)
    given = assignments.join(back, on=["kind", "subject", "reviewer"], how="anti", maintain_order="left")
    shown = quality_checks.shown(desk.decoys if planted is None else pl.concat([desk.decoys, planted]))
    avoided = pl.DataFrame(sorted(avoid), schema={"reviewer": pl.String, "trait": pl.String}, orient="row")
    shown = shown.join(avoided, on=["reviewer", "trait"], how="anti", maintain_order="left")
    units = routing.units(given, desk.given, desk.proposals, desk.standing, opinions, shown)
    units = units.filter(pl.col("trait").is_in([*desk.taxonomy.slugs, "*"]))  # some that left have reviews
    return rejections.attach(_warned(desk, units), workspace.read(desk.ws, tables.REJECTED))


def _warned(desk: ReviewState, units: pl.DataFrame) -> pl.DataFrame:
    """With `hard`: whether gold holds something severe there, or a claim that an earlier version held back, or
    whose quote has left the text. Its reader is shown no trait, so the warning names none."""
    known, severe = ["kind", "subject"], pl.col("trait").is_in(desk.taxonomy.severe)
    gold = desk.gold.select(*known, trait="traits").explode("trait", empty_as_null=False).filter(severe).select(known)
    told = units.filter(~pl.col("why").is_in(BLIND) | (pl.col("why") == HELD_BACK))
    held = told.join(claims(desk.proposals).filter(severe), on=known, how="semi").select(known)
    hard = pl.concat([gold, held]).unique().with_columns(hard=pl.lit(True))
    return units.join(hard, on=known, how="left", maintain_order="left").with_columns(pl.col("hard").fill_null(False))


def open_units(desk: ReviewState, avoid: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """`still_open` of all that was assigned, without a look at the texts: quotes are left out."""
    return still_open(replace(desk, whole=lambda: desk.known), desk.assignments, queue(desk), avoid)


def undone(desk: ReviewState) -> list[str]:
    """aggregation.undone of what may be read: that whoever asks to be removed loses their labels is no alarm."""
    return aggregation.undone(withheld.without(desk.labels, desk.withheld), desk.judged)


def reported(desk: ReviewState) -> list[str]:
    """The conversations whose readers reported personal data (reported_texts.reported)."""
    now = withheld.without(desk.known.filter("current", kind="sensitivity"), desk.withheld)
    return reported_texts.reported(desk.reviews, now)


def blind_readings(desk: ReviewState) -> pl.DataFrame:
    """label_bounds.readings of it."""
    return bounding.readings(_reviewed(desk))


def label_bounds(desk: ReviewState) -> LabelBounds:
    """label_bounds.bounds of it."""
    return bounding.bounds(_reviewed(desk))


def _reviewed(desk: ReviewState) -> bounding.Reviewed:
    current = withheld.without(desk.known.filter("current"), desk.withheld)
    return bounding.Reviewed(
        taxonomy=desk.taxonomy,
        readers=desk.ws.config.review.readers,
        current=current.filter(kind="sensitivity")["subject"].to_list(),
        plots=current.filter(kind="item_flag")["subject"].to_list(),
        judged=desk.judged,
        standing=desk.standing,
        votes=pl.concat([desk.votes, desk.control_votes]),
        auto=desk.auto,
        labels=desk.labels,
        reviews=desk.reviews,
        assignments=desk.assignments,
        design=desk.design,
        proposals=desk.ever,
        gold=desk.gold,
        decoys=desk.decoys,
        erased=desk.erased,
    )


def _items(ws: Workspace, frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """The items that somebody or something has read; the catalog is merged only where there are any."""
    flags = [frame.filter(pl.col("kind") == "item_flag").select(item="subject") for frame in frames]
    read = pl.concat(flags).unique()
    if read.is_empty():
        return None
    items, _ = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    return items.join(read, on="item", how="semi", maintain_order="left")
