"""The folder of a release."""

import gc
import json
import resource
import sys

import polars as pl
import pyarrow as pa
import pytest

from exports import folder as write
from exports.digests import RowDigest
from exports.manifest_types import OLDER
from saferec_builder.core.errors import ReleaseError
from tests.worlds.release_world import tree


@pytest.mark.slow
def test_a_build_without_room_says_so_once(tmp_path, monkeypatch):
    """Every file lacks room for its last byte; no open file is left to a destructor, which could only print."""
    unraised, limits = [], resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    splits = ("train", "validation", "test")
    parts = [("labels", split, pl.DataFrame({"id": range(9)}).to_arrow()) for split in splits]
    size = next(iter(write.tables(tmp_path / "whole", parts, {"labels": splits}).files.values()))["bytes"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write.tables(tmp_path / "cut", parts, {"labels": splits})
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert unraised == []


def test_a_copy_of_a_release_that_is_named_by_its_day_is_no_version(tmp_path):
    """Every command on releases failed with `version '2024.01.15'`, which nobody had named. From October on a date
    looks like a version, and such a copy was taken for the newest."""
    for name in ("1.0.0", "10.2.3", "2024.01.15", "2024.11.15", "1.0.0-old", "01.0.0"):
        (tmp_path / name).mkdir()
        version = name if name.startswith("1") else "1.0.0"
        (tmp_path / name / write.MANIFEST).write_text(json.dumps({"version": version}))
    assert [*write.versions(tmp_path)] == ["1.0.0", "10.2.3"]
    for text in ("", "[]", "{}", '{"version": "2.0.0'):  # damaged: else an older release would be taken for the newest
        (tmp_path / "10.2.3" / write.MANIFEST).write_text(text)
        assert [*write.versions(tmp_path)] == ["1.0.0", "10.2.3"]


def table(*ids):
    traits = pa.array([["gore"]] * len(ids), pa.list_(pa.string()))
    return pa.table({"conversation": pa.array(ids, pa.string()), "traits": traits})


def build(releases, version="1.0.0", ids=("a", "b"), fault=None):
    """Makes a release of three configs, of which one is empty and one has two parts."""
    parts = [
        ("sft", "train", table(*ids)),
        ("sft", "test", table()),
        ("grpo", "train", table("c")),
        ("grpo", "train", table("d")),
    ]

    def finish(draft, written):
        assert draft == releases / f".{version}.tmp" / version and (draft / "data/sft/train.parquet").is_file()
        if fault:
            raise fault
        return {"name": "ws"}, {"README.md": f"{written.counts}".encode()}

    configs = {"sft": ("train", "test"), "grpo": ("train",), "none": ("x",)}
    return write.build(releases, version, parts, configs, finish, "take another")


def test_a_folder_is_built_once_and_whole_or_not_at_all(tmp_path):
    folder, readme = tmp_path / "1.0.0", b"{'sft': {'train': 2, 'test': 0}, 'grpo': {'train': 2}, 'none': {'x': 0}}"
    left = tmp_path / ".1.0.0.tmp" / "1.0.0" / "data"  # of a build that was killed
    left.mkdir(parents=True)
    folder.mkdir()  # an empty folder may become the release
    assert build(tmp_path) and not left.exists()
    files = tree(folder)
    assert [*files] == ["README.md", "SHA256SUMS", "data/grpo/train.parquet", "data/sft/train.parquet", "manifest.json"]
    manifest, sums = json.loads(files["manifest.json"]), files["SHA256SUMS"].decode().splitlines()
    assert files["README.md"] == readme and manifest["name"] == "ws" and f"{manifest['counts']}".encode() == readme
    assert [*manifest["row_digests"]] == ["grpo", "sft"] and [*manifest["row_digests"]["sft"]] == ["train"]
    digest = RowDigest()
    digest.add(table("c", "d"))
    assert manifest["row_digests"]["grpo"]["train"] == digest.hex()
    facts = {name: (entry["bytes"], entry["rows"]) for name, entry in manifest["files"].items()}
    assert facts == {name: (len(files[name]), 2 if "data" in name else None) for name in sorted({*files} - UNLISTED)}
    assert sums == [f"{write.sha256(folder / name)}  {name}" for name in sorted({*files} - {"SHA256SUMS"})]
    assert not build(tmp_path) and tree(folder) == files
    holds = r"this release exists, with other content \(data/sft/train.parquet, manifest.json\)"
    with pytest.raises(ReleaseError, match=f"1.0.0: {holds}, and a release is never changed: take another$"):
        build(tmp_path, ids=("a", "z"))
    with pytest.raises(KeyError):
        build(tmp_path, "2.0.0", fault=KeyError())
    assert tree(folder) == files and [path.name for path in tmp_path.iterdir()] == ["1.0.0"]
    (tmp_path / "3.0.0").touch()  # no folder
    with pytest.raises(ReleaseError, match="3.0.0: holds other files"):
        build(tmp_path, "3.0.0")


UNLISTED = {"manifest.json", "SHA256SUMS"}


def test_a_folder_without_a_manifest_is_no_release_and_an_older_one_gets_what_it_lacks(home, tmp_path):
    with pytest.raises(ReleaseError, match=f"{tmp_path} is no release [(]manifest.json is missing[)]"):
        write.facts_of(tmp_path)
    facts = json.loads((home / write.MANIFEST).read_text())
    (tmp_path / write.MANIFEST).write_text(json.dumps({k: v for k, v in facts.items() if k not in OLDER}))
    assert write.facts_of(tmp_path) == facts | OLDER
    (tmp_path / write.MANIFEST).write_text(json.dumps({k: v for k, v in facts.items() if k not in ("rule", "name")}))
    with pytest.raises(ReleaseError, match="manifest.json: not a manifest [(]it lacks name, rule[)]: build or fetch"):
        write.facts_of(tmp_path)
