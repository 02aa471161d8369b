"""One command at a time: a waiting command says so once."""

import errno
import fcntl
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from saferec_builder.core import locks
from saferec_builder.core.errors import StoreError
from saferec_builder.storage import workspace as store


def test_one_at_a_time(workspace: store.Workspace) -> None:
    with store.alone(workspace, "release"):
        with pytest.raises(StoreError, match="another `release` is at work"), store.alone(workspace, "release"):
            pass
        for wait in (False, True):  # another command has its own lock
            with store.alone(workspace, "publish", wait=wait):
                pass


def test_who_waits_for_another_command_says_so_once(workspace: store.Workspace, cli, monkeypatch) -> None:
    monkeypatch.setattr("saferec_builder.core.locks.SILENT", 0.2)
    command = ("review", "opt-out", "ann", "gore", "--json", "-C", workspace.root)
    holder = "import sys, fcntl; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True); input()"
    lock = workspace.root / ".review-opt-out.lock"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holder, str(lock)], **pipes) as process:
        assert process.stdin and process.stdout and process.stdout.readline()
        monkeypatch.setattr(locks.LOG, "filters", [lambda record: process.stdin.close() or True])  # it ends once told
        result = cli(*command)
    assert (result.code, result.json["added"]) == (0, 1)
    assert result.err == f"{workspace.root}: another `review opt-out` is at work: waiting until it has ended\n"
    assert cli(*command).err == ""


def test_a_file_system_without_locks_is_named_once(tmp_path: Path, monkeypatch, caplog) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuses)
    monkeypatch.setattr(locks, "_WITHOUT_LOCKS", set())
    for name in ("first", "second"):
        with locks.file_lock(tmp_path / name, "another command", wait=True):
            pass
    (warning,) = caplog.messages
    assert warning.startswith(f"{tmp_path / 'first'}: its file system has no locks: two commands at once can lose")


def test_shared_locks_go_together_and_no_other_with_them(tmp_path: Path) -> None:
    lock = partial(locks.file_lock, tmp_path / "lock", "another command", wait=False)
    with pytest.raises(FileNotFoundError), lock(mode=None):
        pass
    with lock(shared=True, mode=0o600), lock(shared=True, mode=None):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(StoreError, match="another command is at work"), lock():
            pass


def test_who_waited_for_a_file_that_is_gone_locks_the_one_that_has_its_name_now(tmp_path: Path) -> None:
    lock, waited = partial(locks.file_lock, tmp_path / "lock", "another command"), Event()

    def wait() -> None:
        with lock(wait=True), pytest.raises(StoreError), lock(wait=False, mode=None):
            pass
        waited.set()

    with lock(wait=False):
        Thread(target=wait).start()
        assert not waited.wait(0.2)
        (tmp_path / "lock").unlink()
    assert waited.wait(60) and (tmp_path / "lock").is_file()
