"""One command at a time: who waits says so once."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import workspace as store


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
    monkeypatch.setattr("saferec_builder.core.locks.SILENT", 0.2)
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


def _adjudicate(ws: store.Workspace) -> str:
    with store.alone(ws, "adjudicate", wait=True):
        return "done"
