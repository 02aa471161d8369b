"""A workspace that is made once per run of the tests, and copied for each test."""

import shutil
from pathlib import Path

from typer.testing import CliRunner

from saferec_builder.cli.app import app
from saferec_builder.storage import workspace as store


def command(*words: object) -> str:
    """What a command of ours prints, run in this process."""
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, f"{words}\n{result.output}\n{result.exception}"
    return result.stdout


def released(ws: store.Workspace, *words: object) -> Path:
    """Releases 1.0.0; returns the folder of the workspace."""
    command("release", "1.0.0", *words, "-C", ws.root)
    return ws.root


def copied(made: Path, to: store.Workspace) -> store.Workspace:
    """A copy of `made` in the place of an empty workspace."""
    shutil.copytree(made, to.root, dirs_exist_ok=True)
    return store.Workspace.open(to.root)
