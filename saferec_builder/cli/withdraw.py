"""withdraw: a version is taken back: marked here and on the Hub, or erased from the Hub's history."""

from pathlib import Path
from typing import Annotated, Any

import typer

from exports.withdraw import mark
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts


def withdraw(
    version: Annotated[str, typer.Argument(help="The version to take back.")],
    *,
    reason: Annotated[str, typer.Option(help="Why: it stands on the card, for everyone.")],
    hub: Annotated[bool, typer.Option("--hub", help="Also on the Hugging Face Hub.")] = False,
    repo: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME on the Hub; default: repo in saferec.toml.", show_default=False)
    ] = None,
    erase: Annotated[bool, typer.Option("--erase", help="Remove its tag and history on the Hub. No way back.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Mark a version as withdrawn: publish refuses it, later cards say why; --hub marks the published card too."""
    from exports import folder as write
    from saferec_builder.core.errors import ReleaseError, UsageError
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    name = repo or ws.config.dataset.repo
    if not reason.strip():
        raise UsageError("withdraw --reason is empty: say why, for it stands on the card")
    if erase and not hub:
        raise UsageError("withdraw --erase is for the Hub: say --hub, or delete the folder of the release yourself")
    if hub and not name:
        raise UsageError("withdraw --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    if not hub and version not in write.versions(ws.releases):
        there = ", ".join(write.versions(ws.releases)) or "none"
        raise ReleaseError(f"{ws.releases}: no release {version!r}; there are {there}")
    figures: dict[str, Any] = {"version": version, "reason": reason}
    if hub and name:  # first: it knows whether there is such a version, and a mark here has no way back
        from exports.withdraw import on_hub

        figures["hub"] = on_hub(name, version, reason, erase=erase)
    with store.alone(ws, "withdraw", wait=True):
        new = mark(ws.releases, version, reason)
    say(Counts("withdraw", int(new), int(not new), figures=figures), as_json, "marks")
