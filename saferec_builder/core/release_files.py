"""Checks that every reader of a release makes before it reads rows: checksums, and withdrawn versions."""

import hashlib
from pathlib import Path, PurePosixPath

from saferec_builder.core.errors import ReleaseError, plain, whole_object
from saferec_builder.core.plain_files import read_plain

SUMS = "SHA256SUMS"
# files of version -> reason of its withdrawal: on main of a repository (and in downloads of it), and beside the
# releases of a workspace
WITHDRAWN, WITHDRAWN_HERE = "WITHDRAWN.json", "withdrawn.json"


def is_release(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (SUMS, "manifest.json"))


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(manifest: bytes) -> str:
    """The id of a release in reports, beside name and version: a digest of manifest.json, with every file's sha256."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def read_sums(folder: Path) -> dict[str, str]:
    """Returns path in the release -> sha256."""
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
    """Raises ReleaseError where a file of the release does not have its checksum."""
    if (actual := sha256(folder / path)) != (expected := read_sums(folder).get(path, "no sum of it")):
        raise ReleaseError(
            f"{folder / path}: was changed after the release was made (sha256 {actual[:12]}…, {SUMS} has"
            f" {expected[:12]}…): build or fetch the release again"
        )


def why_withdrawn(folder: Path, version: str) -> str | None:
    """Why the version was withdrawn, from the folder (a download) or beside it (a workspace); None where it was not."""
    return (withdrawn_in(folder.resolve().parent / WITHDRAWN_HERE) | withdrawn_in(folder / WITHDRAWN)).get(version)


def withdrawn_in(path: Path) -> dict[str, str]:
    """Returns version -> reason from one of the two files; empty where there is no file."""
    reasons = whole_object(read_plain(path)) if path.exists() else {}
    if reasons is None:
        raise ReleaseError(
            f"{path}: damaged, nobody can tell what was withdrawn: put your copy of it back, or fetch the release again"
        )
    return {plain(str(version)): plain(str(reason)) for version, reason in reasons.items()}
