"""Writes a release as a folder, completely or not at all, and reads its manifest.

The same rows give the same bytes: no clock, host name or path of this machine is written.
"""

import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from exports.checks import VERSION
from exports.digests import RowDigest
from exports.manifest_types import CHECKED, NEEDED, OLDER, Facts, FileEntry
from saferec_builder.core.errors import ReleaseError, strict_json, whole_object
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.release_files import SUMS, sha256

MANIFEST, CARD = "manifest.json", "README.md"
SIGNATURE = f"{SUMS}.sig"  # not part of the signed files
GROUP = 50_000  # rows of a row group, which a stream must load before its first row

Part = tuple[str, str, pa.Table]  # config, split, rows


@dataclass(frozen=True)
class Written:
    """The tables that were written into the draft."""

    counts: dict[str, dict[str, int]]
    digests: dict[str, dict[str, str]]
    files: dict[str, FileEntry] = field(default_factory=dict)


Finish = Callable[[Path, Written], tuple[Facts, Mapping[str, bytes]]]


def build(
    releases: Path,
    version: str,
    parts: Iterable[Part],
    configs: Mapping[str, Iterable[str]],
    finish: Finish,
    remedy: str,
) -> bool:
    """Makes releases/VERSION; returns True if it is new, False if it exists with the same content; raises ReleaseError,
    with the `remedy`, if it exists with other content.

    `finish` gets the draft and returns the facts of the manifest and the other files by name, or raises. The draft
    is releases/.VERSION.tmp/VERSION, two levels deep so that an unfinished one is never taken for a release.
    """
    temporary, folder = releases / f".{version}.tmp", releases / version
    shutil.rmtree(temporary, ignore_errors=True)  # left by a build that was killed
    try:
        draft = temporary / version
        draft.mkdir(parents=True)
        written = tables(draft, parts, configs)
        facts, texts = finish(draft, written)
        seal(draft, written, facts, texts)
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):  # it may replace an empty one
            return _same(draft, folder, remedy)
        sync(draft)
        os.replace(draft, folder)
        flush(releases)
        return True
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _same(draft: Path, folder: Path, remedy: str) -> bool:
    """Returns False if the release in the folder is the draft; else raises ReleaseError with what differs."""
    old, new = (path.read_bytes().splitlines() if path.is_file() else [] for path in (folder / SUMS, draft / SUMS))
    if old == new:
        return False
    names = {line.split(b"  ", 1)[-1].decode(errors="replace") for line in {*old}.symmetric_difference(new)}
    first = sorted(names, key=lambda name: (not name.startswith("data/"), name))[:3]
    others = f" and {len(names) - 3} other files" if names != {*first} else ""
    holds = f"this release exists, with other content ({', '.join(first)}{others})" if old else "holds other files"
    raise ReleaseError(f"{folder}: {holds}, and a release is never changed: {remedy}")


def tables(draft: Path, parts: Iterable[Part], configs: Mapping[str, Iterable[str]]) -> Written:
    """Writes the parts of each config and split into one file. A split without rows has only a count of 0, and no file,
    as `datasets` cannot load it."""
    counts = {config: dict.fromkeys(splits, 0) for config, splits in configs.items()}
    digests: dict[tuple[str, str], RowDigest] = {}
    writers: dict[tuple[str, str], pq.ParquetWriter] = {}
    with ExitStack() as closing:  # closes all, even on a full disk: else a destructor would, and print its error
        for config, split, table in parts:
            if not table.num_rows:
                continue
            if (config, split) not in writers:
                writer = _writer(draft / data_file(config, split), table.schema)
                writers[config, split] = closing.enter_context(writer)
                digests[config, split] = RowDigest()
            writers[config, split].write_table(table, row_group_size=GROUP)
            digests[config, split].add(table)
            counts[config][split] += table.num_rows
    hashes: dict[str, dict[str, str]] = {}
    for (config, split), digest in sorted(digests.items()):
        hashes.setdefault(config, {})[split] = digest.hex()
    files = {data_file(c, s): facts(draft / data_file(c, s), counts[c][s]) for c, s in sorted(writers)}
    return Written(counts, hashes, files)


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=3,
        use_content_defined_chunking=True,  # a re-upload after a small change sends little
        use_dictionary=[path for path in _leaves(schema) if not _UNIQUE.intersection(path.split("."))],
        write_page_index=True,
    )


# columns whose values rarely repeat: a dictionary would be a second, slower copy that every new row changes
_UNIQUE = frozenset(("content", "text", "quote", "conversation", "made_from", "source_id", "digest", "time", "basis"))


def _leaves(schema: pa.Schema) -> list[str]:
    """Returns the paths of the columns as parquet names them."""
    file = io.BytesIO()
    pq.write_metadata(schema, file)
    columns = pq.read_metadata(file).schema
    return [columns.column(n).path for n in range(len(columns))]


def seal(draft: Path, written: Written, content_facts: Facts, texts: Mapping[str, bytes]) -> None:
    """Adds the other files, the manifest and the checksums, which makes the folder a release."""
    for name, content in texts.items():
        (draft / name).write_bytes(content)
    files = dict(sorted({**written.files, **{name: facts(draft / name) for name in texts}}.items()))
    manifest = {**content_facts, "counts": written.counts, "row_digests": written.digests, "files": files}
    (draft / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    sums = {path: str(file["sha256"]) for path, file in files.items()} | {MANIFEST: sha256(draft / MANIFEST)}
    (draft / SUMS).write_text("".join(f"{sums[path]}  {path}\n" for path in sorted(sums)), encoding="utf-8")


def data_file(config: str, split: str) -> str:
    return f"data/{config}/{split}.parquet"


def facts(path: Path, rows: int | None = None) -> FileEntry:
    return {"sha256": sha256(path), "bytes": path.stat().st_size, "rows": rows}


def sync(folder: Path) -> None:
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        flush(path)


def flush(path: Path) -> None:
    """Flushes the bytes of a file or the entries of a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def facts_of(folder: Path) -> Facts:
    """Returns the facts of the release's manifest; raises ReleaseError if it is missing or invalid."""
    path = folder / MANIFEST
    try:
        facts = strict_json(read_plain(path).decode("utf-8"))
        json.dumps(facts, ensure_ascii=False).encode()  # a lone surrogate could be in no table and on no card
        CHECKED.validate_python(facts)
        if lacking := sorted(NEEDED - facts.keys()):
            raise ValueError(f"it lacks {', '.join(lacking)}")
        return cast(Facts, facts | {name: value for name, value in OLDER.items() if name not in facts})
    except (FileNotFoundError, NotADirectoryError):
        remedy = "give the folder of one version, or NAMESPACE/NAME@1.0.0 of the Hub"
        raise ReleaseError(f"{folder} is no release ({MANIFEST} is missing): {remedy}") from None
    except (ValueError, RecursionError) as fault:
        problem = fault.errors()[0]["msg"] if isinstance(fault, ValidationError) else f"{fault}"
        raise ReleaseError(f"{path}: not a manifest ({problem}): build or fetch the release again") from None


def versions(releases: Path) -> Iterator[str]:
    """Yields the finished releases in this folder, and unreadable ones, which `facts_of` reports.
    A copy under another name, even one like a version (a date), does not count."""
    for path in sorted(releases.glob("[!.]*/" + MANIFEST)):
        name = path.parent.name
        if VERSION.fullmatch(name) and _version(path) in (name, None):
            yield name


def _version(manifest: Path) -> object:
    """Returns the version that the manifest states, or None."""
    try:
        return (whole_object(read_plain(manifest)) or {}).get("version")
    except OSError:
        return None
