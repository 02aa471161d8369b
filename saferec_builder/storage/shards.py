"""Bulk tables: parquet shards at tables/NAME/NUMBER-DIGEST.parquet, the manifest of each (.json) beside it.

A shard counts only if its manifest exists, which is written last: a killed command leaves either the old table or the
new one. Processes that append at once take turns, so no row is stored twice. An error about a damaged shard says which
command restores it.

A shard of an older schema is migrated each time it is read (see migrations), and written again as NUMBER-DIGEST.sSCHEMA
by the next append to its table: of the shards with one NUMBER-DIGEST the newest schema counts. A shard from which
`rewrite` took rows is called NUMBER-DIGEST.sSCHEMAeTIMES, and counts before those of its schema. Once the old one is
deleted, it gets a random number of _RANDOM digits in place of the digest.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import polars as pl

from saferec_builder.core import release_files
from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.core.locks import file_lock
from saferec_builder.storage import migrations, tables
from saferec_builder.storage.tables import digest
from saferec_builder.storage.whole_files import replacing

_RANDOM = 20  # hex digits; a digest has 16
_MINE = "run `saferec-build mine` again on the same files"
_REMEDIES = {  # table -> how to restore the rows of a lost shard
    **dict.fromkeys(("conversations", "origins", "honoured", "marks", "clusters", "stated"), _MINE),
    "catalog_rows": "run `saferec-build catalog add` again on the same files (then `catalog apart` and `join`, too)",
    "warnings": "run `saferec-build catalog add` again on the same files, then `saferec-build adjudicate`",
    "proposals": "delete the folder tables/readings too and run `saferec-build propose` again (nothing is paid twice)",
    "readings": "run `saferec-build propose` again (nothing is paid twice)",
    "drops": "run what you ran again: each command names what it leaves out, and nothing rests on these rows",
}


def read(root: Path, table: tables.Table) -> pl.DataFrame:
    """All rows in the order in which they were appended."""
    return pl.concat([table.empty, *parts(root, table)])


def parts(root: Path, table: tables.Table, *columns: str) -> Iterator[pl.DataFrame]:
    """Yields a bulk table shard by shard, for tables larger than memory: its key and `columns`, or all columns."""
    selected = {c: kind for c, kind in table.columns.items() if not columns or c in (*table.key, *columns)}
    for manifest in _manifests(_folder(root, table)):
        yield _shard(manifest, replace(table, columns=selected))


def append(root: Path, table: tables.Table, frame: pl.DataFrame) -> int:
    """Adds the rows (a checked frame, each key once) whose key is new, and returns how many."""
    folder = _folder(root, table)
    seen = _manifests(folder)
    new = _without(frame, table, seen)
    if new.is_empty():
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / ".lock", f"{folder}: another command", wait=True):
        new = _without(new, table, [m for m in _manifests(folder) if m not in seen])
        for manifest in _manifests(folder):
            _renew(manifest, table)
        if not new.is_empty():
            _add_shard(folder, table, new)
    return new.height


def rewrite(root: Path, table: tables.Table, change: Callable[[pl.DataFrame], pl.DataFrame]) -> int:
    """Replaces every shard that `change` alters, deletes the files of the old ones, and returns how many rows are gone.
    This is the one exception to "append, never edit": somebody asked to be forgotten.

    A killed call leaves the old shard or the new one; the next call deletes the files that do not count, and gives new
    names to all shards that lost rows. A shard that lost rows has another name in a backup: where that was copied over
    the folder, its rows stand there twice, and the second ones go, too.
    """
    folder, removed = _folder(root, table), 0
    if not folder.is_dir():
        return 0
    with file_lock(folder / ".lock", f"{folder}: another command", wait=True):
        manifests = _manifests(folder)
        shortened = [manifest for manifest in manifests if lost_rows(manifest.stem)]
        for manifest in manifests:
            old = _shard(manifest, table)
            new = change(old)
            removed += old.height - new.height
            if manifest not in shortened:
                new = _without(new, table, [m for m in shortened if _number(m) == _number(manifest)])
            if not new.equals(old):
                mark = f"s{migrations.newest()}e{_revision(manifest)[1] + 1}"
                _write_shard(manifest.with_name(f"{manifest.name.split('.')[0]}.{mark}.parquet"), new)
        valid = {manifest.stem for manifest in _manifests(folder)}
        for file in folder.iterdir():
            if file.stem not in valid and file.name != ".lock" and not file.is_dir():  # a disk's own folder, @eaDir
                file.unlink()
        for manifest in _manifests(folder):
            if lost_rows(manifest.stem):
                _rename(manifest)
    return removed


def _rename(manifest: Path) -> None:
    """Takes the digest out of the name of a shard that lost rows. It is of their keys, too: whoever has the other rows
    could try which id or text of a source gives it, and so learn who was forgotten."""
    number, _, rest = manifest.name.partition("-")
    name, mark = rest[: (start := rest.rindex(".s"))], rest[start:]
    if len(name) == _RANDOM:
        return
    shard, new = manifest.with_suffix(".parquet"), manifest.with_name(f"{number}-{token_hex(_RANDOM // 2)}{mark}")
    with replacing(new.with_suffix(".parquet")) as tmp:
        shutil.copyfile(shard, tmp)
    manifest.rename(new)  # from here on the new name counts
    shard.unlink()


def lost_rows(name: str) -> bool:
    """Whether `rewrite` took rows from the shard of this name."""
    return _revision(Path(f"{name}.json"))[1] > 0


def names(root: Path, table: tables.Table) -> list[str]:
    """The names of the shards that count; every append and erasure changes them."""
    return [manifest.stem for manifest in _manifests(_folder(root, table))]


def schemas(root: Path) -> set[int]:
    """The schema numbers of all shards of a workspace."""
    folders = [folder for folder in (root / "tables").glob("*") if folder.is_dir()]
    manifests = [manifest for folder in folders for manifest in _manifests(folder)]
    stated = ((whole_object(manifest.read_bytes()) or {}).get("schema") for manifest in manifests)
    return {schema for schema in stated if isinstance(schema, int)}


def _folder(root: Path, table: tables.Table) -> Path:
    return root / "tables" / table.name


def _manifests(folder: Path) -> list[Path]:
    """The manifests that count, in the order of their shards. A copy that a program for shared folders made (of
    000000-3f.json "000000-3f 2.json" or "000000-3f-desktop.json") counts only where its original is gone: otherwise its
    rows would be there twice."""
    newest: dict[str, Path] = {}
    for manifest in sorted(folder.glob("[0-9]*-*.json"), key=lambda path: (_revision(path), -len(path.name))):
        newest[re.sub(r"^(\d+-[\da-f]+).*", r"\1", manifest.name)] = manifest
    return sorted(newest.values())


def _revision(manifest: Path) -> tuple[int, int]:
    """Returns (schema in which a shard was written again, number of its erasures); (0, 0) as it was first written."""
    mark = re.search(r"\.s(\d+)(?:e(\d+))?\.json$", manifest.name)
    return (int(mark[1]), int(mark[2] or 0)) if mark else (0, 0)


def _shard(manifest: Path, table: tables.Table) -> pl.DataFrame:
    """Reads the shard of a manifest; raises StoreError with the remedy where it is not as it was written."""
    remedy = f"delete {manifest.name} there, then {_REMEDIES[table.name]}"
    shard = manifest.with_suffix(".parquet")
    facts = _facts(manifest, remedy)
    if not shard.exists() or shard.stat().st_size != facts["bytes"]:
        raise StoreError(f"{shard}: half written or missing: {remedy}")
    if facts["sha256"] != _sha256(shard):
        raise StoreError(f"{shard}: not the bytes that were written: {remedy}")
    steps = migrations.bulk(table.name, facts["schema"])
    try:
        frame = pl.read_parquet(shard, glob=False, columns=None if steps else list(table.columns))
    except (pl.exceptions.PolarsError, OSError) as fault:
        raise StoreError(f"{shard}: cannot be read ({fault}): {remedy}") from None
    for step in steps:
        frame = step(frame)
    return tables.check(frame.select(list(table.columns)) if steps else frame, table)


def _facts(manifest: Path, remedy: str) -> dict[str, Any]:
    facts = whole_object(manifest.read_bytes()) or {}
    if not {"schema", "bytes", "sha256"} <= facts.keys():
        raise StoreError(f"{manifest}: not a manifest: {remedy}")
    migrations.check(str(manifest), facts["schema"])
    return facts


def _sha256(path: Path) -> str:
    facts = path.stat()
    return _summed(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@cache  # a command that reads a table five times computes its sum once
def _summed(path: Path, *state: int) -> str:
    return release_files.sha256(path)


def _without(frame: pl.DataFrame, table: tables.Table, manifests: Sequence[Path]) -> pl.DataFrame:
    """The rows whose key is in none of these shards."""
    key = list(table.key)
    keys_only = replace(table, columns={c: table.columns[c] for c in key})
    for manifest in manifests:
        frame = frame.join(_shard(manifest, keys_only), key, "anti", nulls_equal=True, maintain_order="left")
    return frame


def _renew(manifest: Path, table: tables.Table) -> None:
    """Writes a shard of an older schema again. A killed call leaves both, and the newer one counts; the next append
    deletes the older one, since somebody may still be reading it."""
    stem = manifest.name.split(".")[0]
    for older in manifest.parent.glob(f"{stem}.*"):
        if _revision(older.with_suffix(".json")) < _revision(manifest):
            older.unlink()
    if migrations.bulk(table.name, _facts(manifest, f"delete {manifest.name}")["schema"]):
        erased = f"e{_revision(manifest)[1]}" if lost_rows(manifest.stem) else ""
        _write_shard(manifest.with_name(f"{stem}.s{migrations.newest()}{erased}.parquet"), _shard(manifest, table))


def _add_shard(folder: Path, table: tables.Table, new: pl.DataFrame) -> None:
    """Writes one more shard, under the lock of the table, and deletes the files that a killed run left.

    Rows that restore a damaged shard, whose manifest was deleted, get its number: the last revision of a row counts.
    """
    name = digest(new.select(table.key).rows())
    taken = {_number(manifest) for manifest in folder.glob("[0-9]*-*.json")}
    number = 1 + max(taken, default=-1)
    stray = sorted(p for p in folder.glob("[0-9]*-*.parquet") if _number(p) not in taken)  # without a manifest
    same = [p for p in stray if p.name.split(".")[0].endswith(f"-{name}")]
    number = min([number, *map(_number, same or [p for p in stray if _number(p) < number and _had_any(p, table, new)])])
    for file in (*folder.glob("*.tmp"), *(p for p in stray if _number(p) == number)):
        file.unlink()
    _write_shard(folder / f"{number:06d}-{name}.parquet", new)


def _number(file: Path) -> int:
    return int(file.name.split("-")[0])


def _had_any(damaged: Path, table: tables.Table, new: pl.DataFrame) -> bool:
    """Whether some of the rows were in the damaged shard: later shards may already have the others. True where it
    cannot be read: lost rows are restored before any others are added."""
    import pyarrow as pa  # slow, so not at the start of every command
    import pyarrow.parquet as pq

    key = list(table.key)
    try:  # arrow, since polars prints pages of text about some of these
        old = pl.DataFrame(pq.read_table(damaged, columns=key)).cast({c: table.schema[c] for c in key})
        return not new.join(old, key, "semi", nulls_equal=True).is_empty()
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError):
        return True


def _write_shard(shard: Path, rows: pl.DataFrame) -> None:
    """Writes the shard, then its manifest."""
    with replacing(shard) as tmp:
        rows.rechunk().write_parquet(tmp, compression="zstd")
    facts = {"rows": rows.height, "bytes": shard.stat().st_size, "schema": migrations.newest()}
    with replacing(shard.with_suffix(".json")) as tmp:
        tmp.write_text(json.dumps(facts | {"sha256": _sha256(shard)}))
