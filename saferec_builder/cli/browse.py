"""The command browse: prints proposals or labels with their quotes, or texts that readers reported."""

from pathlib import Path
from typing import Annotated

import typer

from annotation import browsing
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.storage.workspace import Workspace


def browse(
    stage: Annotated[str, typer.Argument(help="proposals, labels or reported.")] = "proposals",
    trait: Annotated[str | None, typer.Option(help="Only of this sensitivity.")] = None,
    verdict: Annotated[str, typer.Option(help="present or unsure; absent has no quote to show.")] = "present",
    limit: Annotated[int, typer.Option(help="How many to print (of reported: conversations).", min=1)] = 10,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Read what was proposed, or labelled, beside the seeker's words, or what readers reported as personal data.

    Each quote stands between » and « in its turn; turns count from 1, in --json from 0. Texts of people in a crisis,
    and of those who asked to be removed, are not shown.
    """
    ws = Workspace.open(folder)
    claims = browsing.browse(ws, stage, trait=trait, verdict=verdict)
    rows = browsing.first(claims, stage, limit)
    if as_json:
        return say(Counts("browse", skipped=claims.height, figures={"rows": rows.to_dicts()}), as_json)
    typer.echo("\n".join(map(line, browsing.lines(claims, rows, stage, verdict))))
    if claims.is_empty():
        onward(ws, as_json)
