"""The output at the end of the demo; tests/flows/test_line.py runs the demo itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from saferec_builder import summary
from saferec_builder.demo import walkthrough
from tests.conftest import Cli


def test_the_table_that_training_printed_is_not_printed_again(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.txt").write_text("guard  .560\n")
    result = walkthrough.Demo(tmp_path / "releases", tmp_path / "report.html", tmp_path)
    monkeypatch.setattr(walkthrough, "run", lambda *_, **__: result)
    run = cli("demo", "--to", tmp_path)
    assert run.out.split() == ["release", str(result.release), "report", str(result.report), "models", str(tmp_path)]


def test_ctrl_c_in_a_step_ends_the_demo(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later steps still ran, and the exit code was 0."""
    assert cli("init", tmp_path / "ws").code == 0

    def pressed(_ws: object) -> None:
        raise KeyboardInterrupt

    def run(_to: Path, command: Callable[..., None], *_: object, **__: object) -> None:
        command("status")
        pytest.fail("the next step began")

    monkeypatch.setattr(summary, "status", pressed)
    monkeypatch.setattr(walkthrough, "run", run)
    assert cli("demo", "--to", tmp_path / "ws").code == 130
