"""What the demo says at its end; tests/flows/test_line.py runs it."""

from pathlib import Path

import pytest

from saferec_builder.demo import walkthrough
from tests.conftest import Cli


def test_the_table_that_training_printed_is_not_printed_again(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.txt").write_text("guard  .560\n")
    made = walkthrough.Demo(tmp_path / "releases", tmp_path / "report.html", tmp_path)
    monkeypatch.setattr(walkthrough, "run", lambda *_, **__: made)
    ran = cli("demo", "--to", tmp_path)
    assert ran.out.split() == ["release", str(made.release), "report", str(made.report), "models", str(tmp_path)]
