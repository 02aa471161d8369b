"""rebuild: a release whose texts stay with their sources gets them back from what was mined here."""

from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts


def rebuild(
    release: Annotated[Path, typer.Argument(help="Folder of a release without texts, as published.")],
    to: Annotated[Path, typer.Option(help="New folder: the release with its texts.")],
    *,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Put withheld texts back: mine the same sources into this workspace first. For your own use, not to pass on."""
    from exports import folder as write, injection as inject, rebuild as stage
    from saferec_builder.mining import withheld
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    mined = store.read(ws, tables.CONVERSATIONS).select("conversation", "digest", "turns")
    banks, traits = inject.banks(), write.read_manifest(release).model_dump().get("injected_traits", [])
    gone = withheld.erased(ws)
    told = stage.rebuild(release, to, mined, gone, lambda name, split: inject.drawn(name, split, traits, banks)[0])
    added, skipped = (told.back, 0) if told.new else (0, told.back)
    say(Counts("rebuild", added, skipped, told.lost, {"release": str(to)}), as_json)
