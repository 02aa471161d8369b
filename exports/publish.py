"""Publishes a release: as a copy in a folder, or as a commit on the Hugging Face Hub."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from exports import (
    folder,
    hub,
    linkage,
    released_ids,
    removals_since_release,
    required_version_bump as versioning,
    signing,
    verify,
    withdraw,
)
from exports.checks import check_version
from saferec_builder.core.counts import many
from saferec_builder.core.errors import HubError, ReleaseError, UsageError
from saferec_builder.mining import removals as wishes
from saferec_builder.storage.workspace import Workspace, alone, shared


@dataclass(frozen=True)
class Published:
    """Where a version was published, or with `dry` would be, and how many files were added or skipped."""

    version: str
    to: Path | None  # None if it was sent to the Hub
    added: int
    skipped: int
    dry: bool
    on_hub: hub.Published | None = None

    @property
    def advice(self) -> str:
        """How readers check the published release."""
        release = f"{self.on_hub.repo}@{self.version}" if self.on_hub else shlex.quote(str(self.to))
        return f"whoever has it can check it: `saferec-build verify {release}`"


@shared
def publish(
    ws: Workspace,
    version: str | None = None,
    *,
    to: Path | None = None,
    repo: str | None = None,
    public: bool = False,
    gated: bool = True,
    dry: bool = False,
    sign: Path | None = None,
    found_again: bool = False,
) -> Published:
    """Copies a version (default: the newest) to the folder `to`, or sends it to the Hub if `to` is not given.

    repo: NAMESPACE/NAME, default [dataset] repo. public: everybody may find it. gated: readers must first agree to
    share their name. dry: nothing is changed. sign: an SSH key; SHA256SUMS.sig is added to the release. found_again:
    the publisher agrees that people are found again. Raises ReleaseError if the version was withdrawn, if somebody in
    it has asked to be removed since, or if linkage.worst finds anybody whose text stays out and nobody has agreed.
    """
    if to is not None and (repo or public or not gated):
        raise UsageError("publish --to: --repo, --public and --no-gate are for the Hub: leave them out, or say --hub")
    release = versioning.find(ws.releases, version)
    withdrawn = withdraw.reasons(ws.releases)
    if release.name in withdrawn:
        raise ReleaseError(f"release {release.name} was withdrawn: {withdrawn[release.name]}; publish another one")
    if to is not None:
        verify.check_outside(to, ws.releases)
    with alone(ws, "publish"):
        _refuse_removed(ws, release)
        if not found_again:
            _refuse_found(ws, release)
        with _signed(release, None if dry else sign):
            if to is None:
                return _send(release, repo or ws.config.dataset.repo, public, gated, dry)
            added, skipped = verify.copy(release, to, withdrawn, dry=dry)
            return Published(release.name, to, added, skipped, dry)


@contextmanager
def _signed(release: Path, key: Path | None) -> Iterator[None]:
    """Signs the release with this key; restores the old signature, if any, if the release cannot be published."""
    if key is None:
        yield
        return
    verify.verify(release)  # a damaged release is not signed
    path = release / folder.SIGNATURE
    old_signature = path.read_bytes() if path.exists() else None
    signing.sign(release, key)
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        if old_signature is not None:
            path.write_bytes(old_signature)
        raise


def _send(release: Path, repo: str | None, public: bool, gated: bool, dry: bool) -> Published:
    if not repo:
        raise UsageError("publish --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    _, files = verify.verify(release)
    try:
        sent = hub.publish(release, repo, public=public, gated=gated, dry=dry)
    except HubError as fault:
        if dry:
            raise HubError(f"{fault}; the release itself ({files:,} files) passes its checks here") from None
        raise
    return Published(release.name, None, sent.added, sent.skipped, dry, sent)


def _refuse_removed(ws: Workspace, release: Path) -> None:
    """Raises ReleaseError if somebody in it has asked to be removed since, and names a version without them."""
    removals = removals_since_release.still_in(ws, release)
    if not removals:
        return
    names, marks = sorted(folder.versions(ws.releases), key=check_version, reverse=True), withdraw.reasons(ws.releases)
    later = [v for v in names if check_version(v) > check_version(release.name) and v not in marks]
    clean = next((v for v in later if not removals_since_release.still_in(ws, ws.releases / v)), None)
    major = versioning.above(names[0], "major")  # rows are gone
    remedy = f"publish {clean}" if clean else f"make {major} (`saferec-build release {major}`) and publish that"
    held = many(len(removals), "conversation", "conversations")
    raise ReleaseError(
        f"release {release.name} holds {held} whose removal {wishes.FILE} asks for, or was carried out"
        f" before (`saferec-build forget` empties what was put back), first {removals[0]}:"
        f" {remedy}, which is without them; if {release.name} is out already,"
        f" `saferec-build withdraw {release.name}` takes it back"
    )


def _refuse_found(ws: Workspace, release: Path) -> None:
    """Raises ReleaseError if whoever has a source finds its conversations in the release, though their texts stay out.
    It looks anew: what is mined since may tell more, or show others who are alike."""
    silent, key = folder.facts_of(release)["silent"], released_ids.path_of(release)
    if silent and not key.exists():
        raise ReleaseError(
            f"{key}: missing, and nobody else can tell whether people are found again: put your copy of it back"
            " (--found-again publishes without looking)"
        )
    found = linkage.worst(ws, release, silent) if silent else {}
    if again := ", ".join(f"{source} {n:,} of {of:,}" for source, (n, of) in found.items() if n):
        raise ReleaseError(
            f"release {release.name}: conversations are found again in their source ({again}), though it keeps their"
            f" texts: `saferec-build linkage {release.name}` says which, and what to do; --found-again publishes it so"
        )
