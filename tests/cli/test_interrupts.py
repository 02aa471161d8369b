"""Ctrl-C is noticed and ends a command quietly, wherever it comes."""

import logging
import signal
import sys
import threading
import time
from typing import Any

import polars as pl
import pytest

from saferec_builder.cli import interrupts as ending, start


def test_ctrl_c_that_a_library_turned_into_something_else_is_remembered() -> None:
    with ending.listening() as pressed:
        assert not pressed()
        with pytest.raises(ValueError):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ValueError("an import that failed") from None
        assert pressed()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_library_logs_of_ctrl_c_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """SQLAlchemy logs it when Ctrl-C comes while it closes a connection."""
    log = logging.getLogger("library")
    with ending.listening(), pytest.raises(KeyboardInterrupt):
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            log.error("closing a connection", exc_info=True)
            raise
    assert not caplog.records
    log.error("of the next command")
    assert len(caplog.records) == 1


class Falls:
    """Raises Ctrl-C in its destructor, where Python drops the exception."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_a_destructor_comes_a_little_later() -> None:
    with ending.listening() as pressed, pytest.raises(KeyboardInterrupt):
        Falls()
        for _ in range(1_000):
            time.sleep(0.01)
    assert pressed()


def test_ctrl_c_while_polars_tells_its_types_comes_a_little_later(capfd: pytest.CaptureFixture[str]) -> None:
    def called(frame: Any, *_: object) -> None:
        if frame.f_globals["__name__"].startswith("polars.datatypes"):
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    rows = pl.DataFrame({"words": [["x"]]})
    with ending.listening() as pressed, pytest.raises(KeyboardInterrupt):
        sys.setprofile(called)
        assert rows.schema
        for _ in range(1_000):
            time.sleep(0.01)
    assert pressed() and "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("pressed", [True, False])
def test_what_ctrl_c_did_to_a_librarys_thread_is_not_told(pressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a thread that ends with an event loop and finds it closed; a thread that fails by itself is reported."""
    errors = list[object]()
    monkeypatch.setattr(threading, "excepthook", errors.append)
    with ending.listening():
        if pressed:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        thread = threading.Thread(target=lambda: [][0])
        thread.start()
        thread.join()
    assert len(errors) == (not pressed)


def test_a_thread_that_is_not_the_first_hears_nothing() -> None:
    results = list[bool]()

    def work() -> None:
        with ending.listening() as pressed:
            results.append(pressed())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]


def test_who_was_started_deaf_stays_deaf() -> None:
    """As with nohup or in the background of a script, where Ctrl-C is meant for another process."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending.listening() as pressed:
            signal.raise_signal(signal.SIGINT)
            assert not pressed()
    finally:
        signal.signal(signal.SIGINT, handler)


def test_ctrl_c_while_the_commands_are_made_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.main.get_command", lambda app: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == ending.INTERRUPTED
