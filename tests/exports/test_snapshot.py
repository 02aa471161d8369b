"""A release reads each table once, so that it is made of one state of the workspace despite concurrent writers."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from exports import snapshot
from exports.release import release
from saferec_builder.storage import database, shards, tables, texts_on_disk as spool, workspace as store
from tests.worlds import release_world as world


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """table -> how often it was read from the database, or its shards were scanned."""
    counts: Counter[str] = Counter()
    original_read, original_parts = database.read, shards.parts

    def reading(place: database.Place, table: tables.Table) -> pl.DataFrame:
        counts[table.name] += 1
        return original_read(place, table)

    def scanning(root: Any, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
        counts[table.name] += 1
        return original_parts(root, table, *columns)

    monkeypatch.setattr(database, "read", reading)
    monkeypatch.setattr(shards, "parts", scanning)
    return counts


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """A workspace with reviews with evidence, one of them on a text that changed; labels with evidence in a request and
    in a plot; a request for removal; a proposal."""
    rows, labels = world.requests()
    for n in (1, 3):
        labels[n]["reviews"] = [world.review(rows[n])["review"]]
    catalog = world.catalog().with_columns(plot=pl.lit("Rivers of blood."))
    store.append(workspace, tables.CATALOG_ROWS, catalog)
    span = {"turn": 0, "start": 10, "end": 15, "quote": "blood"}
    plot = {"conversation": world.item("A"), "digest": tables.digest("Rivers of blood.")}
    world.fill(workspace, rows, [*labels, world.label(plot, kind="item_flag", spans=[span], form=None)])
    spans, older_revision = labels[1]["spans"], rows[3] | {"digest": "older"}
    store.append(workspace, tables.CONVERSATIONS, world.conversations(older_revision))
    store.append(workspace, tables.CONVERSATIONS, world.conversations(rows[3] | {"digest": "newer"}))
    reviews = [world.review(row, verdict="present", spans=spans) for row in (rows[1], older_revision)]
    reviews.append(world.review(plot, kind="item_flag", verdict="present", spans=[span]))
    store.append(workspace, tables.REVIEWS, world.reviews(*reviews))
    claim = {"proposal": "p1", "subject": rows[1]["conversation"], "digest": rows[1]["digest"], "spans": spans}
    claim |= {"kind": "sensitivity", "trait": "gore", "verdict": "present", "proposer": "rules", "version": "1"}
    claim |= {"taxonomy": "t", "form": "implicit", "confidence": 1.0}
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame([claim]))
    (workspace.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{rows[5]['conversation']},\n")
    return workspace


@pytest.mark.slow
def test_a_release_reads_each_table_once(ws: store.Workspace, reads: Counter[str]) -> None:
    built = release(ws, "1.0.0", inject="gore")
    assert built.manifest["dropped"]["removed on request"] == 1 and built.rows["item_labels"] == 1
    expected = {"conversations", "reviews", "labels", "catalog_rows", "proposals", "marks", "origins"}
    assert expected <= reads.keys()
    assert {table: n for table, n in reads.items() if n > 1} == {}
    reads.clear()
    assert not release(ws, "1.0.0", inject="gore").new
    assert set(reads.values()) == {1}


def test_what_was_said_comes_back_by_its_place(workspace: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 conversations in three shards, in blocks of 4 rows; a release has 23 of them in another order."""
    monkeypatch.setattr(spool, "BLOCK", 4)
    mined = world.conversations(*(world.conversation(f"c{n}", f"text {n}", accepted="ABC"[n % 3]) for n in range(25)))
    for start, end in ((0, 9), (9, 11), (11, 25)):
        store.append(workspace, tables.CONVERSATIONS, mined[start:end])
    view = snapshot.take(workspace)
    assert view.conversations["row"].to_list() == list(range(25))
    sample = view.conversations.sample(23, shuffle=True, seed=1).with_row_index("place")
    texts, refs = view.arranged(workspace, sample)
    expected = mined[sample["row"].to_list()].select(spool.TEXT_COLUMNS)
    assert texts.rows(sample["place"]).equals(expected) and refs == [world.ref(x) for x in "ABC"]
    subset = view.conversations.filter(pl.col("row").is_in([24, 3, 11]))
    assert view.turns(subset)["turns"].to_list() == mined[[3, 11, 24]]["turns"].to_list()
    assert view.turns(subset.clear()).is_empty()


def test_a_revision_that_two_runs_mined_at_once_shifts_nobody(workspace: store.Workspace) -> None:
    mined = world.conversations(*(world.conversation(f"c{n}", f"text {n}") for n in range(5)))
    folder = workspace.root / "tables" / "conversations"
    folder.mkdir(parents=True)
    for batch, name in ((mined, "000000-a"), (mined[1:2], "000001-b")):  # the second run did not see the first
        shards._write_shard(folder / f"{name}.parquet", batch)
    view = snapshot.take(workspace)
    latest = tables.last(view.conversations, "conversation").with_row_index("place")
    texts, _ = view.arranged(workspace, latest)
    expected = [["text 0"], ["text 2"], ["text 3"], ["text 4"], ["text 1"]]  # in the order of the last rows
    assert [[turn["text"] for turn in turns] for turns in texts.turns(latest["place"])] == expected


def test_only_the_revision_that_counts_is_released(workspace: store.Workspace) -> None:
    old = world.conversations(world.conversation("c1", "old words"))
    turns = world.conversations(world.conversation("c1", "new words"))["turns"]
    store.append(workspace, tables.CONVERSATIONS, old)
    store.append(workspace, tables.CONVERSATIONS, old.with_columns(turns, digest=pl.lit("d2")))
    view = snapshot.take(workspace)
    latest = tables.last(view.conversations, "conversation").with_row_index("place")
    texts, _ = view.arranged(workspace, latest)
    assert [turn["text"] for turn in texts.turns(latest["place"])[0]] == ["new words"]
    assert view.turns(view.conversations)["digest"].to_list() == [*old["digest"], "d2"]
