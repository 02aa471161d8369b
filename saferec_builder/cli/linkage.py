"""linkage: who has the source of a release, and what they find in it again."""

from pathlib import Path
from typing import Annotated

import typer

from exports import linkage as stage
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def linkage(
    release: Annotated[str, typer.Argument(help="Folder of a release, or NAMESPACE/NAME@VERSION (Hub).")],
    *,
    key: Annotated[Path | None, typer.Option(help="Its key file.", show_default="beside the folder")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Attack a release as whoever has its source can: how many conversations are found, and by what.

    The source is what this workspace has mined of it. Nothing is written.
    """
    made = stage.linkage(Workspace.open(folder), release, key)
    figures: dict[str, JsonValue] = {"found": made.found.to_dicts()} if as_json else {}
    for (source, texts, many), rows in (
        [] if as_json else made.found.group_by("source", "with_text", "of", maintain_order=True)
    ):
        of = f"{source}, {'with' if texts else 'without'} its texts, of {many:,} found by"
        figures[of] = dict(rows.select("attack", "found").iter_rows())
    dropped = {stage.ELSEWHERE: made.elsewhere} if made.elsewhere else {}
    compared = made.conversations - made.elsewhere
    say(Counts("linkage", compared, dropped=dropped, figures=figures), as_json, "conversations")
