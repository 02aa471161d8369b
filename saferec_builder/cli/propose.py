"""The command propose: rules, `learned`, a model, a cascade or a jury read what was not read yet."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.cli.plan import warn
from saferec_builder.cli.progress import bar
from saferec_builder.cli.workspace import onward
from saferec_builder.proposing import run
from saferec_builder.storage.workspace import Workspace


def propose(
    *,
    proposer: Annotated[
        str | None,
        typer.Option(
            help="rules | learned | openai[:MODEL] | batch[:MODEL] | a cascade A,B,C | jury;"
            " default: rules, and learned once it is as precise."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model of --proposer openai or batch.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Of its server; default: saferec.toml, else OpenAI.")] = None,
    items: Annotated[bool, typer.Option("--items", help="Flag items of unknown verdict, from their plots.")] = False,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Text may leave this machine.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print tokens and price; send and write nothing.")] = False,
    budget_usd: Annotated[
        float | None, typer.Option(min=0, help="Stop before all runs here together cost more.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most so many that were not read yet.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Pay again for answers of no use.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Propose seekers' sensitivities with evidence from their words, or flags of items from their plots."""
    ws = Workspace.open(folder)
    result = run.propose(
        ws,
        proposer,
        model=model,
        base_url=base_url,
        items=items,
        allow_remote=allow_remote,
        dry_run=dry_run,
        budget_usd=budget_usd,
        limit=limit,
        retry_failed=retry_failed,
        progress=None if as_json else partial(bar, at_once=ws.config.propose.concurrency),
    )
    say(result.counts, as_json, "" if dry_run else result.unit)
    if not dry_run:
        warn(ws)
        onward(ws, as_json, result.resume)
