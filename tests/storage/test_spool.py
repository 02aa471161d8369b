"""What was said comes back by its place, whatever shards it came in and however the release orders it."""

import json
import os
import random
import resource

import polars as pl
import pytest

from saferec_builder.storage import migrations, spool as spilled, tables, workspace as store
from tests.worlds.release_world import conversation, conversations, ref


def test_rows_come_back_by_place_from_any_shards(workspace, monkeypatch):
    """25 conversations in three shards, blocks of 4 places; the release has them in another order, without two."""
    monkeypatch.setattr(spilled, "BLOCK", 4)
    mined = conversations(*(conversation(f"c{n}", f"text {n}", accepted="ABC"[n % 3]) for n in range(25)))
    for start, end in ((0, 9), (9, 11), (11, 25)):
        store.append(workspace, tables.CONVERSATIONS, mined[start:end])
    order = random.Random(1).sample(mined["conversation"].to_list(), 23)
    kept = pl.DataFrame({"conversation": order}).join(mined, on="conversation", maintain_order="left")
    kept = kept.with_row_index("place")
    said, refs = spilled.spill(workspace, kept.drop(spilled.SAID))
    assert said.rows(kept["place"]).equals(kept.select(spilled.SAID))
    some = pl.Series([0, 3, 4, 11, 22], dtype=pl.UInt32)
    assert said.turns(some).to_list() == kept["turns"].gather(some).to_list()
    assert refs == [ref(x) for x in "ABC"]
    assert not [name for name in os.listdir(workspace.root) if name.startswith("tmp")]


def test_without_room_it_says_so_once(workspace):
    """The rest that waits to be written finds no room again when the file is closed: nobody misses it."""
    rows = conversations(*(conversation(f"c{n}", random.Random(n).randbytes(2_000).hex()) for n in range(9)))
    said, most = spilled.Spilled(workspace.root), resource.getrlimit(resource.RLIMIT_FSIZE)
    file = said._file
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            said.add(rows.select(*spilled.SAID).with_row_index("place"))
        file.write(b"what waits in memory")
        spilled._close(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert file.closed


def test_a_revision_that_two_runs_mined_at_once_shifts_nobody(workspace):
    mined = conversations(*(conversation(f"c{n}", f"text {n}") for n in range(5)))
    for part, name in ((mined, "000000-a"), (mined[1:2], "000001-b")):  # the second without looking at the first
        folder = workspace.root / "tables" / "conversations"
        folder.mkdir(parents=True, exist_ok=True)
        part.write_parquet(folder / f"{name}.parquet")
        size = (folder / f"{name}.parquet").stat().st_size
        facts = {"rows": part.height, "bytes": size, "schema": migrations.newest()}
        (folder / f"{name}.json").write_text(json.dumps(facts))
    said, _ = spilled.spill(workspace, mined.drop(spilled.SAID).with_row_index("place"))
    places = pl.Series(range(5), dtype=pl.UInt32)
    assert said.turns(places).to_list() == mined["turns"].to_list()


def test_only_the_revision_that_counts_is_told(workspace):
    old = conversations(conversation("c1", "old words"))
    new = old.with_columns(digest=pl.lit("d2"), turns=conversations(conversation("c1", "new words"))["turns"])
    store.append(workspace, tables.CONVERSATIONS, old)
    store.append(workspace, tables.CONVERSATIONS, new)
    kept = tables.last(spilled.narrow(workspace), "conversation").with_row_index("place")
    said, _ = spilled.spill(workspace, kept)
    assert [turn["text"] for turn in said.turns(kept["place"])[0]] == ["new words"]
    both = spilled.turns(workspace, pl.Series(["c1"]))
    assert both["digest"].to_list() == [*old["digest"], "d2"]
    assert spilled.turns(workspace, pl.Series([], dtype=pl.String)).is_empty()
