"""Progress is on stderr: a bar on a terminal, lines in a log; it changes no table or JSON on stdout."""

import sys
from time import sleep

import pytest

from saferec_builder import planning
from saferec_builder.cli import plan, progress
from saferec_builder.core import progress as steps
from saferec_builder.storage.workspace import Workspace
from tests.worlds.bars import steps_take


def test_a_log_has_lines_beside_what_is_printed(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_take(30.0, monkeypatch)
    with progress.bar("mine", "file")(3000) as bar:
        bar.update(1000)
    assert capsys.readouterr() == ("", "mine: 1,000 of 3,000 files, about 60 s left\n")


def test_a_terminal_has_a_bar(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.bar("mine", "file")(2) as bar:
        bar.update(2)
    out, err = capsys.readouterr()
    assert out == "" and "mine: 100%" in err and "2/2" in err


def test_the_forecast_after_a_command_is_named(capsys, monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> None:
    """`mine` printed its counts, and then seemed to hang: "mine: at work for 3 min"."""
    monkeypatch.setattr(steps, "PATIENCE", 0.01)
    monkeypatch.setattr(planning, "shortfalls", lambda ws: sleep(0.1) or ("nothing is clear",))
    plan.warn(workspace)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("forecasting a release: at work for 1 s", "warning: nothing is clear")
