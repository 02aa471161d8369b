"""The folder of a release."""

import gc
import json
import resource
import sys

import polars as pl
import pytest

from exports import folder as write


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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": "2.0.0'])
def test_a_release_whose_manifest_is_damaged_is_not_passed_over(tmp_path, text):
    """Otherwise an older release would be taken for the newest."""
    (tmp_path / "2.0.0").mkdir()
    (tmp_path / "2.0.0" / write.MANIFEST).write_text(text)
    assert [*write.versions(tmp_path)] == ["2.0.0"]
