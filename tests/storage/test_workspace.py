"""A table comes back as it went in, an append happens wholly or not at all, and damage is named."""

import errno
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
import sqlalchemy as sa

from saferec_builder.core.errors import StoreError, UsageError
from saferec_builder.storage import config, shards, summary, tables, workspace as store
from saferec_builder.storage.locks import held
from saferec_builder.storage.workspace import make
from tests.worlds.any_rows import rows


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, workspace: store.Workspace) -> Iterator[store.Workspace]:
    """A workspace on each of the two databases that we say we work with."""
    if request.param == "sqlite":
        yield workspace
        return
    url = request.getfixturevalue("postgres")
    yield replace(workspace, config=workspace.config.model_copy(update={"store": config.Store(url=url)}))
    engine = sa.create_engine(url)
    found = sa.MetaData()
    found.reflect(engine)
    found.drop_all(engine)
    engine.dispose()


def test_every_table_is_listed() -> None:
    """docs/data-format.md and `status` know a table by this list alone."""
    made = [value for value in vars(tables).values() if isinstance(value, tables.Table)]
    assert {table.name: table for table in made} == tables.TABLES


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda t: t.name)
def test_what_goes_in_comes_out_once(either: store.Workspace, table: tables.Table) -> None:
    assert store.read(either, table).equals(table.empty)
    assert store.append(either, table, rows(table, 1, 2)) == 2
    assert store.append(either, table, rows(table, 2, 3)) == 1  # row 2 is there already
    assert store.read(either, table).equals(rows(table, 1, 2, 3))


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda t: t.name)
def test_of_two_rows_with_one_key_the_first_stays(either: store.Workspace, table: tables.Table) -> None:
    """Within one frame, against what is stored, and both at once; a later row changes nothing that was said."""
    first, later = rows(table, 1, 2, 3), rows(table, 4, 5, 6)
    again = later.with_columns(first[c] for c in table.key)  # the keys of `first`, everything else as in `later`
    assert all((first[c] != again[c]).all() for c in table.columns if c not in table.key)
    # keys 1 2 1: two rows are added, and the third, whose key the first has, is not
    assert store.append(either, table, pl.concat([first[:2], again[:1]])) == 2
    assert store.read(either, table).equals(first[:2])
    # keys 2 3 3: 2 is stored, and of the two rows with 3 the first is added
    assert store.append(either, table, pl.concat([again[1:2], first[2:], again[2:]])) == 1
    assert store.read(either, table).equals(first)


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda t: t.name)
def test_nulls_survive_outside_the_key(either: store.Workspace, table: tables.Table) -> None:
    frame = rows(table, 1).with_columns(
        pl.lit(None, kind).alias(c) for c, kind in table.schema.items() if c not in table.key
    )
    store.append(either, table, frame)
    assert store.read(either, table).equals(frame)


def test_processes_that_open_a_database_first_all_find_their_table(either: store.Workspace) -> None:
    at_once = Barrier(8)  # threads, as each has its own connection and the race is the database's

    def one(n: int) -> int:
        at_once.wait()
        return store.append(either, tables.REPLIES, rows(tables.REPLIES, n))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(8))) == [1] * 8
    assert store.read(either, tables.REPLIES).height == 8


def test_a_shard_counts_only_with_its_manifest(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    folder = workspace.root / "tables" / "drops"
    (manifest,) = folder.glob("*.json")
    manifest.unlink()  # killed between the shard and its manifest
    assert store.read(workspace, tables.DROPS).is_empty()
    assert store.append(workspace, tables.DROPS, rows(tables.DROPS, 1)) == 1
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1))


def test_temporary_files_of_a_killed_run_are_swept(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    stale = workspace.root / "tables" / "drops" / "000001-x.parquet.99.tmp"
    stale.write_bytes(b"half")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert not stale.exists()


def test_what_a_killed_run_left_of_a_file_goes_with_the_next_one(tmp_path: Path) -> None:
    """And what another process is still writing stays."""
    left, busy = tmp_path / "[ann].csv.98.tmp", tmp_path / "[ann].csv.99.tmp"
    left.write_text("a conversation")
    with held(busy, "another", wait=False), store.replacing(tmp_path / "[ann].csv") as tmp:
        tmp.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["[ann].csv", busy.name]
    assert (tmp_path / "[ann].csv").read_text() == "whole"


def test_what_a_killed_append_left_is_not_taken_for_a_shard(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    folder = workspace.root / "tables" / "drops"
    orphan = folder / "000001-0123456789abcdef.parquet"  # killed between this shard and its manifest
    orphan.write_bytes(b"whole, but nobody says so")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert not orphan.exists() and store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 2))


def test_what_comes_back_for_a_damaged_shard_stands_where_it_stood(workspace: store.Workspace) -> None:
    """Last, an old revision would count as the newest. What is new since then gets a number of its own."""
    for n in (1, 2, 3):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, n))
    folder = workspace.root / "tables" / "drops"
    next(folder.glob("000001-*.json")).unlink()
    next(folder.glob("000001-*.parquet")).write_bytes(b"damaged")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 4))
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 2, 3, 4))


def test_every_byte_of_a_shard_counts(workspace: store.Workspace, injected: Callable[[str, int], None]) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, *range(50)))
    (shard,) = (workspace.root / "tables" / "drops").glob("*.parquet")
    whole, rng = shard.read_bytes(), random.Random(8)
    places = rng.sample(range(len(whole)), 300)
    for place in places:
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
        shards._summed.cache_clear()  # files written within one tick of the disk's clock look alike
        with pytest.raises(StoreError, match=r"not the bytes that were written: delete \S+\.json there, then"):
            store.read(workspace, tables.DROPS)
    shard.write_bytes(whole)
    shards._summed.cache_clear()
    assert store.read(workspace, tables.DROPS).height == 50
    injected("bits turned in a shard", len(places))


def test_a_shard_is_summed_up_once_in_a_process_and_again_when_it_changes(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    shards._summed.cache_clear()
    for _ in range(3):
        store.read(workspace, tables.DROPS)
    assert shards._summed.cache_info().misses == 1
    (shard,) = (workspace.root / "tables" / "drops").glob("*.parquet")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    os.utime(shard, ns=(0, 0))
    with pytest.raises(StoreError, match="not the bytes"):
        store.read(workspace, tables.DROPS)


def test_shards_of_before_the_checksum_are_read(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    (manifest,) = (workspace.root / "tables" / "drops").glob("*.json")
    facts = json.loads(manifest.read_text())
    del facts["sha256"]
    manifest.write_text(json.dumps(facts))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1))


def test_one_at_a_time(workspace: store.Workspace) -> None:
    with store.alone(workspace, "release"):
        with pytest.raises(StoreError, match="another `release` is at work"), store.alone(workspace, "release"):
            pass
        with store.alone(workspace, "publish"):  # has a lock of its own
            pass
    with store.alone(workspace, "release"), ThreadPoolExecutor(1) as pool:
        second = pool.submit(_adjudicate, workspace)
        assert second.result() == "done"


def test_who_waits_for_another_command_says_so_once(workspace: store.Workspace, cli, monkeypatch) -> None:
    monkeypatch.setattr("saferec_builder.storage.locks.SILENT", 0.2)
    words = ("review", "opt-out", "ann", "gore", "--json", "-C", workspace.root)
    holder = "import sys, fcntl; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True); input()"
    lock = workspace.root / ".review-opt-out.lock"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holder, str(lock)], **pipes) as other:
        assert other.stdin and other.stdout and other.stdout.readline()
        threading.Timer(1.0, other.stdin.close).start()
        ran = cli(*words)
    assert (ran.code, ran.json["added"]) == (0, 1)
    assert ran.err == f"{workspace.root}: another `review opt-out` is at work: waiting until it has ended\n"
    assert cli(*words).err == ""


def test_status_counts_rows_and_what_models_were_paid(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2, 3))
    store.append(workspace, tables.SPEND, rows(tables.SPEND, 1, 2))
    found = summary.status(workspace)
    assert (found.rows["drops"], found.rows["spend"], found.rows["labels"], found.releases) == (3, 2, 0, [])
    assert found.spent["requests"].sum() == store.read(workspace, tables.SPEND)["requests"].sum()


def _adjudicate(ws: store.Workspace) -> str:
    with store.alone(ws, "adjudicate", wait=True):
        return "done"


@pytest.mark.parametrize("harm", ["cut", "gone", "manifest", "without end", "rows", "schema"])
def test_damage_is_named(workspace: store.Workspace, harm: str) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    folder = workspace.root / "tables" / "drops"
    (shard,), (manifest,) = folder.glob("*.parquet"), folder.glob("*.json")
    if harm == "cut":
        shard.write_bytes(shard.read_bytes()[:-10])
    elif harm == "gone":
        shard.unlink()
    elif harm == "manifest":
        manifest.write_text("{")
    elif harm == "without end":
        manifest.write_text("[" * 200_000)
    elif harm == "rows":
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"rows": 2}))
    else:
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema": 99}))
    with pytest.raises(StoreError, match=r"half written|not a manifest|1 rows|schema 99"):
        store.read(workspace, tables.DROPS)


def test_a_frame_that_does_not_fit_is_refused(workspace: store.Workspace) -> None:
    with pytest.raises(StoreError, match="missing \\['detail'\\]"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).drop("detail"))
    with pytest.raises(StoreError, match="column detail is Int64"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(detail=pl.lit(1, pl.Int64)))
    with pytest.raises(StoreError, match="null in its key"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(reason=pl.lit(None, pl.String)))


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """Of `team?1` and `team?2` both had the database `team`, beside them, and `50%25` none."""
    for name in ("team?1", "team?2", "50%25", "[v2]#*"):
        make(tmp_path / name, demo=False)
        ws = store.Workspace.open(tmp_path / name)
        for table in (tables.LABELS, tables.PROPOSALS):
            assert store.append(ws, table, rows(table, 1)) == 1
            assert store.read(ws, table).height == 1
        assert (ws.root / "workspace.db").exists()


def test_a_database_that_is_none_is_one_line(workspace: store.Workspace) -> None:
    (workspace.root / "workspace.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="not a database: put your copy of workspace.db back"):
        store.read(workspace, tables.REVIEWS)


@pytest.mark.parametrize(("column", "held"), [("spans", "[{"), ("time", "yesterday"), ("seconds", "long")])
def test_a_value_that_was_never_written_is_one_line(workspace: store.Workspace, column: str, held: str) -> None:
    store.append(workspace, tables.REVIEWS, rows(tables.REVIEWS, 1))
    with closing(sqlite3.connect(workspace.root / "workspace.db")) as db, db:
        db.execute(f"UPDATE reviews SET {column} = ?", (held,))
    with pytest.raises(StoreError, match="table reviews of the database holds what was never written"):
        store.read(workspace, tables.REVIEWS)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql+pg8000://ann:hush@db/name?password=hush", "the driver pg8000 is not installed: pip install"),
        ("somewhere", "no database address"),
    ],
)
def test_a_database_that_cannot_be_spoken_to_is_one_line(workspace: store.Workspace, url: str, told: str) -> None:
    (workspace.root / "saferec.toml").write_text(f'[store]\nurl = "{url}"')
    with pytest.raises(StoreError, match=told) as shown:
        store.read(store.Workspace.open(workspace.root), tables.REVIEWS)
    assert "hush" not in str(shown.value)


def test_the_secret_is_made_once_and_private(workspace: store.Workspace) -> None:
    again = store.Workspace.open(workspace.root)
    assert workspace.secret == again.secret and len(workspace.secret) == 32
    assert (workspace.root / ".secret").stat().st_mode & 0o777 == 0o600


def test_the_secret_needs_no_second_name(workspace: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has one name on FAT and many network drives: every `mine` there ended with "let yourself write there"."""

    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    assert len(workspace.secret) == 32 and not list(workspace.root.glob(".secret*.tmp"))


def test_processes_that_open_a_workspace_first_have_one_secret(workspace: store.Workspace) -> None:
    program = "import sys; from saferec_builder.storage import workspace as store; from pathlib import Path;"
    program += " print(store.Workspace.open(Path(sys.argv[1])).secret.hex())"
    words = [sys.executable, "-c", program, str(workspace.root)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {process.communicate()[0].strip() for process in started} == {workspace.secret.hex()}


def test_a_secret_that_was_cut_is_never_used(workspace: store.Workspace) -> None:
    """With an empty one anybody could lead pseudonyms back to names."""
    (workspace.root / ".secret").write_bytes(workspace.secret[:7])
    with pytest.raises(StoreError, match="7 bytes, expected 32"):
        _ = store.Workspace.open(workspace.root).secret


def test_no_workspace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="saferec-build init"):
        store.Workspace.open(tmp_path)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[oracle]\nviolated_at = 7", "violated_at"),
        ("[orcale]", "orcale: nothing here has this name: expected one of dataset, taxonomy, oracle, "),
        ('[taxonomy]\npth = "my.toml"', r"taxonomy\.pth: .* expected one of path$"),
        ("[propose.models.small]\nprice = 1", r"models\.small\.price: .* expected one of model, base_url, key_env, "),
        ("[dataset", "not a TOML file"),
        (
            '[reddit]\nsubreddits = {MovieSuggestions = "movie"}',
            r"reddit\.subreddits\.MovieSuggestions.*'film'.*found 'movie'",
        ),
        ('[reddit]\nflair = "(requests"', r"reddit\.flair.*regular expression"),
        ('[reddit]\nrequest = "any(?= film)"', r"reddit\.request.*look-around"),
        ("[propose]\nuncertain = [0.7, 0.3]", r"propose\.uncertain.*the smaller one first"),
        ("[propose]\nuncertain = [30, 70]", r"propose\.uncertain.*from 0 to 1"),
        ('[mine]\nlanguages = ["EN"]', r"mine\.languages.*small letters"),
    ],
)
def test_a_wrong_line_in_saferec_toml_is_named(workspace: store.Workspace, line: str, found: str) -> None:
    (workspace.root / "saferec.toml").write_text(line)
    with pytest.raises(UsageError, match=found):
        store.Workspace.open(workspace.root)
