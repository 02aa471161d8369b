"""Rows of a release, built from a few conversations."""

import json

import polars as pl

from exports import build_rows as release, target_lists as targets
from saferec_builder import catalog
from saferec_builder.core import taxonomy as traits
from saferec_builder.mining import splits
from saferec_builder.storage import config, tables, texts_on_disk as spool, workspace as store
from tests.worlds import release_world as world
from tests.worlds.release_world import conversations, item, labels

TAXONOMY = traits.load()


def split(rows, **shares):
    return splits.assign(conversations(*rows), config.Splits(**shares))


def learn(rows, said=(), shares=(0.1, 0.1), terms=release.Terms(unreviewed=True), voiced=()):
    """The stage over the world's catalog: (rows with lists, drops)."""
    frame = conversations(*rows)
    items, links = catalog.merge(world.catalog())
    index = catalog.index(items)
    oracle, _ = catalog.risks(items, links, world.warnings(), TAXONOMY)
    parts = frame.join(splits.assign(frame, config.Splits(validation=shares[0], test=shares[1])), on="conversation")
    linked = catalog.link(spool.refs(frame)["ref"], links, index)
    current = release.current(labels(*said), frame, pl.Series(voiced, dtype=pl.String))
    ordered, left_out = release.ordered(parts.with_columns(released="conversation"), {})
    reading = release.Reading(lambda places: ordered[places], linked, lambda text: catalog.mentions(text, index))
    light = ordered.drop("turns", "recommended", "accepted", "seen")
    built = release.build(light, current, reading, items["item"].sort(), terms)
    return targets.fill(built, targets.candidates(built, items, oracle), 5), release.drops(left_out, built)


def only(rows, said=(), **more):
    built, _ = learn(rows, said, **more)
    return built.row(0, named=True)


def letters(ids):
    names = {item(x): x for x in world.LETTERS}
    return "".join(names[i] for i in ids)


def manifest(ws, version="1.0.0"):
    return json.loads((ws.releases / version / "manifest.json").read_text())


def reviews(said, who, simulated=False):
    rows = []
    for row in said:
        conversation = {"conversation": row["subject"], "digest": row["digest"]}
        fields = {name: row[name] for name in ("trait", "verdict", "form", "spans")}
        facts = {"note": "for the team only", "seconds": 3.0, "guideline": "g1", "simulated": simulated}
        rows.append(world.review(conversation, who, **fields, **facts))
    return world.reviews(*rows)


def reviewed(ws, rows, said):
    """The workspace with these rows, labels, and a review of each by ann and bo; those of ann may be released."""
    names = ("ann", "bo")
    world.fill(ws, rows, [row | {"reviews": [f"{name}-{row['subject']}" for name in names]} for row in said])
    for name in names:
        store.append(ws, tables.REVIEWS, reviews(said, name))
    return world.configured(ws, '# consent = ["ann"]', 'consent = ["ann"]')


def rows_of(ws, config, version="1.0.0"):
    """The rows of a release's config, of all splits."""
    return pl.read_parquet(ws.releases / version / "data" / config / "*.parquet")


# sft, sft_raw, grpo, safecrs, conversations, labels in 3 splits; items; card, change log, taxonomy, croissant,
# provenance, manifest, checksums, plot
FILES = 6 * 3 + 1 + 8
