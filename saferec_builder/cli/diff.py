"""diff: what changed between two releases, and what looks like damage."""

import json
from pathlib import Path
from typing import Annotated

import typer

from exports import diff as stage, required_version_bump as versioning
from saferec_builder.cli.output import Folder, line
from saferec_builder.core.errors import plain
from saferec_builder.storage.workspace import Workspace


def diff(
    before: Annotated[str, typer.Argument(help="A version of this workspace, or the folder of a release.")],
    after: Annotated[str, typer.Argument(help="The later one.")],
    *,
    predictions: Annotated[
        Path | None,
        typer.Option(help="A model's answers (JSONL): the change in its SVR and Recall.", show_default=False),
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="As a section of Markdown for a card.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    folder: Folder = Path("."),
) -> None:
    """Compare two releases: rows, label flips with the reviews behind them, agreement, alarms. Exit 0 either way."""
    found = stage.diff(_home(before, folder), _home(after, folder), predictions)
    if as_json:
        typer.echo(json.dumps({"command": "diff", **found.as_json()}, ensure_ascii=False))
        return
    typer.echo(plain(stage.as_text(found)), nl=False)
    for flip in [] if card else found.flipped[:20]:
        reviews = ", ".join(f"{r['reviewer'][:6]} ({r['role']}) {r['verdict']}" for r in flip["reviews"])
        behind = reviews or ("other reviews, not released" if flip["other_reviews"] else "no other review")
        typer.echo(line(f"  {flip['conversation']} {flip['trait']}: {flip['from']} -> {flip['to']}; {behind}"))


def _home(name: str, folder: Path) -> Path:
    path = Path(name)
    return path if path.is_dir() else versioning.find(Workspace.open(folder).releases, name)
