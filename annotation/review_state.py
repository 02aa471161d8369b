"""The review state of a workspace, read at one moment: assignments, reviews, and the labels that follow from them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import polars as pl

from annotation import (
    aggregation,
    controls,
    gold_and_decoys,
    precision_bounds as precision,
    rejections,
    reported_texts,
    review_history,
    routing,
    standing_claims,
)
from annotation.label_bounds import Reviewed
from annotation.task_assignment import BLIND, HELD_BACK, claims
from saferec_builder import catalog
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class ReviewState(Reviewed):
    """Everything that `review` and `adjudicate` look at, read once; the turns of the texts are read on first use."""

    ws: Workspace
    known: pl.DataFrame  # TEXTS; turns are null, except in the few texts that labels need
    whole: Callable[[], pl.DataFrame]  # reads TEXTS with all turns
    proposals: pl.DataFrame  # those that apply now (standing_claims.py)
    sure: pl.DataFrame  # those of `proposals` that may become labels without a reader
    left_out: dict[str, int]  # reason why a review does not count -> number of reviews
    votes: pl.DataFrame  # the votes that make labels
    withheld: dict[str, str]  # conversation that nobody may be given -> reason
    orders: frozenset[tuple[str, str]]  # (kind, subject) of texts that give orders to a model

    @property
    def texts(self) -> pl.DataFrame:
        """TEXTS with all turns; read on first use, then cached."""
        return self.whole()

    @cached_property
    def disputed(self) -> pl.DataFrame:
        """UNIT of the units that wait for an adjudicator."""
        return aggregation.disputed(self.votes, self.readers)

    @property
    def given(self) -> pl.DataFrame:
        """TEXTS that may be assigned."""
        return withheld.without(self.texts, self.withheld)


def gather(ws: Workspace) -> ReviewState:
    """Reads the state. A caller that appends afterwards must take its lock (workspace.alone) before."""
    taxonomy, read = ws.taxonomy, partial(workspace.read, ws)
    assignments, design, labels = read(tables.ASSIGNMENTS), read(tables.DESIGN), read(tables.LABELS)
    reviews, readings = read(tables.REVIEWS), read(tables.READINGS)
    proposals = read(tables.PROPOSALS)
    proposals = proposals.filter(pl.col("trait").is_in(taxonomy.slugs))  # without traits that left the taxonomy
    items = _items(ws, [readings, proposals, assignments, reviews])
    mined = texts_on_disk.narrow(ws)
    texts = routing.texts(mined.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"])), items)
    current, asked = texts.filter("current"), read(tables.ASKED)
    ever, proposals = proposals, standing_claims.standing(proposals, current, assignments, readings, asked, taxonomy)
    texts = _with_turns(ws, texts, review_history.compared(reviews, current))
    standing, left_out = review_history.standing(reviews, texts, taxonomy)
    spelled = review_history.with_implied_absent(standing, asked, taxonomy)
    excluded = withheld.reasons(ws, mined)
    all_votes = withheld.without(aggregation.votes(spelled, taxonomy), excluded)
    votes = controls.label_votes(all_votes, assignments)
    readers = ws.config.review.readers
    judged = aggregation.adjudicate(votes, labels, readers=readers)
    auto: frozenset[tuple[str, str]] = frozenset()
    sure = proposals.clear()
    if threshold := ws.config.review.auto:
        sure = withheld.without(standing_claims.sure(proposals, current, taxonomy, threshold), excluded)
        auto = precision.carried(sure, votes, judged, assignments, design)
        texts = _with_turns(ws, texts, pl.Series([subject for subject, _ in auto], dtype=pl.String))
        judged = aggregation.adjudicate(votes, labels, precision.labels(sure, auto, texts), readers=readers)
    assignable = withheld.without(current, excluded)
    return ReviewState(
        ws=ws,
        taxonomy=taxonomy,
        readers=readers,
        current=assignable.filter(kind="sensitivity")["subject"].to_list(),
        plots=assignable.filter(kind="item_flag")["subject"].to_list(),
        known=texts,
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
        all_votes=all_votes,
        judged=judged,
        gold=read(tables.GOLD),
        decoys=read(tables.DECOYS),
        auto=auto,
        withheld=excluded,
        orders=frozenset(readings.filter(pl.col("orders").list.len() > 0).select("kind", "subject").iter_rows()),
    )


def _with_turns(ws: Workspace, texts: pl.DataFrame, subjects: pl.Series) -> pl.DataFrame:
    """`texts` with the turns of all revisions of these conversations."""
    turns = texts_on_disk.turns(ws, subjects.unique()).unique(["subject", "digest"], keep="first")
    joined = texts.join(turns, on=["subject", "digest"], how="left", suffix="_read", maintain_order="left")
    return joined.with_columns(turns=pl.coalesce("turns", "turns_read")).drop("turns_read")


def queue(state: ReviewState, share: float = 0.0) -> pl.DataFrame:
    """UNIT of what the adjudicator has to rule on: disputes, then labels drawn for a recheck."""
    rechecks = precision.rechecks(state.votes, state.assignments, state.auto, share, state.readers)
    return pl.concat([state.disputed, rechecks])


def found_units(state: ReviewState) -> pl.DataFrame:
    """UNIT of everything that a proposal, a review or gold claims in a text."""
    return routing.found_units(state.ever, state.standing, state.gold)


def still_open(
    state: ReviewState,
    assignments: pl.DataFrame,
    due: pl.DataFrame,
    avoid: frozenset[tuple[str, str]],
    planted: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """What every open task shows now: routing.UNITS, `rejected` (rejections.attach), `hard` (_warned), and `facts`:
    whether known facts may be shown, which no opt-out can sort. Revoked tasks are left out; `planted`: new decoys."""
    opinions = aggregation.opinions(state.votes, due)
    revoked = routing.revoked(assignments, found_units(state), due, state.standing, avoid)
    active = assignments.join(revoked, on=tables.TASK, how="anti", maintain_order="left")
    shown = gold_and_decoys.shown(state.decoys if planted is None else pl.concat([state.decoys, planted]))
    opted_out = pl.DataFrame(sorted(avoid), schema={"reviewer": pl.String, "trait": pl.String}, orient="row")
    shown = shown.join(opted_out, on=["reviewer", "trait"], how="anti", maintain_order="left")
    units = routing.units(active, state.given, state.proposals, state.standing, opinions, shown)
    units = units.filter(pl.col("trait").is_in([*state.taxonomy.slugs, "*"]))  # traits that left may have reviews
    units = units.with_columns(facts=~pl.col("reviewer").is_in(opted_out["reviewer"].implode()))
    return rejections.attach(_warned(state, units), workspace.read(state.ws, tables.REJECTED))


def _warned(state: ReviewState, units: pl.DataFrame) -> pl.DataFrame:
    """Adds `hard`: whether the text has something severe by gold, by a claim that an earlier version held back, or by
    a claim whose quote has left the text. Its reader is shown no trait, so the warning names none."""
    text, severe = ["kind", "subject"], pl.col("trait").is_in(state.taxonomy.severe)
    gold = state.gold.select(*text, trait="traits").explode("trait", empty_as_null=False).filter(severe).select(text)
    warnable = units.filter(~pl.col("why").is_in(BLIND) | (pl.col("why") == HELD_BACK))
    claimed = warnable.join(claims(state.proposals).filter(severe), on=text, how="semi").select(text)
    hard = pl.concat([gold, claimed]).unique().with_columns(hard=pl.lit(True))
    return units.join(hard, on=text, how="left", maintain_order="left").with_columns(pl.col("hard").fill_null(False))


def open_units(state: ReviewState, avoid: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """`still_open` for all assignments, without reading the turns: quotes are left out."""
    return still_open(replace(state, whole=lambda: state.known), state.assignments, queue(state), avoid)


def undone(state: ReviewState) -> list[str]:
    """A line for each trait that loses more than aggregation.ALARM of its labels with a verdict: a reviewer was set
    aside, a trait was reworded, or a text changed. Labels that are lost because somebody was removed are no alarm."""
    before = tables.last(withheld.without(state.labels, state.withheld), *tables.UNIT)
    old, new = (frame.filter(pl.col("verdict").is_not_null()) for frame in (before, state.judged))
    lost = aggregation.lost(old, new, tables.UNIT)
    return [f"{trait}: {n:,} of {total:,} labels lose their verdict" for trait, n, total in lost]


def reported(state: ReviewState) -> list[str]:
    """Conversations in which readers reported personal data (reported_texts.reported)."""
    return reported_texts.reported(state.reviews, readable(state))


def readable(state: ReviewState) -> pl.DataFrame:
    """The current conversations that may be read: subject, digest."""
    return withheld.without(state.known.filter("current", kind="sensitivity"), state.withheld)


def _items(ws: Workspace, frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """The items that these tables name; the catalog is merged only if there are any."""
    subjects = [frame.filter(pl.col("kind") == "item_flag").select(item="subject") for frame in frames]
    needed = pl.concat(subjects).unique()
    if needed.is_empty():
        return None
    items, _ = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    return items.join(needed, on="item", how="semi", maintain_order="left")
