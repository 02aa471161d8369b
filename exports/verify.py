"""Verifies that a folder holds the release that its manifest describes, or names the first fault."""

import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from annotation import certificate
from exports import canary, hub, review_facts, signing
from exports.checks import refuse_older
from exports.digests import RowDigest
from exports.folder import MANIFEST, SIGNATURE, Manifest, data_file, facts_of, flush, read_manifest, sync
from exports.formats import SINCE, schemas
from exports.withdraw import FORGOTTEN, reasons
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.release_files import SUMS, WITHDRAWN, read_sums, sha256, why_withdrawn, withdrawn_in

CERTIFICATE = "certificate.json"  # in a release


@dataclass(frozen=True)
class Verified:
    """A release whose every file, row and column is what its manifest says."""

    name: str
    version: str
    rows: int  # of all configs and splits
    files: int
    withdrawn: str | None = None  # why, where WITHDRAWN.json on the Hub or in the folder, or its workspace, says so
    digest: str = ""  # sha256 of SHA256SUMS: pin it to have this release and no other
    signed: str = ""  # by whom, where that was asked and is so; else what is known of it
    contamination: dict[str, JsonValue] = field(default_factory=dict)  # `canary_in`: texts that hold it, where asked


@dataclass(frozen=True)
class Origin:
    """What a reader expects of where a release is from."""

    signers: Path | None = None  # OpenSSH's allowed_signers
    identity: str | None = None  # whose signature it must have
    digest: str | None = None  # sha256 of SHA256SUMS


def verified(release: Path | str, origin: Origin = Origin(), contamination: Sequence[Path] = ()) -> Verified:
    """As `verify`, of a folder or of NAMESPACE/NAME@VERSION, which is fetched from the Hub for it; from this origin.

    contamination: texts that are searched for the release's canary.
    """
    if (origin.signers is None) != (origin.identity is None):
        raise UsageError("verify: --signer FILE and --identity WHO go together: give both or none")
    with at_hand(release) as folder:
        return _verified(folder, origin, contamination)


@contextmanager
def at_hand(release: Path | str) -> Iterator[Path]:
    """The folder of a release; NAMESPACE/NAME@VERSION is fetched from the Hub for as long as it is needed."""
    on_hub = re.fullmatch(r"([^/@]+/[^/@]+)@v?(\d+\.\d+\.\d+)", str(release))
    if not on_hub or Path(release).exists():
        yield Path(release)
        return
    with tempfile.TemporaryDirectory() as place:
        hub.fetch(on_hub[1], on_hub[2], Path(place) / "release")
        yield Path(place) / "release"


def _verified(folder: Path, origin: Origin, texts: Sequence[Path]) -> Verified:
    manifest, files = verify(folder, hub.BESIDE)
    if origin.digest:
        signing.check_digest(folder, origin.digest)
    signed = "yes, not checked (--signer, --identity)" if (folder / SIGNATURE).exists() else "no"
    if origin.signers and origin.identity:
        signing.check(folder / SUMS, signing.RELEASE, origin.signers, origin.identity)
        if manifest.version in withdrawn_in(folder / WITHDRAWN):  # they want one of that, too
            signing.check(folder / WITHDRAWN, signing.WITHDRAWAL, origin.signers, origin.identity)
        signed = f"by {origin.identity}"
    withdrawn = why_withdrawn(folder, manifest.version)
    rows = sum(sum(splits.values()) for splits in manifest.counts.values())
    mark = canary.of(facts_of(folder), folder) if texts else ""
    held: list[JsonValue] = [str(path) for path in texts if canary.found(mark, path)]
    told: dict[str, JsonValue] = {"canary_in": held} if texts else {}
    return Verified(manifest.name, manifest.version, rows, files, withdrawn, sha256(folder / SUMS), signed, told)


def verify(folder: Path, beside: Collection[str] = ()) -> tuple[Manifest, int]:
    """(manifest, files of the release): checksums, counts, schemas and row digests agree with what lies there.

    The first file at fault is named. What lies there under the names in `beside` is not looked at.
    """
    manifest = read_manifest(folder)
    sums = read_sums(folder)
    found = (p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())
    there = [path.as_posix() for path in found if path.parts[0] not in beside]
    for path in sorted({*sums, *manifest.files, MANIFEST, *there} - {SUMS, SIGNATURE}):
        _check_file(folder, path, sums, manifest)
    _check_certificate(folder)
    known = schemas(manifest.official)
    for config, splits in manifest.counts.items():
        for split, rows in splits.items():
            if not rows and data_file(config, split) not in manifest.files:
                continue
            digest = manifest.row_digests.get(config, {}).get(split)
            _check_table(folder, data_file(config, split), rows, known.get(config), digest)
    return manifest, len(sums) + 1


def _check_certificate(folder: Path) -> None:
    """Every bound follows from its counts, and the manifest (so the card) says what they say."""
    facts = facts_of(folder)
    if facts.get("certificate") is None:  # nobody has reviewed, or an older program made it
        return
    stated = certificate.check(folder / CERTIFICATE)
    if (review_facts.statement(stated), review_facts.missed(stated)) != (facts["certificate"], facts.get("missed")):
        raise ReleaseError(f"{folder / CERTIFICATE}: it states other bounds than {MANIFEST}: build or fetch it again")


def _check_file(folder: Path, path: str, sums: Mapping[str, str], manifest: Manifest) -> None:
    file = folder / path
    if path not in sums or (path != MANIFEST and path not in manifest.files):
        raise ReleaseError(f"{file}: not part of the release ({SUMS} or {MANIFEST} does not list it): move it away")
    if file.is_symlink():  # so lies a download in the Hub's cache
        raise ReleaseError(
            f"{file}: a link, not a plain file: verify NAMESPACE/NAME@VERSION, or copy the folder with what its links"
            " point at (cp -RL)"
        )
    if not file.is_file():
        if not (folder / "data").exists():
            raise ReleaseError(f"{folder}: {_why_gone(folder, manifest.version)}")
        raise ReleaseError(f"{file}: missing or not a plain file: build or fetch the release again")
    found = sha256(file)
    expected = {sums[path]} | ({manifest.files[path].sha256} if path in manifest.files else set())
    if expected != {found}:
        raise ReleaseError(
            f"{file}: sha256 is {found[:12]}…, expected {min(expected - {found})[:12]}…:"
            " build or fetch the release again"
        )


def _why_gone(folder: Path, version: str) -> str:
    """Why a release has no data, as far as the workspace around it, or around what it is a copy of, knows."""
    here = folder.resolve().parent
    erased = any(reasons(place).get(version) == FORGOTTEN for place in (here, here / "releases"))
    if erased:
        return f"`saferec-build forget` deleted its data, as {FORGOTTEN}: make the next version"
    return (
        f"its data is gone: where `saferec-build forget` deleted it, as {FORGOTTEN}, make the next version; else build"
        " or fetch it again"
    )


def _check_table(folder: Path, path: str, rows: int, schema: pa.Schema | None, digest: str | None) -> None:
    file = folder / path
    if schema is None:
        raise ReleaseError(f"{file}: this program does not know the config {path.split('/')[1]!r}: update it")
    try:
        found = pq.ParquetFile(file)
        names, count = found.schema_arrow, found.metadata.num_rows
        if count != rows:
            raise ReleaseError(f"{file}: {count} rows, {MANIFEST} says {rows}")
        there = {n for n in schema.names if n in names.names}
        older = SINCE.get(path.split("/")[1], frozenset())
        unlike = [
            n for n in schema.names if n not in there | older or (n in there and names.field(n) != schema.field(n))
        ]
        unlike += [n for n in names.names if n not in schema.names]
        if unlike:  # the order of columns is free
            raise ReleaseError(f"{file}: column {unlike[0]} is not of the schema that this version of the format has")
        if digest is not None and digest != row_digest(found):
            raise ReleaseError(f"{file}: its rows are not those that {MANIFEST} proves: build or fetch it again")
    except (OSError, pa.ArrowInvalid) as fault:
        raise ReleaseError(f"{file}: not a parquet file: {fault}") from None


def row_digest(file: pq.ParquetFile) -> str:
    digest = RowDigest()
    for batch in file.iter_batches(batch_size=50_000):
        digest.add(pa.Table.from_batches([batch]))
    return digest.hex()


# ---- copy


def copy(folder: Path, target: Path, gone: Collection[str] = (), *, dry: bool = False) -> tuple[int, int]:
    """(files copied, files there already). `target` becomes the release, in one step, or stays what it was.

    An older release of the same dataset is replaced, and a newer one of those `gone`, which were withdrawn; anything
    else that lies there is left alone with an error. A link stays one to the folder that it leads to. `dry` changes
    nothing.
    """
    check_name(target)
    target = target.resolve() if target.is_symlink() else target
    manifest, count = verify(folder)
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken and _there(folder, target, manifest, gone):
        return 0, count
    if dry:
        return count, 0
    shed = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(shed, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft = shed / "new"
        shutil.copytree(folder, draft)
        verify(draft)
        sync(draft)
        _swap(draft, target)
        flush(target.parent)
    finally:
        shutil.rmtree(shed, ignore_errors=True)
    return count, 0


def check_name(target: Path) -> None:
    """`.`, `..` and `/` cannot change places with another folder, and nothing lies in a file."""
    if target.name in ("", ".."):
        raise ReleaseError(f"{target}: give the folder by its name: it becomes the release as a whole")
    if above := next((path for path in target.parents if path.is_file()), None):
        raise ReleaseError(f"{target}: {above} is a file, expected a folder: give another place")


def check_outside(target: Path, releases: Path) -> None:
    """Releases of the workspace stay as they were made, and nothing else lies in them."""
    if target.resolve().is_relative_to(releases.resolve()):
        raise ReleaseError(
            f"{target}: lies in {releases}, where each release stays as it was made: give another folder"
        )


def _swap(draft: Path, target: Path) -> None:
    """`target` is the old folder until it is the new one: the two change places in one system call.

    Where the file system cannot do that, the old folder steps aside first, and comes back if the new one cannot move.
    """
    if not target.exists():
        os.replace(draft, target)
    elif not _exchange(draft, target):
        old = draft.with_name("old")
        os.replace(target, old)
        try:
            os.replace(draft, target)
        except OSError:
            os.replace(old, target)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Linux' renameat2 with RENAME_EXCHANGE; False where it is not there."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def _there(folder: Path, target: Path, manifest: Manifest, gone: Collection[str]) -> bool:
    try:
        found, _ = verify(target)
    except ReleaseError as fault:
        why = fault if (target / MANIFEST).exists() else "it holds something else"
        raise ReleaseError(f"{target}: will not be overwritten: {why}; give an empty or a new folder") from None
    if found.name != manifest.name:
        raise ReleaseError(f"{target}: holds the dataset {found.name!r}, not {manifest.name!r}: give another folder")
    refuse_older(manifest.version, {found.version} - {*gone}, str(target))
    return all(_bytes(target / name) == _bytes(folder / name) for name in (SUMS, SIGNATURE))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
