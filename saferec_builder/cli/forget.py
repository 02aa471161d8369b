"""The command forget: erases people on request, with a receipt of where they were found."""

from pathlib import Path
from typing import Annotated

import typer

from annotation.review_destinations import Argilla, LabelStudio
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.cli.progress import bar
from saferec_builder.cli.review import TOOLS, Token
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts, many
from saferec_builder.core.errors import UsageError
from saferec_builder.erasure import forget as stage
from saferec_builder.storage.workspace import Workspace


def forget(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Ids (of the source, here, or of a release) and authors; default: removals.csv."),
    ] = None,
    *,
    source: Annotated[str, typer.Option(help="The source that the names are of; default: any.")] = "",
    only: Annotated[str, typer.Option(help="What the names are: id or author; default: either.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say where they stand, and change nothing.")] = False,
    tool: Annotated[str | None, typer.Option(help="What is at --url: label-studio (default) or argilla.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Your team's review server, with tasks about them.")] = None,
    token: Token = None,
    no_server: Annotated[bool, typer.Option("--no-server", help="The team's review server is there no more.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Erase people from the workspace for good: tables, review, releases and lists. There is no way back."""
    server = _server(tool, url, token)
    ws = Workspace.open(folder)
    typer.echo("forget: searching the tables, the releases and every file of the workspace", err=True)
    progress = bar("forget", "file")
    filters = {"source": source, "only": only}
    result = stage.forget(ws, names or (), **filters, to=server, no_server=no_server, dry=dry_run, progress=progress)
    say(Counts("forget", sum(result.rows.values()), figures=result.figures(ws.root)), as_json, "")
    if not as_json:
        copies = many(len(result.emptied), "copy of a release", "copies of releases")
        emptied = f", and the data of {copies} deleted" if result.emptied else ""
        typer.echo(f"forget: {result.total} {'would be ' * dry_run}erased{emptied}{'; nothing was changed' * dry_run}")
        if not dry_run:
            onward(ws, as_json)
    if result.fault:
        raise UsageError(result.fault)


def _server(tool: str | None, url: str | None, token: str | None) -> LabelStudio | Argilla | None:
    if tool not in (None, *TOOLS[:2]):
        raise UsageError(f"--tool {tool}: there is no such review server: expected {' or '.join(TOOLS[:2])}")
    if url is None:
        if tool:
            raise UsageError(f"--tool {tool}: of which server? Give its --url, too")
        return None
    return Argilla(url, token or "") if tool == TOOLS[1] else LabelStudio(url, token)
