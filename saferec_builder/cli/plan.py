"""The command plan: what a release of this workspace would hold, and what to do next."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from exports import build_rows
from saferec_builder import planning
from saferec_builder.cli.output import Folder, Json, line, say, working
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def plan(
    budget: Annotated[int, typer.Option(help="How many look-ups to list.", min=1)] = 20,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Forecast a release made now, and one after people read every conversation and agreed with every proposal.

    And list the items to look up first: those that settle most. Each shortfall is a reason for no safety row.
    """
    ws = Workspace.open(folder)
    forecast = planning.plan(ws, budget=budget)
    dropped, no_rows = build_rows.apart(forecast.left_out)
    figures: dict[str, JsonValue] = {"in_conversations_only": {**no_rows}} if no_rows or as_json else {}
    counts = Counts("plan", skipped=forecast.conversations + sum(no_rows.values()), dropped=dropped, figures=figures)
    if as_json:
        say(replace(counts, figures=figures | planning.figures(forecast)), as_json)
        return
    typer.echo("\n".join(map(line, planning.lines_of(forecast))))
    say(counts, as_json, "conversations", writes=False)
    typer.echo("\n".join(map(line, planning.outcome_lines(forecast))))
    has_shortfall = any(reason != planning.NOTHING for reason in forecast.shortfalls)
    onward(ws, as_json, "mend each shortfall; after that, " if has_shortfall else "", planned=True)


def warn(ws: Workspace) -> None:
    """Warns on stderr why a release would hold no safety row, before anybody spends time on it."""
    for shortfall in working("forecasting a release")(planning.shortfalls)(ws):
        typer.echo(f"warning: {line(shortfall)}", err=True)
