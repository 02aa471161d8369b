"""A release as a folder: whole or not there, the same bytes for the same rows, and able to prove what it holds.

No clock, no host name, no path of this machine is written.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from saferec_builder.errors import ReleaseError

MANIFEST, SUMS, CARD = "manifest.json", "SHA256SUMS", "README.md"


class FileFacts(BaseModel):
    sha256: str
    bytes: int
    rows: int | None = None


class Manifest(BaseModel):
    """The part of manifest.json that checks rest on; the rest is kept as it stands."""

    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    schema_: int
    simulated: bool
    demo: bool
    counts: dict[str, dict[str, int]]
    files: dict[str, FileFacts]


# ---- build


def build(
    releases: Path,
    version: str,
    tables: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, Any],
    texts: Mapping[str, bytes],
) -> bool:
    """Makes releases/VERSION; True where it is new, False where it was there with the same content.

    It is built as releases/.VERSION.tmp/VERSION, two levels deep so that nothing takes an unfinished one for a release.
    """
    shed, home = releases / f".{version}.tmp", releases / version
    shutil.rmtree(shed, ignore_errors=True)  # of a build that was killed
    try:
        draft = shed / version
        _write(draft, tables, facts, texts)
        if home.exists():
            return _same(draft, home)
        _sync(draft)
        os.replace(draft, home)
        _sync_folder(releases)
        return True
    finally:
        shutil.rmtree(shed, ignore_errors=True)


def _same(draft: Path, home: Path) -> bool:
    old = home / SUMS
    if old.is_file() and old.read_bytes() == (draft / SUMS).read_bytes():
        return False
    raise ReleaseError(
        f"{home}: this release exists with other content: a release is never changed, choose a higher version"
    )


def _write(
    draft: Path, tables: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any], texts: Mapping[str, bytes]
) -> None:
    rows: dict[str, int] = {}
    for config, splits in tables.items():
        for split, table in splits.items():
            if not table.num_rows:
                continue  # `datasets` cannot load a split without rows: neither file nor entry in the card
            path = data_file(config, split)
            rows[path] = table.num_rows
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            _write_table(table, draft / path)
    for name, content in texts.items():
        (draft / name).write_bytes(content)
    files = {
        path: {"sha256": sha256(draft / path), "bytes": (draft / path).stat().st_size, "rows": rows.get(path)}
        for path in sorted([*rows, *texts])
    }
    (draft / MANIFEST).write_text(
        json.dumps({**facts, "files": files}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    sums = {path: str(file["sha256"]) for path, file in files.items()} | {MANIFEST: sha256(draft / MANIFEST)}
    (draft / SUMS).write_text("".join(f"{sums[path]}  {path}\n" for path in sorted(sums)), encoding="utf-8")


def _write_table(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    writer = pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=3,
        use_content_defined_chunking=True,  # a re-upload after a small change sends little
        write_page_index=True,
    )
    with writer:
        writer.write_table(table, row_group_size=50_000)


def data_file(config: str, split: str) -> str:
    return f"data/{config}/{split}.parquet"


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            _sync_folder(path)
        else:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- verify


def read_manifest(folder: Path) -> Manifest:
    """The release's manifest, or an error that says what is wrong with it."""
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Manifest.model_validate({**data, "schema_": data["schema"]})
    except (FileNotFoundError, NotADirectoryError):
        raise ReleaseError(f"{folder} is no release ({MANIFEST} is missing): give the folder of one version") from None
    except (ValueError, KeyError, TypeError) as fault:
        what = fault.errors()[0]["msg"] if isinstance(fault, ValidationError) else f"{fault}"
        raise ReleaseError(f"{path}: not a manifest ({what}): build or fetch the release again") from None


def verify(folder: Path, schemas: Mapping[str, Any]) -> tuple[Manifest, int]:
    """(manifest, files of the release): SHA256SUMS, manifest, counts and schemas agree with what lies there.

    The first file at fault is named. `schemas` is config -> pyarrow schema.
    """
    manifest = read_manifest(folder)
    sums = _sums(folder)
    there = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())
    for path in sorted({*sums, *manifest.files, MANIFEST, *there} - {SUMS}):
        _check_file(folder, path, sums, manifest)
    for config, splits in manifest.counts.items():
        for split, rows in splits.items():
            if not rows and data_file(config, split) not in manifest.files:
                continue
            _check_table(folder, data_file(config, split), rows, schemas.get(config))
    return manifest, len(sums) + 1


def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ReleaseError(f"{path}: missing or not a text: build or fetch the release again") from None
    pairs = [line.split("  ", 1) for line in lines]
    if any(len(pair) != 2 or not _inside(pair[1]) for pair in pairs):
        raise ReleaseError(f"{path}: a line is not `sha256  path` with a path inside the release")
    return {path: digest for digest, path in pairs}


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts


def _check_file(folder: Path, path: str, sums: Mapping[str, str], manifest: Manifest) -> None:
    file = folder / path
    if path not in sums or (path != MANIFEST and path not in manifest.files):
        raise ReleaseError(f"{file}: not part of the release ({SUMS} or {MANIFEST} does not list it): move it away")
    if file.is_symlink() or not file.is_file():
        raise ReleaseError(f"{file}: missing or not a plain file: build or fetch the release again")
    found = sha256(file)
    wanted = {sums[path]} | ({manifest.files[path].sha256} if path in manifest.files else set())
    if wanted != {found}:
        raise ReleaseError(
            f"{file}: sha256 is {found[:12]}…, wanted {min(wanted - {found})[:12]}…: build or fetch the release again"
        )


def _check_table(folder: Path, path: str, rows: int, schema: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / path
    if schema is None:
        raise ReleaseError(f"{file}: this program does not know the config {path.split('/')[1]!r}: update it")
    try:
        found = pq.ParquetFile(file)
        names, count = found.schema_arrow, found.metadata.num_rows
    except (OSError, pa.ArrowInvalid) as fault:
        raise ReleaseError(f"{file}: not a parquet file: {fault}") from None
    if count != rows:
        raise ReleaseError(f"{file}: {count} rows, {MANIFEST} says {rows}")
    if not names.equals(schema):
        unlike = [n for n in schema.names if n not in names.names or names.field(n) != schema.field(n)]
        wrong = (unlike or names.names)[0]
        raise ReleaseError(f"{file}: column {wrong} is not of the schema that this version of the format has")


# ---- copy


def copy(folder: Path, target: Path, schemas: Mapping[str, Any]) -> tuple[int, int]:
    """(files copied, files there already). `target` becomes the release, in one rename, or stays what it was.

    An older release of the same dataset is replaced; anything else that lies there is left alone with an error.
    """
    manifest, count = verify(folder, schemas)
    shed = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(shed, ignore_errors=True)
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken and _there(folder, target, manifest, schemas):
        return 0, count
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft, old = shed / "new", shed / "old"
        shutil.copytree(folder, draft)
        verify(draft, schemas)
        _sync(draft)
        _swap(draft, target, old)
        _sync_folder(target.parent)
    finally:
        shutil.rmtree(shed, ignore_errors=True)
    return count, 0


def _swap(draft: Path, target: Path, old: Path) -> None:
    if not target.exists():
        os.replace(draft, target)
        return
    os.replace(target, old)
    try:
        os.replace(draft, target)
    except OSError:
        os.replace(old, target)
        raise


def _there(folder: Path, target: Path, manifest: Manifest, schemas: Mapping[str, Any]) -> bool:
    try:
        found, _ = verify(target, schemas)
    except ReleaseError as fault:
        raise ReleaseError(f"{target}: will not be overwritten: {fault}; give an empty or a new folder") from None
    if found.name != manifest.name:
        raise ReleaseError(f"{target}: holds the dataset {found.name!r}, not {manifest.name!r}: give another folder")
    return (target / SUMS).read_bytes() == (folder / SUMS).read_bytes()


def versions(releases: Path) -> Iterator[str]:
    """Names of the finished releases in this folder."""
    yield from sorted(path.parent.name for path in releases.glob("[!.]*/" + MANIFEST))
