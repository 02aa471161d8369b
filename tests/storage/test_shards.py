"""Shards of a table: a shard counts only with its manifest, every byte is checked, and damage is named."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import migrations, shards, tables, workspace as store
from tests.worlds.any_rows import rows


def test_a_shard_counts_only_with_its_manifest(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    folder = workspace.root / "tables" / "drops"
    (manifest,) = folder.glob("*.json")
    manifest.unlink()  # killed between the shard and its manifest
    assert store.read(workspace, tables.DROPS).is_empty()
    assert store.append(workspace, tables.DROPS, rows(tables.DROPS, 1)) == 1
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1))


def test_what_a_killed_append_left_is_swept_and_taken_for_no_shard(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    # killed while it wrote, and between a shard and its manifest
    names = ("000001-x.parquet.99.tmp", "000001-0123456789abcdef.parquet")
    leftovers = [workspace.root / "tables" / "drops" / name for name in names]
    for path in leftovers:
        path.write_bytes(b"half, or whole and nobody says so")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert not any(path.exists() for path in leftovers)
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 2))


@pytest.mark.parametrize("added", [" 2", " (1)", "-2", "-LAPTOP", "-desk", " (Ann's conflicted copy)"])
def test_a_copy_beside_a_shard_adds_no_row_and_an_erasure_takes_it_too(workspace: store.Workspace, added: str) -> None:
    """A shared folder made one of each file of a shard: every row counted twice."""
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2))
    folder = workspace.root / "tables" / "drops"
    originals = [*folder.glob("0*")]
    for path in originals:
        shutil.copy(path, path.with_name(f"{path.stem}{added}{path.suffix}"))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 2))
    for path in originals:
        path.rename(path.with_name(f"gone-{path.name}"))
    assert store.count(workspace, tables.DROPS) == 2
    for path in originals:
        path.with_name(f"gone-{path.name}").rename(path)
    assert shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.head(1)) == 1
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1)) and len([*folder.glob("0*")]) == 2


def test_what_comes_back_for_a_damaged_shard_stands_where_it_stood(workspace: store.Workspace) -> None:
    """As the last shard, an old revision would count as the newest. Rows that are new since then get a new number."""
    for n in (1, 2, 3):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, n))
    folder = workspace.root / "tables" / "drops"
    next(folder.glob("000001-*.json")).unlink()
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 4))
    next(folder.glob("000001-*.parquet")).write_bytes(b"damaged")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 2, 3, 4))


@pytest.mark.parametrize("readable", [True, False])
def test_a_part_of_what_a_damaged_shard_held_stands_where_it_stood(workspace: store.Workspace, readable: bool) -> None:
    """Mining again gives fewer rows if a later export has more turns: they were taken for the newest."""
    for numbers in ((1, 2), (3,), (4,)):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, *numbers))
    folder = workspace.root / "tables" / "drops"
    next(folder.glob("000000-*.json")).unlink()
    if not readable:
        next(folder.glob("000000-*.parquet")).write_bytes(b"damaged")
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 2))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 2, 3, 4))
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 5))
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 2, 3, 4, 5))


def test_rows_that_come_after_an_erasure_of_the_same_leave_its_shard_alone(workspace: store.Workspace) -> None:
    """The erased shard, which is valid, was taken for a leftover: no command could read the table any more."""
    for _ in range(3):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
        assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1))
        assert shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.clear()) == 1
        assert store.read(workspace, tables.DROPS).is_empty()


def test_the_name_of_a_shard_that_lost_rows_no_longer_tells_which(workspace: store.Workspace, monkeypatch) -> None:
    """The digest of the keys stayed in it: whoever had the other rows could try which row was erased."""
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2))
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 3))
    folder = workspace.root / "tables" / "drops"
    guess = tables.digest(rows(tables.DROPS, 1, 2).select(tables.DROPS.key).rows())
    kept = [*folder.glob("000001-*")]
    assert [*folder.glob(f"000000-{guess}.json")]
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):  # killed before the new name counts
        patch.setattr(Path, "rename", Mock(side_effect=RuntimeError))
        shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.head(1))
    left = store.read(workspace, tables.DROPS)
    assert left.equals(rows(tables.DROPS, 1, 3)) and [*folder.glob(f"*{guess}*")]
    names = []
    for _ in range(2):
        assert shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.head(1)) == 0
        names.append(shards.names(workspace.root, tables.DROPS))
        assert not [*folder.glob(f"*{guess}*")] and len([*folder.glob("0*")]) == 4 and all(p.exists() for p in kept)
        assert store.read(workspace, tables.DROPS).equals(left)
    assert names[0] == names[1]  # once is enough


def test_a_shard_that_lost_rows_is_known_as_one_also_in_a_newer_schema(workspace: store.Workspace, monkeypatch) -> None:
    """Written again for the schema it had lost the mark, and so kept the digest of an erasure by an older program."""
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(shards, "_rename", lambda manifest: None)  # as the older program
        shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.head(1))
    step = migrations.Step("nothing", bulk={"drops": lambda frame: frame})
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, step])
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 3))
    first, _ = shards.names(workspace.root, tables.DROPS)
    assert first.endswith(f".s{migrations.newest()}e1") and shards.lost_rows(first)
    shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame)
    assert shards.names(workspace.root, tables.DROPS)[0].split(".")[0] != first.split(".")[0]
    assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 3))


def test_a_backup_that_is_copied_over_an_erased_shard_doubles_no_row_once_it_is_erased_again(
    workspace: store.Workspace, tmp_path: Path
) -> None:
    """The shard of the backup has the name of before the erasure, so both counted, for good."""
    for numbers in ((1, 2), (3,)):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, *numbers))
    folder = workspace.root / "tables" / "drops"
    shutil.copytree(folder, tmp_path / "backup")
    erased = rows(tables.DROPS, 2).select(tables.DROPS.key)

    def others(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(erased, tables.DROPS.key, "anti", nulls_equal=True, maintain_order="left")

    for _ in range(2):
        assert shards.rewrite(workspace.root, tables.DROPS, others) == 1
        assert store.read(workspace, tables.DROPS).equals(rows(tables.DROPS, 1, 3))
        shutil.copytree(tmp_path / "backup", folder, dirs_exist_ok=True)


def test_a_folder_that_a_disk_puts_among_the_shards_is_passed_by(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    (workspace.root / "tables" / "drops" / "@eaDir").mkdir()
    assert shards.rewrite(workspace.root, tables.DROPS, lambda frame: frame.clear()) == 1
    assert store.read(workspace, tables.DROPS).is_empty()


def test_every_byte_of_a_shard_counts(workspace: store.Workspace, injected: Callable[[str, int], None]) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, *range(50)))
    (shard,) = (workspace.root / "tables" / "drops").glob("*.parquet")
    content, rng = shard.read_bytes(), random.Random(8)
    places = rng.sample(range(len(content)), 300)
    for place in places:
        shard.write_bytes(content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :])
        shards._summed.cache_clear()  # files written within one tick of the disk's clock look alike
        with pytest.raises(StoreError, match=r"not the bytes that were written: delete \S+\.json there, then"):
            store.read(workspace, tables.DROPS)
    shard.write_bytes(content)
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
    content = shard.read_bytes()
    shard.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    os.utime(shard, ns=(0, 0))
    with pytest.raises(StoreError, match="not the bytes"):
        store.read(workspace, tables.DROPS)


HARM: dict[str, Callable[[Path, Path], object]] = {
    "cut": lambda shard, _: shard.write_bytes(shard.read_bytes()[:-10]),
    "gone": lambda shard, _: shard.unlink(),
    "manifest": lambda _, manifest: manifest.write_text("{"),
    "without end": lambda _, manifest: manifest.write_text("[" * 200_000),
    "schema": lambda _, manifest: manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema": 99})),
    "no schema": lambda _, manifest: manifest.write_text(
        json.dumps(json.loads(manifest.read_text()) | {"schema": "x"})
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_damage_is_named(workspace: store.Workspace, harm: str) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1))
    folder = workspace.root / "tables" / "drops"
    (shard,), (manifest,) = folder.glob("*.parquet"), folder.glob("*.json")
    HARM[harm](shard, manifest)
    with pytest.raises(StoreError, match=r"half written|not a manifest|schema (99|x)"):
        store.read(workspace, tables.DROPS)
    assert store.schemas(workspace)  # for `doctor`
