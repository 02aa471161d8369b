"""A file is written whole or not at all."""

import errno
import fcntl
import os
from pathlib import Path
from typing import IO

import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.core.locks import file_lock
from saferec_builder.storage import workspace as store
from saferec_builder.storage.whole_files import replacing, write_private


def test_what_a_killed_run_left_of_a_file_goes_with_the_next_one(tmp_path: Path) -> None:
    """A file that another process is still writing stays."""
    leftover, busy = tmp_path / "[ann].csv.98.tmp", tmp_path / "[ann].csv.99.tmp"
    leftover.write_text("a conversation")
    with file_lock(busy, "another", wait=False), store.replacing(tmp_path / "[ann].csv") as tmp:
        tmp.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["[ann].csv", busy.name]
    assert (tmp_path / "[ann].csv").read_text() == "whole"


def test_two_who_write_one_private_file_do_not_take_it_from_each_other(tmp_path: Path) -> None:
    """The file being written had no lock: a second writer took it for the leftover of a killed run."""
    path, replace = tmp_path / "wishes.json", os.replace

    def meanwhile(tmp: Path, final: Path) -> None:
        assert tmp.stat().st_mode & 0o777 == 0o600
        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(os, "getpid", lambda: 99)
        write_private(path, b"second")
        replace(tmp, final)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "replace", meanwhile)
        write_private(path, b"first")
    assert path.read_bytes() == b"first" and path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_went_before_its_lock_was_held_is_made_again(tmp_path: Path) -> None:
    """Another writer took it for the leftover of a killed run: of 12,000 writes 31 were lost, and 41 were public."""
    path, flock = tmp_path / "wishes.json", fcntl.flock

    def meanwhile(file: IO[str], operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        next(tmp_path.glob("*.tmp")).unlink()
        flock(file, operation)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(fcntl, "flock", meanwhile)
        with replacing(path, 0o600) as tmp:
            with pytest.raises(StoreError, match="another is at work"), file_lock(tmp, "another", wait=False):
                pass
            tmp.write_text("whole")
    assert path.read_text() == "whole" and path.stat().st_mode & 0o777 == 0o600


def test_the_secret_needs_no_second_name(workspace: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAT and many network drives have no hard links: every `mine` there ended with "let yourself write there"."""

    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    assert len(workspace.secret) == 32 and not list(workspace.root.glob(".secret*.tmp"))
