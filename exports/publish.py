"""A release leaves the workspace: as a copy in a folder, or as a commit on the Hugging Face Hub."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from exports import (
    folder,
    hub,
    removals_since_release as removed,
    required_version_bump as versioning,
    signing,
    verify,
    withdraw,
)
from exports.checks import check_version
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.storage.workspace import Workspace, alone, shared


@dataclass(frozen=True)
class Published:
    """Where a version went, or with `dry` would go, and how many of its files had to be brought there."""

    version: str
    to: Path | None  # None where it went to the Hub
    added: int
    skipped: int
    dry: bool
    on_hub: hub.Published | None = None

    @property
    def advice(self) -> str:
        """What to do with it now."""
        what = f"{self.on_hub.repo}@{self.version}" if self.on_hub else shlex.quote(str(self.to))
        return f"whoever has it can check it: `saferec-build verify {what}`"


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
) -> Published:
    """Copies a version (default: the newest) to the folder `to`; without one it goes to the Hub.

    repo: NAMESPACE/NAME, default [dataset] repo. public: everybody may find it. gated: readers agree to share their
    name first. dry: nothing is changed. sign: an SSH key; SHA256SUMS.sig goes with the release. ReleaseError where the
    version was withdrawn, or somebody in it has asked to be removed since.
    """
    home = versioning.find(ws.releases, version)
    withdrawn = withdraw.reasons(ws.releases)
    if home.name in withdrawn:
        raise ReleaseError(f"release {home.name} was withdrawn: {withdrawn[home.name]}; publish another one")
    if to is not None:
        verify.check_outside(to, ws.releases)
    with alone(ws, "publish"):
        _refuse_removed(ws, home)
        with _signed(home, None if dry else sign):
            if to is None:
                return _send(home, repo or ws.config.dataset.repo, public, gated, dry)
            added, skipped = verify.copy(home, to, withdrawn, dry=dry)
            return Published(home.name, to, added, skipped, dry)


@contextmanager
def _signed(home: Path, key: Path | None) -> Iterator[None]:
    """The release with a signature by this key; where it could not be published, with what it had before."""
    if key is None:
        yield
        return
    verify.verify(home)  # nobody puts their name under damage
    path, kept = home / folder.SIGNATURE, None
    if path.exists():
        kept = path.read_bytes()
    signing.sign(home, key)
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        if kept is not None:
            path.write_bytes(kept)
        raise


def _send(home: Path, repo: str | None, public: bool, gated: bool, dry: bool) -> Published:
    if not repo:
        raise UsageError("publish --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    verify.verify(home)
    sent = hub.publish(home, repo, public=public, gated=gated, dry=dry)
    return Published(home.name, None, sent.added, sent.skipped, dry, sent)


def _refuse_removed(ws: Workspace, home: Path) -> None:
    """Stops where somebody in it has asked to be removed since, and says which version is without them."""
    held = removed.still_in(ws, home)
    if not held:
        return
    there, gone = sorted(folder.versions(ws.releases), key=check_version, reverse=True), withdraw.reasons(ws.releases)
    later = [v for v in there if check_version(v) > check_version(home.name) and v not in gone]
    clean = next((v for v in later if not removed.still_in(ws, ws.releases / v)), None)
    next_one = versioning.above(there[0], "major")  # rows are gone
    what = f"publish {clean}" if clean else f"make {next_one} (`saferec-build release {next_one}`) and publish that"
    raise ReleaseError(
        f"release {home.name} holds {len(held)} conversations whose removal removals.csv asks for, first {held[0]}:"
        f" {what}, which is without them; if {home.name} is out already, `saferec-build withdraw {home.name}` takes it"
        " back"
    )
