"""Texts are read back by their place, in any order of shards and of the release."""

import os
import random
import resource

import polars as pl
import pytest

from saferec_builder.storage import tables, texts_on_disk as spool, workspace as store
from tests.worlds.release_world import conversation, conversations


def test_rows_come_back_by_place_from_any_shards(workspace, monkeypatch):
    """25 conversations in three shards, blocks of 4 places; the release has them in another order, without two."""
    monkeypatch.setattr(spool, "BLOCK", 4)
    mined = conversations(*(conversation(f"c{n}", f"text {n}", accepted="ABC"[n % 3]) for n in range(25)))
    order = random.Random(1).sample(range(25), 25)
    placed = mined[order].select(*spool.TEXT_COLUMNS).with_row_index("place")
    texts = spool.Spool(workspace.root)
    for part in (placed[9:11], placed[:9].reverse(), placed[11:]):
        texts.add(part)
    assert texts.rows(placed["place"]).equals(mined[order].select(spool.TEXT_COLUMNS))
    places = pl.Series([0, 3, 4, 11, 22], dtype=pl.UInt32)
    assert texts.turns(places).to_list() == placed["turns"].gather(places).to_list()
    assert not [name for name in os.listdir(workspace.root) if name.startswith("tmp")]


def test_without_room_it_says_so_once(workspace):
    """Closing the file tries to write the buffered rest and fails again: that error is ignored."""
    rows = conversations(*(conversation(f"c{n}", random.Random(n).randbytes(2_000).hex()) for n in range(9)))
    texts, limits = spool.Spool(workspace.root), resource.getrlimit(resource.RLIMIT_FSIZE)
    file = texts._file
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            texts.add(rows.select(*spool.TEXT_COLUMNS).with_row_index("place"))
        file.write(b"what waits in memory")
        spool._close(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.closed


def test_every_revision_of_these_conversations_is_told(workspace):
    old = conversations(conversation("c1", "old words"))
    new = old.with_columns(digest=pl.lit("d2"), turns=conversations(conversation("c1", "new words"))["turns"])
    store.append(workspace, tables.CONVERSATIONS, old)
    store.append(workspace, tables.CONVERSATIONS, new)
    revisions = spool.turns(workspace, pl.Series(["c1"]))
    assert revisions["digest"].to_list() == [*old["digest"], "d2"]
    assert spool.turns(workspace, pl.Series([], dtype=pl.String)).is_empty()
