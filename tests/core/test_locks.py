"""One command at a time: a waiting command says so once."""

import errno
import fcntl
import subprocess
import sys
import threading
from pathlib import Path

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
        threading.Timer(1.0, process.stdin.close).start()
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
