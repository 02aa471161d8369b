"""Verifies that a folder holds the release that its manifest describes, and copies verified releases."""

import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from annotation import certificate
from exports import canary, hub, review_facts, signing
from exports.checks import refuse_older
from exports.digests import RowDigest
from exports.folder import MANIFEST, SIGNATURE, data_file, facts_of, flush, sync
from exports.formats import SINCE, schemas
from exports.manifest_types import Facts
from exports.withdraw import FORGOTTEN, reasons
from saferec_builder import sources
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.core.release_files import SUMS, WITHDRAWN, read_sums, sha256, why_withdrawn, withdrawn_in

CERTIFICATE = "certificate.json"  # in a release
ROW = 1024  # bytes a row may unpack to, beside its share of the file: ids, names of traits and canary repeat in each
AT_ONCE = 1 << 29  # bytes that are unpacked at once


@dataclass(frozen=True)
class Verified:
    """A release whose every file, row and column is what its manifest says."""

    name: str
    version: str
    rows: int  # of all configs and splits
    files: int
    bounds: bool  # it states bounds on what its labels miss, which were computed again from their counts
    withdrawn: str | None  # the reason, if WITHDRAWN.json on the Hub or in the folder, or the workspace, has one
    digest: str  # sha256 of SHA256SUMS: pin it to have this release and no other
    signed: str  # the signer, if one was required; else whether there is a signature
    canary_in: list[str] | None  # which of the given texts hold its canary; None if none was given


def verified(
    release: Path | str,
    *,
    signers: Path | None = None,
    identity: str | None = None,
    digest: str | None = None,
    contamination: Sequence[Path] = (),
) -> Verified:
    """Verifies a folder, or NAMESPACE/NAME@VERSION, which is fetched from the Hub, as `verify` does, and its origin.

    signers, identity: OpenSSH's allowed_signers, and whose signature it must have. digest: sha256 of SHA256SUMS.
    contamination: texts that are searched for the release's canary.
    """
    if (signers is None) != (identity is None):
        raise UsageError("verify: --signer FILE and --identity WHO go together: give both or none")
    with at_hand(release) as folder:
        manifest, files = verify(folder, hub.BESIDE)
        if digest:
            signing.check_digest(folder, digest)
        signed = "yes, not checked (--signer, --identity)" if (folder / SIGNATURE).exists() else "no"
        if signers and identity:
            signing.check(folder / SUMS, signing.RELEASE, signers, identity)
            if manifest["version"] in withdrawn_in(folder / WITHDRAWN):  # the withdrawal must be signed, too
                signing.check(folder / WITHDRAWN, signing.WITHDRAWAL, signers, identity)
            signed = f"by {identity}"
        guid = canary.of_manifest(manifest, folder) if contamination else ""
        return Verified(
            name=manifest["name"],
            version=manifest["version"],
            rows=sum(sum(splits.values()) for splits in manifest["counts"].values()),
            files=files,
            bounds=manifest["certificate"] is not None,
            withdrawn=why_withdrawn(folder, manifest["version"]),
            digest=sha256(folder / SUMS),
            signed=signed,
            canary_in=[str(path) for path in contamination if canary.is_in(guid, path)] if contamination else None,
        )


@contextmanager
def at_hand(release: Path | str) -> Iterator[Path]:
    """Yields the folder of a release; NAMESPACE/NAME@VERSION is fetched from the Hub into a temporary folder."""
    on_hub = re.fullmatch(r"([^/@]+/[^/@]+)@v?(\d+\.\d+\.\d+)", str(release))
    if not on_hub or Path(release).exists():
        yield Path(release)
        return
    with tempfile.TemporaryDirectory() as temporary:
        hub.fetch(on_hub[1], on_hub[2], folder := Path(temporary) / "release")
        if (held := facts_of(folder)["version"]) != on_hub[2]:
            raise ReleaseError(f"{release}: the tag holds {held}, as somebody moved it: ask whoever published it")
        yield folder


def verify(folder: Path, beside: Collection[str] = ()) -> tuple[Facts, int]:
    """Checks that checksums, counts, schemas and row digests agree with the files; returns (manifest, number of files).

    Raises ReleaseError for the first file at fault. Paths under the names in `beside` are not looked at.
    """
    manifest = facts_of(folder)
    sums = read_sums(folder)
    paths = (p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())
    names = [path.as_posix() for path in paths if path.parts[0] not in beside]
    for path in sorted({*sums, *manifest["files"], MANIFEST, *names} - {SUMS, SIGNATURE}):
        _check_file(folder, path, sums, manifest)
    _check_certificate(folder, manifest)
    schema_by_config = schemas(manifest["official"])
    for config, splits in manifest["counts"].items():
        for split, rows in splits.items():
            if not rows and data_file(config, split) not in manifest["files"]:
                continue
            digest = manifest["row_digests"].get(config, {}).get(split)
            _check_table(folder, data_file(config, split), rows, schema_by_config.get(config), digest)
    return manifest, len(sums) + 1 + (folder / SIGNATURE).is_file()


def made_elsewhere(folder: Path) -> Path:
    """Returns the folder of a release once it is verified, as files of others could fill the memory of their reader."""
    verify(folder, hub.BESIDE)
    return folder


def _check_certificate(folder: Path, facts: Facts) -> None:
    """Checks that each bound follows from its counts, and that the manifest (so the card) states the same bounds."""
    statement = facts["certificate"]
    if statement is None and not (folder / CERTIFICATE).exists():  # nobody has reviewed, or an older program made it
        return
    stated = certificate.check(folder / CERTIFICATE)
    if (review_facts.statement(stated), review_facts.missed(stated)) != (statement, facts["missed"]):
        raise ReleaseError(f"{folder / CERTIFICATE}: it states other bounds than {MANIFEST}: build or fetch it again")


def _check_file(folder: Path, path: str, sums: Mapping[str, str], manifest: Facts) -> None:
    file = folder / path
    if path not in sums or (path != MANIFEST and path not in manifest["files"]):
        raise ReleaseError(f"{file}: not part of the release ({SUMS} or {MANIFEST} does not list it): move it away")
    if file.is_symlink():  # as in the Hub's cache
        raise ReleaseError(
            f"{file}: a link, not a plain file: verify NAMESPACE/NAME@VERSION, or copy the folder with what its links"
            " point at (cp -RL)"
        )
    if not file.is_file():
        if not (folder / "data").exists():
            raise ReleaseError(f"{folder}: {_why_no_data(folder, manifest['version'])}")
        raise ReleaseError(f"{file}: missing or not a plain file: build or fetch the release again")
    digest = sha256(file)
    expected = {sums[path]} | ({manifest["files"][path]["sha256"]} if path in manifest["files"] else set())
    if expected != {digest}:
        raise ReleaseError(
            f"{file}: sha256 is {digest[:12]}…, expected {min(expected - {digest})[:12]}…:"
            " build or fetch the release again"
        )


def _why_no_data(folder: Path, version: str) -> str:
    """Says why a release has no data, as far as the workspace around it, or around the original of a copy, tells."""
    parent = folder.resolve().parent
    erased = any(reasons(releases).get(version) == FORGOTTEN for releases in (parent, parent / "releases"))
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
        parquet = pq.ParquetFile(file)
        stored, count = parquet.schema_arrow, parquet.metadata.num_rows
        if count != rows:
            raise ReleaseError(f"{file}: {count} rows, {MANIFEST} says {rows}")
        both, names = {*schema.names} & {*stored.names}, {*schema.names} - SINCE | {*stored.names}
        wrong = sorted(name for name in names if name not in both or stored.field(name) != schema.field(name))
        if wrong:  # the order of columns is free
            raise ReleaseError(f"{file}: column {wrong[0]} is not of the schema that this version of the format has")
        actual = _row_digest(parquet, sources.PACKED * file.stat().st_size + ROW * rows + sources.LONGEST)
        if actual is None:
            raise ReleaseError(f"{file}: it unpacks to far more than rows of a release hold: fetch it from its maker")
        if digest is not None and digest != actual:
            raise ReleaseError(f"{file}: its rows are not those that {MANIFEST} proves: build or fetch it again")
    except (OSError, pa.ArrowException, UnicodeDecodeError) as fault:
        raise ReleaseError(f"{file}: not a parquet file: {sources.readable(str(fault))}") from None


def _row_digest(file: pq.ParquetFile, most: int) -> str | None:
    """Returns the digest of the rows; None where they unpack to over `most` bytes, which could fill the memory of
    whoever reads them: by what the file states before it is read, and then by what is read. A value that is stored once
    may stand in each row, so few rows are read at once where such values may be large. If a file states less than it
    holds, one page of each column is unpacked before that shows: pyarrow has no limit for a page."""
    groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(group.num_columns)]
    stored = sum(column.total_uncompressed_size for column in columns)
    values = sum(column.num_values for column in columns)  # a byte each at least: of a list those alike are stored once
    if max(stored, values) > most:
        return None
    largest = max([1, *(column.total_uncompressed_size for column in columns if column.has_dictionary_page)])
    digest = RowDigest()
    for batch in file.iter_batches(batch_size=min(1_000, max(1, AT_ONCE // largest))):
        most -= batch.nbytes
        if most < 0:
            return None
        digest.add(pa.Table.from_batches([batch]))
    return digest.hex()


def copy(folder: Path, target: Path, withdrawn: Collection[str] = (), *, dry: bool = False) -> tuple[int, int]:
    """Replaces `target` by the release in one step, or leaves it as it was; returns (files copied, files up to date).

    An older release of the same dataset is replaced, and so is a newer one that is in `withdrawn`; raises ReleaseError
    if `target` holds anything else. If `target` is a link, replaces the folder it points at. `dry` changes nothing.
    """
    target = resolved(target)
    manifest, count = verify(folder)
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken and _is_same(folder, target, manifest, withdrawn):
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


def resolved(target: Path) -> Path:
    """Returns the folder that becomes a release: what a link points at. Raises ReleaseError for `.`, `..` and `/`, as
    these cannot be exchanged, and for a path below a file."""
    if target.name in ("", ".."):
        raise ReleaseError(f"{target}: give the folder by its name: it becomes the release as a whole")
    if parent_file := next((path for path in target.parents if path.is_file()), None):
        raise ReleaseError(f"{target}: {parent_file} is a file, expected a folder: give another place")
    return target.resolve() if target.is_symlink() else target


def check_outside(target: Path, releases: Path) -> None:
    """Raises ReleaseError if `target` lies in `releases` (a release, or a folder of them), which must not change."""
    if target.resolve().is_relative_to(releases.resolve()):
        raise ReleaseError(
            f"{target}: lies in {releases}, where each release stays as it was made: give another folder"
        )


def _swap(draft: Path, target: Path) -> None:
    """Exchanges the two folders in one system call, so that `target` is never missing.

    If the file system cannot do that, the old folder is moved away first, and moved back if the new one cannot move.
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


def _exchange(draft: Path, target: Path) -> bool:
    """Calls renameat2 of Linux with RENAME_EXCHANGE; returns False if it is not available or fails."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(at_cwd, os.fsencode(draft), at_cwd, os.fsencode(target), exchange) == 0


def _is_same(folder: Path, target: Path, manifest: Facts, withdrawn: Collection[str]) -> bool:
    """Whether `target` holds this release already; raises ReleaseError if it must not be replaced by it."""
    try:
        old, _ = verify(target)
    except ReleaseError as fault:
        problem = fault if (target / MANIFEST).exists() else "it holds something else"
        raise ReleaseError(f"{target}: will not be overwritten: {problem}; give an empty or a new folder") from None
    if old["name"] != manifest["name"]:
        raise ReleaseError(
            f"{target}: holds the dataset {old['name']!r}, not {manifest['name']!r}: give another folder"
        )
    refuse_older(manifest["version"], {old["version"]} - {*withdrawn}, str(target))
    return all(_bytes(target / name) == _bytes(folder / name) for name in (SUMS, SIGNATURE))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
