"""A workspace as a release sees it: each table is read once, so that all of the release rests on one state of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from exports import claims
from saferec_builder.storage import evidence_check as evidence, tables, texts_on_disk as spool
from saferec_builder.storage.workspace import Workspace, parts, read

_CLAIM = ("kind", "subject", "trait", "verdict", "proposer", "version", "taxonomy")


@dataclass(frozen=True)
class Snapshot:
    """The tables that a release is made of; `marks` and `origins` are read where mining.withheld judges by them."""

    conversations: pl.DataFrame  # every revision with its `row` in the table, without what was said
    texts: spool.Spool  # what was said, by `row`
    reviews: pl.DataFrame
    asked: pl.DataFrame
    labels: pl.DataFrame  # the last per kind, subject and trait
    verdicts: pl.DataFrame  # every label that there ever was, without evidence
    clusters: pl.DataFrame
    catalog_rows: pl.DataFrame
    warnings: pl.DataFrame
    proposals: pl.DataFrame  # without evidence
    claims: pl.DataFrame  # claims.found of all proposals
    assignments: pl.DataFrame
    design: pl.DataFrame
    erased: pl.DataFrame  # TOMBSTONES
    gold: pl.DataFrame
    decoys: pl.DataFrame
    plots: pl.Series  # items whose plot a proposer or a person was given

    def turns(self, revisions: pl.DataFrame) -> pl.DataFrame:
        """(subject, digest, turns) of these rows of `conversations`, in the order of the table."""
        order = revisions.sort("row")
        if order.is_empty():
            return tables.CONVERSATIONS.empty.select("digest", "turns", subject="conversation")
        return order.select("digest", self.texts.turns(order["row"]), subject="conversation")

    def evidenced(self, rows: pl.DataFrame) -> pl.DataFrame:
        """evidence.TEXTS that these rows speak of."""
        claims = rows.filter(pl.col("spans").list.len() > 0, kind="sensitivity")
        named = self.conversations.join(
            claims.select("digest", conversation="subject"), ["conversation", "digest"], "semi"
        )
        said = self.turns(named).rename({"subject": "conversation"})
        return evidence.texts(rows, lambda: [said], lambda: [self.catalog_rows])

    def arranged(self, ws: Workspace, kept: pl.DataFrame) -> tuple[spool.Spool, list[str]]:
        """(what was said in `kept`, by its `place`; every ref in it, once, sorted). `kept` has row and place."""
        arranged, refs = spool.Spool(ws.root), set[str]()
        for part in self._blocks():
            chosen = part.join(kept.select("row", "place"), on="row").drop("row")
            arranged.add(chosen)
            refs.update(spool.refs_in(chosen))
        return arranged, sorted(refs)

    def _blocks(self) -> Iterator[pl.DataFrame]:
        for part in self.conversations.select("row").iter_slices(spool.BLOCK):
            yield part.hstack(self.texts.rows(part["row"]))


def take(ws: Workspace) -> Snapshot:
    """Reads the tables now; what was said goes to disk, in a file that is gone with the snapshot."""
    texts, revisions, rows = spool.Spool(ws.root), [tables.CONVERSATIONS.empty.drop(spool.SAID)], 0
    for part in parts(ws, tables.CONVERSATIONS):
        texts.add(part.select(pl.int_range(rows, rows + pl.len(), dtype=pl.UInt32).alias("place"), *spool.SAID))
        revisions.append(part.drop(spool.SAID))
        rows += part.height
    proposals, claimed = [tables.PROPOSALS.empty.select(_CLAIM)], [claims.NONE]
    for part in parts(ws, tables.PROPOSALS, *dict.fromkeys((*_CLAIM, *claims.COLUMNS))):
        proposals.append(part.select(_CLAIM))
        claimed.append(claims.found(part))
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
