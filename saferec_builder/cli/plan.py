"""plan: what a release of this workspace would hold, and what to do next."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder import planning
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.core import titles
from saferec_builder.core.counts import Counts
from saferec_builder.storage.workspace import Workspace


def plan(
    budget: Annotated[int, typer.Option(help="How many look-ups to list.", min=1)] = 20,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Forecast a release as if reviewers agreed with every proposal, and list the look-ups that settle most."""
    found = planning.plan(Workspace.open(folder), budget=budget)
    rows, next_up = found.rows.to_dicts(), found.lookups.to_dicts()
    figures = {name: value for name, value in vars(found).items() if name not in ("left_out", "rows", "lookups")}
    counts = Counts("plan", skipped=found.conversations, dropped=found.left_out, figures=figures)
    if as_json:
        say(replace(counts, figures=figures | {"rows": rows, "lookups": next_up}), as_json)
        return
    if rows:
        typer.echo("requests that a release would hold, by trait and split (usable: an answer is clear for it)")
    for row in rows:
        typer.echo("{asked:>6} asked  {answered:>6} answered  {usable:>6} usable  {trait} {split}".format(**row))
    for row in next_up:
        typer.echo(f"{row['waiting']:>6} waiting  {line(titles.shown(row))} [{row['domain']}]")
    if next_up:
        typer.echo("waiting: pairs of a request and a trait that the item is unknown for, which a look-up would settle")
    say(counts, as_json, "conversations")


def warn(ws: Workspace) -> None:
    """On stderr: why a release would hold no safety row, before anybody spends time on it."""
    for shortfall in planning.shortfalls(ws):
        typer.echo(f"warning: {line(shortfall)}", err=True)
