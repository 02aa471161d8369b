"""rebuild: a release whose texts stay with their sources gets them back from what was mined here."""

from pathlib import Path
from typing import Annotated

import typer

from exports import rebuild as stage
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def rebuild(
    release: Annotated[str, typer.Argument(help="Folder of a release without texts, or NAMESPACE/NAME@VERSION (Hub).")],
    to: Annotated[Path, typer.Option(help="New folder: the release with its texts.")],
    *,
    key: Annotated[Path | None, typer.Option(help="Its key file, VERSION.key.parquet, from who published it.")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Put withheld texts back: mine the same sources into this workspace first. For your own use, not to pass on."""
    made = stage.rebuild(Workspace.open(folder), release, to, key)
    added, skipped = (made.back, 0) if made.new else (0, made.back)
    figures: dict[str, JsonValue] = {"release": str(to)}
    if stage.OTHER in made.lost:
        figures["next"] = stage.CATALOG
    say(Counts("rebuild", added, skipped, made.lost, figures), as_json)
