"""report: what the workspace, a release and its runs come to, as one page that opens without a network."""

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
    made = page.write(ws, release, runs or ())
    for doubt in made.warnings:
        typer.echo(f"warning: {line(doubt)}", err=True)
    figures = {"report": str(made.path), "release": made.release, "bytes": made.bytes, "runs": len(runs or ())}
    say(Counts("report", int(made.new), int(not made.new), figures=figures), as_json, "pages")
    if not made.release:
        onward(ws, as_json)
    if show:
        webbrowser.open(made.path.resolve().as_uri())
