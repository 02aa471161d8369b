"""The command report: the workspace, a release and its training runs on one page that needs no network."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from exports.report import page
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.storage.workspace import Workspace


def report(
    release: Annotated[str | None, typer.Option(help="Which release; default: newest.", show_default=False)] = None,
    runs: Annotated[list[Path] | None, typer.Option(help="Folder with training's report.json. Repeatable.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Write report.html: pipeline, labels, agreement, the catalog's coverage, examples and the models' results."""
    ws = Workspace.open(folder)
    result = page.write(ws, release, runs or ())
    for warning in result.warnings:
        typer.echo(f"warning: {line(warning)}", err=True)
    figures = {"report": str(result.path), "release": result.release, "bytes": result.bytes, "runs": len(runs or ())}
    say(Counts("report", int(result.new), int(not result.new), figures=figures), as_json, "pages")
    if not (result.release or runs):  # whoever has only runs has what there is
        onward(ws, as_json)
    if show:
        webbrowser.open(result.path.resolve().as_uri())
