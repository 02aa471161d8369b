"""What every reader of a release looks at before its rows: checksums, and whether the version was withdrawn."""

import hashlib
from pathlib import Path, PurePosixPath

from saferec_builder.core.errors import ReleaseError, whole_object
from saferec_builder.core.plain_files import read_plain

SUMS = "SHA256SUMS"
# version -> why it was withdrawn: on main of a repository (and in what is downloaded of it), and beside a workspace's
# releases
WITHDRAWN, WITHDRAWN_HERE = "WITHDRAWN.json", "withdrawn.json"


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(manifest: bytes) -> str:
    """What a report calls a release beside its name and version: of manifest.json, which holds every file's sha256."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def read_sums(folder: Path) -> dict[str, str]:
    """path in the release -> sha256."""
    path = folder / SUMS
    try:
        lines = read_plain(path).decode().removesuffix("\n").split("\n")  # as `sha256sum -c` reads them
    except (OSError, UnicodeDecodeError):
        raise ReleaseError(f"{path}: missing or not a text: build or fetch the release again") from None
    pairs = [line.split("  ", 1) for line in lines]
    if any(len(pair) != 2 or not _inside(pair[1]) for pair in pairs):
        raise ReleaseError(f"{path}: a line is not `sha256  path` with a path inside the release")
    return {path: digest for digest, path in pairs}


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts


def refuse_changed(folder: Path, path: str) -> None:
    """Stops where a file of the release is not what its checksum says."""
    if (found := sha256(folder / path)) != (expected := read_sums(folder).get(path, "no sum of it")):
        raise ReleaseError(
            f"{folder / path}: was changed after the release was made (sha256 {found[:12]}…, {SUMS} has"
            f" {expected[:12]}…): build or fetch the release again"
        )


def why_withdrawn(folder: Path, version: str) -> str | None:
    """As the folder says, where it was downloaded, or the workspace beside its releases; None where neither does."""
    return (withdrawn_in(folder.resolve().parent / WITHDRAWN_HERE) | withdrawn_in(folder / WITHDRAWN)).get(version)


def withdrawn_in(path: Path) -> dict[str, str]:
    """What one of the two files says; nothing where there is none."""
    found = whole_object(read_plain(path)) if path.exists() else {}
    if found is None:
        raise ReleaseError(
            f"{path}: damaged, nobody can tell what was withdrawn: put your copy of it back, or fetch the release again"
        )
    return {str(version): str(reason) for version, reason in found.items()}
