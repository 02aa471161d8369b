"""The command screen: what the lists of a recommender show to people with each sensitivity."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.catalog import screening
from saferec_builder.cli.catalog_check import Of
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.cli.progress import bar
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def screen(
    recs: Annotated[Path, typer.Argument(help="Lists as JSON lines: titles, and model, id or context, group.")],
    *,
    k: Annotated[int, typer.Option("-k", help="How many titles of each list count.", min=1)] = 10,
    trait: Annotated[list[str] | None, typer.Option(help="Slug of a sensitivity.", show_default="all")] = None,
    domain: Of = None,
    causes: Annotated[int, typer.Option(help="Works to name for each trait and model.", min=0)] = 3,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Screen lists of any recommender: violated, clear and unknown titles per trait and model, and what causes them.

    Models that answered the same requests are compared on them. Nothing is written.
    """
    progress = bar("screen", "list")
    stats = screening.screen(Workspace.open(folder), recs, k=k, traits=trait or (), domain=domain, progress=progress)
    if not as_json:
        typer.echo("\n".join(map(line, screening.lines_of(stats, causes))))
    tables = {"rates": stats.rates, "unknown": stats.unknown, "causes": stats.causes, "differences": stats.differences}
    figures: dict[str, JsonValue] = {name: table.to_dicts() for name, table in tables.items()} if as_json else {}
    figures |= {name: [*getattr(stats, name)] for name in ("never_violated", "never_clear")} if as_json else {}
    lists = {} if as_json else {"lists": stats.counts.out}
    say(replace(stats.counts, figures={**lists, **stats.counts.figures, **figures}), as_json, "")
