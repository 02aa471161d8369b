"""The commands init and status. A workspace is a folder with a saferec.toml."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder import summary
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import workspace


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make; one that exists is kept.")], as_json: Json = False
) -> None:
    """Make a workspace with a commented saferec.toml."""
    is_new = workspace.make(folder, demo=False)
    if not as_json:
        typer.echo(line(f"{folder / 'saferec.toml'}: {('there already', 'made; each setting has a comment')[is_new]}"))
    say(Counts("init", int(is_new), int(not is_new)), as_json, "")
    first = "" if folder.samefile(".") else f"`cd {shlex.quote(str(folder))}`, then "
    onward(workspace.Workspace.open(folder), as_json, first)


def onward(ws: workspace.Workspace, as_json: bool, first: str = "", labels: int = 0, planned: bool = False) -> None:
    """Prints the next step, as the end of a command for people."""
    if not as_json:
        typer.echo(summary.shown(f"{first}{summary.next_step(ws, labels=labels, planned=planned)}"))


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """What the workspace holds, table by table, and what to do next."""
    state = summary.status(workspace.Workspace.open(folder))
    if not as_json:
        typer.echo(state)
        return
    figures: dict[str, JsonValue] = {"tables": state.rows, "releases": state.releases}
    figures |= {name: values for name in ("emptied", "withdrawn") if (values := getattr(state, name))}
    figures |= {"unanswered": state.unanswered, "next": state.next}
    if state.spent.height:
        figures["spent"] = {row.pop("model"): row for row in state.spent.to_dicts()}
    say(Counts("status", skipped=sum(state.rows.values()), figures=figures), as_json)
