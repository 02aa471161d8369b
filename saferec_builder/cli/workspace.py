"""init and status: a workspace is a folder with a saferec.toml."""

from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import summary, workspace


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make; one that exists is kept.")], as_json: Json = False
) -> None:
    """Make a workspace with a commented saferec.toml."""
    made = workspace.make(folder, demo=False)
    say(Counts("init", int(made), int(not made)), as_json, "workspaces")


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Rows in each table of the workspace, and its releases."""
    found = summary.status(workspace.Workspace.open(folder))
    figures: dict[str, JsonValue] = {"tables": found.rows, "releases": found.releases}
    if found.spent.height:
        figures["spent"] = {row.pop("model"): row for row in found.spent.to_dicts()}
    say(Counts("status", skipped=sum(found.rows.values()), figures=figures), as_json)
