"""Processes count the cores that they may use, and those that a command starts leave Ctrl-C to it."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from saferec_builder.core.processes import cores, ignoring_interrupts


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    assert cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_ctrl_c_is_handled_again_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError), ignoring_interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        raise ValueError
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_may_start_processes_too() -> None:
    """Only the main thread may set a handler: elsewhere Python raises ValueError."""

    def start() -> bool:
        with ignoring_interrupts():
            return True

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(start).result()
