"""publish and verify: a release leaves the workspace, and anyone can prove what they hold."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say


def publish(
    version: Annotated[str | None, typer.Argument(help="Default: the newest release.", show_default=False)] = None,
    *,
    to: Annotated[Path | None, typer.Option(help="Folder that becomes the release.", show_default=False)] = None,
    hub: Annotated[bool, typer.Option("--hub", help="One commit and a tag on the Hugging Face Hub.")] = False,
    repo: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME on the Hub; default: repo in saferec.toml.", show_default=False)
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Everybody may read it; default: private.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Copy a release to a folder, or send it to the Hugging Face Hub."""
    from saferec_builder import store

    if (to is None) == (not hub):
        raise typer.BadParameter("say where: --to FOLDER or --hub", param_hint="--to / --hub")
    ws = store.open_workspace(folder)
    home = find(ws.releases, version)
    if to is not None:
        say(_copy(home, to), as_json, "files")
    else:
        say(_send(home, repo or ws.config.dataset.repo, public), as_json, "files")


def _copy(home: Path, to: Path) -> Counts:
    from exports import rows, write

    added, skipped = write.copy(home, to, rows.schemas())
    return Counts("publish", added, skipped, figures={"release": home.name, "to": str(to)})


def _send(home: Path, repo: str | None, public: bool) -> Counts:
    from exports import hub, rows, write
    from saferec_builder.errors import UsageError

    if not repo:
        raise UsageError("publish --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    write.verify(home, rows.schemas())
    sent = hub.publish(home, repo, public=public)
    figures: dict[str, Any] = {"url": sent.url, "tag": sent.tag, "commit": sent.commit, "deleted_there": sent.deleted}
    return Counts("publish", sent.added, sent.skipped, figures=figures)


def find(releases: Path, version: str | None) -> Path:
    """The folder of that version, or of the newest."""
    from exports import write
    from saferec_builder.errors import ReleaseError
    from saferec_builder.release import check_version

    there = sorted(write.versions(releases), key=check_version)
    if not there:
        raise ReleaseError(f"{releases}: no release yet: run `saferec-build release 1.0.0` first")
    if version is not None and version not in there:
        raise ReleaseError(f"{releases}: no release {version!r}; there are {', '.join(there)}")
    return releases / (version or there[-1])


def verify(
    path: Annotated[Path, typer.Argument(help="Folder of a release, wherever it lies.")], as_json: Json = False
) -> None:
    """Check a release: every file against SHA256SUMS and manifest.json, rows and columns of every table."""
    from exports import rows, write

    manifest, files = write.verify(path, rows.schemas())
    total = sum(sum(splits.values()) for splits in manifest.counts.values())
    figures = {"release": f"{manifest.name} {manifest.version}", "rows": total}
    say(Counts("verify", skipped=files, figures=figures), as_json, "files")
