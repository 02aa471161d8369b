"""withdraw: a version is taken back: marked here and on the Hub, or erased from the Hub's history."""

from pathlib import Path
from typing import Annotated

import typer

from exports import withdraw as stage
from saferec_builder.cli.output import Folder, Json, Repo, say
from saferec_builder.core.counts import Counts
from saferec_builder.storage.workspace import Workspace


def withdraw(
    version: Annotated[str, typer.Argument(help="The version to take back.")],
    *,
    reason: Annotated[str, typer.Option(help="Why: it stands on the card, for everyone.")],
    hub: Annotated[bool, typer.Option("--hub", help="Also on the Hugging Face Hub.")] = False,
    repo: Repo = None,
    erase: Annotated[bool, typer.Option("--erase", help="Remove its tag and history on the Hub. No way back.")] = False,
    sign: Annotated[Path | None, typer.Option(help="SSH key that signs the mark there.", show_default=False)] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Mark a version as withdrawn: publish refuses it, later cards say why; --hub marks the published card too."""
    made = stage.withdraw(Workspace.open(folder), version, reason, hub=hub, repo=repo, erase=erase, sign=sign)
    figures = {"version": version, "reason": reason} | ({} if made.on_hub is None else {"hub": made.on_hub})
    say(Counts("withdraw", int(made.new), int(not made.new), figures=figures), as_json, "marks")
