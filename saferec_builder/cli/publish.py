"""The commands publish and verify: copy a release out of the workspace, and check a copy."""

from pathlib import Path
from typing import Annotated

import typer

from exports import publish as stage, verify as proof
from saferec_builder.cli.output import Folder, Json, Repo, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def publish(
    version: Annotated[str | None, typer.Argument(help="Default: the newest release.", show_default=False)] = None,
    *,
    to: Annotated[Path | None, typer.Option(help="Folder that becomes the release.", show_default=False)] = None,
    hub: Annotated[bool, typer.Option("--hub", help="One commit and a tag on the Hugging Face Hub.")] = False,
    repo: Repo = None,
    public: Annotated[bool, typer.Option("--public", help="Everybody may find it; default: private.")] = False,
    gated: Annotated[bool, typer.Option("--gate/--no-gate", help="Readers agree to share their name first.")] = True,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent, change nothing; --hub asks the Hub.")
    ] = False,
    sign: Annotated[Path | None, typer.Option(help="SSH key that signs SHA256SUMS.", show_default=False)] = None,
    found_again: Annotated[bool, typer.Option("--found-again", help="Though people are found in its source.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Copy a release to a folder, or send it to the Hugging Face Hub."""
    if (to is None) == (not hub):
        raise typer.BadParameter("say where: --to FOLDER or --hub", param_hint="--to / --hub")
    ws = Workspace.open(folder)
    options = {"public": public, "gated": gated, "dry": dry, "found_again": found_again}
    result = stage.publish(ws, version, to=to, repo=repo, sign=sign, **options)
    if on_hub := result.on_hub:
        figures: dict[str, JsonValue] = {"dry_run": True} if dry else {}
        figures |= {"url": on_hub.url, "tag": on_hub.tag, "commit": on_hub.commit, "deleted_there": on_hub.deleted}
    else:
        figures = {"release": result.version, "would_go_to" if dry else "to": str(result.to)}
    figures |= {} if dry else {"next": result.advice}
    say(Counts("publish", result.added, result.skipped, figures=figures), as_json, "files")


def verify(
    what: Annotated[str, typer.Argument(help="Folder or version of a release, or NAMESPACE/NAME@VERSION (Hub).")],
    *,
    signer: Annotated[Path | None, typer.Option(help="OpenSSH allowed_signers file.", show_default=False)] = None,
    identity: Annotated[str | None, typer.Option(help="Who must have signed it.", show_default=False)] = None,
    digest: Annotated[str | None, typer.Option(help="sha256 of its SHA256SUMS.", show_default=False)] = None,
    contamination: Annotated[list[Path] | None, typer.Option(help="A text to search for the canary.")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Check a release: every file against SHA256SUMS and manifest.json, rows and columns of every table."""
    path = folder / "releases" / what  # a version in the workspace
    what = str(path) if "/" not in what and not Path(what).exists() and path.is_dir() else what
    result = proof.verified(what, signers=signer, identity=identity, digest=digest, contamination=contamination or ())
    facts = {name: getattr(result, name) for name in ("rows", "digest", "signed", "canary_in", "withdrawn")}
    figures = {"release": f"{result.name} {result.version}"} | {n: v for n, v in facts.items() if v is not None}
    say(Counts("verify", skipped=result.files, figures=figures), as_json, "files", writes=False)
    if not as_json:
        bounds = "its bounds on the labels follow from their counts" if result.bounds else "it states no bounds"
        typer.echo(f"whole, and unchanged since its checksums were made; {bounds}")
