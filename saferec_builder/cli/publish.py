"""publish and verify: a release leaves the workspace, and anyone can prove what they hold."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts


def publish(
    version: Annotated[str | None, typer.Argument(help="Default: the newest release.", show_default=False)] = None,
    *,
    to: Annotated[Path | None, typer.Option(help="Folder that becomes the release.", show_default=False)] = None,
    hub: Annotated[bool, typer.Option("--hub", help="One commit and a tag on the Hugging Face Hub.")] = False,
    repo: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME on the Hub; default: repo in saferec.toml.", show_default=False)
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Everybody may find it; default: private.")] = False,
    gated: Annotated[bool, typer.Option("--gate/--no-gate", help="Readers agree to share their name first.")] = True,
    dry: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, change nothing.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Copy a release to a folder, or send it to the Hugging Face Hub."""
    from exports.withdraw import reasons
    from saferec_builder.core.errors import ReleaseError
    from saferec_builder.storage import workspace as store

    if (to is None) == (not hub):
        raise typer.BadParameter("say where: --to FOLDER or --hub", param_hint="--to / --hub")
    ws = store.Workspace.open(folder)
    home = find(ws.releases, version)
    if home.name in reasons(ws.releases):
        raise ReleaseError(f"release {home.name} was withdrawn: {reasons(ws.releases)[home.name]}; publish another one")
    with store.alone(ws, "publish"):
        _refuse_removed(ws, home)
        if to is not None:
            counts = _copy(home, to, dry)
        else:
            counts = _send(home, repo or ws.config.dataset.repo, public, gated, dry)
    say(counts, as_json, "files")


def _refuse_removed(ws: Any, home: Path) -> None:
    """Stops where somebody in it has asked to be removed since, and says which version is without them."""
    from exports import folder as write, removed, versioning as versions
    from exports.checks import check_version
    from exports.withdraw import reasons
    from saferec_builder.core.errors import ReleaseError

    held = removed.still_in(ws, home)
    if not held:
        return
    there = sorted(write.versions(ws.releases), key=check_version, reverse=True)
    later = [v for v in there if check_version(v) > check_version(home.name) and v not in reasons(ws.releases)]
    clean = next((v for v in later if not removed.still_in(ws, ws.releases / v)), None)
    wanted = versions.above(there[0], "major")  # rows are gone
    what = f"publish {clean}" if clean else f"make {wanted} (`saferec-build release {wanted}`) and publish that"
    raise ReleaseError(
        f"release {home.name} holds {len(held)} conversations whose removal removals.csv asks for, first {held[0]}:"
        f" {what}, which is without them; if {home.name} is out already, `saferec-build withdraw {home.name}` takes it"
        " back"
    )


def _copy(home: Path, to: Path, dry: bool) -> Counts:
    from exports import verify as proof

    if dry:
        _, files = proof.verify(home)
        return Counts("publish", files, figures={"release": home.name, "would_go_to": str(to)})
    added, skipped = proof.copy(home, to)
    return Counts("publish", added, skipped, figures={"release": home.name, "to": str(to)})


def _send(home: Path, repo: str | None, public: bool, gated: bool, dry: bool) -> Counts:
    from exports import hub, verify as proof
    from saferec_builder.core.errors import UsageError

    if not repo:
        raise UsageError("publish --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    proof.verify(home)
    sent = hub.publish(home, repo, public=public, gated=gated, dry=dry)
    figures: dict[str, Any] = {"dry_run": True} if dry else {}
    figures |= {"url": sent.url, "tag": sent.tag, "commit": sent.commit, "deleted_there": sent.deleted}
    return Counts("publish", sent.added, sent.skipped, figures=figures)


def find(releases: Path, version: str | None) -> Path:
    """The folder of that version, or of the newest."""
    from exports import folder as write
    from exports.checks import check_version
    from saferec_builder.core.errors import ReleaseError

    there = sorted(write.versions(releases), key=check_version)
    if not there:
        raise ReleaseError(f"{releases}: no release yet: run `saferec-build release 1.0.0` first")
    if version is not None and version not in there:
        raise ReleaseError(f"{releases}: no release {version!r}; there are {', '.join(there)}")
    return releases / (version or there[-1])


def verify(
    what: Annotated[str, typer.Argument(help="Folder of a release, or NAMESPACE/NAME@VERSION on the Hub.")],
    as_json: Json = False,
) -> None:
    """Check a release: every file against SHA256SUMS and manifest.json, rows and columns of every table."""
    import re
    import tempfile

    from exports import hub, verify as proof

    found = re.fullmatch(r"([^/@]+/[^/@]+)@v?(\d+\.\d+\.\d+)", what)
    figures: dict[str, Any] = {}
    if found and not Path(what).exists():
        with tempfile.TemporaryDirectory() as folder:
            withdrawn = hub.fetch(found[1], found[2], Path(folder) / "release")
            manifest, files = proof.verify(Path(folder) / "release")
        figures = {} if withdrawn is None else {"withdrawn": withdrawn}
    else:
        manifest, files = proof.verify(Path(what), hub.BESIDE)
    total = sum(sum(splits.values()) for splits in manifest.counts.values())
    figures = {"release": f"{manifest.name} {manifest.version}", "rows": total, **figures}
    say(Counts("verify", skipped=files, figures=figures), as_json, "files")
