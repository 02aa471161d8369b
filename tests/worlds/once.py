"""A workspace that is made once in a run of the tests, and copied for each of them."""

import shutil
from pathlib import Path

from typer.testing import CliRunner

from saferec_builder.cli.app import app
from saferec_builder.storage import workspace as store


def command(*words: object) -> None:
    """A command of ours, in this process."""
    ran = CliRunner().invoke(app, list(map(str, words)))
    assert ran.exit_code == 0, f"{words}\n{ran.output}\n{ran.exception}"


def released(ws: store.Workspace, *words: object) -> Path:
    """The folder of the workspace, with release 1.0.0."""
    command("release", "1.0.0", *words, "-C", ws.root)
    return ws.root


def copied(made: Path, to: store.Workspace) -> store.Workspace:
    """A copy in the place of an empty workspace."""
    shutil.copytree(made, to.root, dirs_exist_ok=True)
    return store.Workspace.open(to.root)
