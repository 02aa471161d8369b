"""Reads each table of a workspace once, so that all of a release is made from the same state."""

from dataclasses import dataclass

import polars as pl

from annotation import review_history
from exports import claims
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import clusters
from saferec_builder.storage import evidence_check as evidence, tables, texts_on_disk
from saferec_builder.storage.workspace import Workspace, parts, read

_CLAIM = ("kind", "subject", "trait", "verdict", "proposer", "version", "taxonomy")


@dataclass(frozen=True)
class Snapshot:
    """The tables that a release is made of, except `marks` and `origins`, which mining.withheld reads."""

    conversations: pl.DataFrame  # every revision with its `row` in the table, without its text
    texts: texts_on_disk.Spool  # the texts, by `row`
    reviews: pl.DataFrame
    asked: pl.DataFrame
    labels: pl.DataFrame  # the last per kind, subject and trait
    verdicts: pl.DataFrame  # every label in the history, without evidence
    clusters: pl.DataFrame
    catalog_rows: pl.DataFrame
    warnings: pl.DataFrame
    proposals: pl.DataFrame  # without evidence
    claims: pl.DataFrame  # claims.of_rules of all proposals
    assignments: pl.DataFrame
    design: pl.DataFrame
    erased: pl.DataFrame  # TOMBSTONES
    gold: pl.DataFrame
    decoys: pl.DataFrame
    plots: pl.Series  # items whose plot was given to a proposer or a person

    def turns(self, revisions: pl.DataFrame) -> pl.DataFrame:
        """Returns (subject, digest, turns) of these rows of `conversations`, in the order of the table."""
        order = revisions.sort("row")
        if order.is_empty():
            return tables.CONVERSATIONS.empty.select("digest", "turns", subject="conversation")
        return order.select("digest", self.texts.turns(order["row"]), subject="conversation")

    def evidenced(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns evidence.TEXTS that the evidence of these rows is in."""
        quoting = rows.filter(pl.col("spans").list.len() > 0, kind="sensitivity")
        quoting = quoting.select("digest", conversation="subject")
        cited = self.conversations.join(quoting, ["conversation", "digest"], "semi")
        texts = self.turns(cited).rename({"subject": "conversation"})
        return evidence.texts(rows, lambda: [texts], lambda: [self.catalog_rows])

    def arranged(self, ws: Workspace, kept: pl.DataFrame) -> tuple[texts_on_disk.Spool, list[str]]:
        """Returns (texts of `kept` by `place`; every ref in them, once, sorted). `kept` has row and place."""
        arranged, refs = texts_on_disk.Spool(ws.root), set[str]()
        for rows in self.conversations.select("row").iter_slices(texts_on_disk.BLOCK):
            part = rows.hstack(self.texts.rows(rows["row"]))
            chosen = part.join(kept.select("row", "place"), on="row").drop("row")
            arranged.add(chosen)
            refs.update(texts_on_disk.refs(chosen)["ref"])
        return arranged, sorted(refs)


def take(ws: Workspace) -> Snapshot:
    """Reads the tables; the texts go to a file on disk, which is deleted with the snapshot."""
    texts, rows = texts_on_disk.Spool(ws.root), 0
    revisions = [tables.CONVERSATIONS.empty.drop(texts_on_disk.TEXT_COLUMNS)]
    for part in parts(ws, tables.CONVERSATIONS):
        place = pl.int_range(rows, rows + pl.len(), dtype=pl.UInt32)
        texts.add(part.select(place.alias("place"), *texts_on_disk.TEXT_COLUMNS))
        revisions.append(part.drop(texts_on_disk.TEXT_COLUMNS))
        rows += part.height
    clusters.check(ws)  # checked now: the clusters are read next, and must hold all comparisons made so far
    proposals, claimed = [tables.PROPOSALS.empty.select(_CLAIM)], [claims.NONE]
    for part in parts(ws, tables.PROPOSALS, *dict.fromkeys((*_CLAIM, *claims.COLUMNS))):
        proposals.append(part.select(_CLAIM))
        claimed.append(claims.of_rules(part))
    labels, reviews, assignments = (read(ws, table) for table in (tables.LABELS, tables.REVIEWS, tables.ASSIGNMENTS))
    frames = [*parts(ws, tables.READINGS, "kind", "subject"), *proposals, assignments, reviews]
    return Snapshot(
        conversations=pl.concat(revisions).with_row_index("row"),
        texts=texts,
        reviews=reviews,
        asked=read(ws, tables.ASKED),
        labels=tables.last(labels, "kind", "subject", "trait"),
        verdicts=labels.select("kind", "subject", "trait", "verdict", "method"),
        clusters=tables.last(read(ws, tables.CLUSTERS), "conversation").select("conversation", "cluster"),
        catalog_rows=read(ws, tables.CATALOG_ROWS),
        warnings=read(ws, tables.WARNINGS),
        proposals=pl.concat(proposals),
        claims=pl.concat(claimed),
        assignments=assignments,
        design=read(ws, tables.DESIGN),
        erased=read(ws, tables.TOMBSTONES),
        gold=read(ws, tables.GOLD),
        decoys=read(ws, tables.DECOYS),
        plots=pl.concat(frame.filter(kind="item_flag")["subject"] for frame in frames).unique().sort(),
    )


def standing_reviews(snapshot: Snapshot, taxonomy: Taxonomy) -> pl.DataFrame:
    """Returns each reviewer's last review per unit; the column `out` says why one does not count
    (review_history.standing). Of items only those that count."""
    newest = pl.col("digest") == pl.col("digest").last().over("conversation")
    judged = snapshot.reviews.filter(kind="sensitivity")
    reviewed = snapshot.conversations.join(
        judged, left_on="conversation", right_on="subject", how="semi", maintain_order="left"
    )
    texts = reviewed.select("digest", kind=pl.lit("sensitivity"), subject="conversation", current=newest)
    needed = review_history.compared(judged, texts.filter("current"))
    turns = snapshot.turns(snapshot.conversations.filter(pl.col("conversation").is_in(needed.implode())))
    texts = texts.join(turns, on=["subject", "digest"], how="left", maintain_order="left")
    standing, _ = review_history.standing(judged, texts, taxonomy)
    items = _of_items(snapshot, taxonomy).with_columns(out=pl.lit(None, pl.String))
    return pl.concat([review_history.with_implied_absent(standing, snapshot.asked, taxonomy), items])


def _of_items(snapshot: Snapshot, taxonomy: Taxonomy) -> pl.DataFrame:
    """Returns item reviews without those set aside, handed back, of another person's task, of unknown traits or a `*`
    under another taxonomy, as review_history.standing does, but without comparing texts."""
    reviews = review_history.last_words(snapshot.reviews.filter(kind="item_flag"))
    reviews = reviews.filter(
        pl.col("verdict").is_not_null() & (pl.col("role") != "other") & pl.col("trait").is_in([*taxonomy.slugs, "*"])
    )
    reviews = reviews.filter(~review_history.old_star(taxonomy))
    return evidence.split(reviews, snapshot.evidenced(reviews))[0]
