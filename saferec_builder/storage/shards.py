"""Bulk tables: parquet shards at tables/NAME/NUMBER-DIGEST.parquet, the manifest of each (.json) beside it.

A shard counts only once its manifest stands beside it, and the manifest is written last: whoever is killed leaves
either the old table or the new one. Processes that append at once take turns, so no row is there twice. What was
damaged since it was written is named with the command that brings it back.

A shard of an older schema is brought up to date as it is read (see migrations), and written anew, under the name
NUMBER-DIGEST.sSCHEMA, by the next append to its table: of the shards of one NUMBER-DIGEST the newest schema counts.
One that `rewrite` took somebody out of is called NUMBER-DIGEST.sSCHEMAeTIMES, and counts before those of its schema.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.core.locks import held
from saferec_builder.storage import migrations, tables
from saferec_builder.storage.tables import digest
from saferec_builder.storage.whole_files import replacing

_MINE = "run `saferec-build mine` again on the same files"
_REMADE = {  # table -> what brings back the rows of a shard that is gone
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
    """A bulk table shard by shard, for whoever cannot hold it whole: its key and `columns`, or all of them."""
    wanted = {c: kind for c, kind in table.columns.items() if not columns or c in (*table.key, *columns)}
    for manifest in _manifests(_folder(root, table)):
        yield _shard(manifest, replace(table, columns=wanted))


def append(root: Path, table: tables.Table, frame: pl.DataFrame) -> int:
    """Adds the rows (a checked frame, each key once) whose key is not there yet, and says how many that were."""
    folder = _folder(root, table)
    seen = _manifests(folder)
    new = _without(frame, table, seen)
    if new.is_empty():
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / ".lock", f"{folder}: another command", wait=True):
        new = _without(new, table, [m for m in _manifests(folder) if m not in seen])
        for manifest in _manifests(folder):
            _renew(manifest, table)
        if not new.is_empty():
            _write(folder, table, new)
    return new.height


def rewrite(root: Path, table: tables.Table, change: Callable[[pl.DataFrame], pl.DataFrame]) -> int:
    """Writes every shard anew that `change` makes another one of, and leaves no file of the one before: how many rows
    are gone. This is the one exception to "append, never edit": somebody asked to be forgotten.

    Whoever is killed leaves the old shard or the new one; the next call takes away what is left of both.
    """
    folder, gone = _folder(root, table), 0
    if not folder.is_dir():
        return 0
    with held(folder / ".lock", f"{folder}: another command", wait=True):
        for manifest in _manifests(folder):
            before = _shard(manifest, table)
            after = change(before)
            if not after.equals(before):
                gone += before.height - after.height
                mark = f"s{migrations.newest()}e{_renewal(manifest)[1] + 1}"
                _put(manifest.with_name(f"{manifest.name.split('.')[0]}.{mark}.parquet"), after)
        count = {manifest.stem for manifest in _manifests(folder)}
        for left in folder.iterdir():
            if left.stem not in count and left.name != ".lock" and not left.is_dir():  # a disk's own, such as @eaDir
                left.unlink()
    return gone


def names(root: Path, table: tables.Table) -> list[str]:
    """Of the shards that count: others after every append and erasure."""
    return [manifest.stem for manifest in _manifests(_folder(root, table))]


def schemas(root: Path) -> set[int]:
    """The schema numbers of all shards of a workspace."""
    folders = [folder for folder in (root / "tables").glob("*") if folder.is_dir()]
    manifests = [manifest for folder in folders for manifest in _manifests(folder)]
    facts = (whole_object(manifest.read_bytes()) or {} for manifest in manifests)
    return {int(fact["schema"]) for fact in facts if "schema" in fact}


def _folder(root: Path, table: tables.Table) -> Path:
    return root / "tables" / table.name


def _manifests(folder: Path) -> list[Path]:
    """The manifests that count, in the order of their shards."""
    newest: dict[str, Path] = {}
    for manifest in sorted(folder.glob("[0-9]*-*.json"), key=_renewal):
        newest[manifest.name.split(".")[0]] = manifest
    return sorted(newest.values())


def _renewal(manifest: Path) -> tuple[int, int]:
    """Of a shard as it was first written (0, 0), else the schema in which it was written anew, and the erasures."""
    mark = re.search(r"\.s(\d+)(?:e(\d+))?\.json$", manifest.name)
    return (int(mark[1]), int(mark[2] or 0)) if mark else (0, 0)


def _shard(manifest: Path, table: tables.Table) -> pl.DataFrame:
    """The shard beside its manifest, byte for byte as it was written, or an error that says what brings it back."""
    again = f"delete {manifest.name} there, then {_REMADE[table.name]}"
    shard = manifest.with_suffix(".parquet")
    facts = _facts(manifest, again)
    rows, digested = facts["rows"], facts.get("sha256")
    if not shard.exists() or shard.stat().st_size != facts["bytes"]:
        raise StoreError(f"{shard}: half written or missing: {again}")
    if digested is not None and digested != _sha256(shard):  # None: written before manifests had it
        raise StoreError(f"{shard}: not the bytes that were written: {again}")
    steps = migrations.bulk(table.name, facts["schema"])
    try:
        frame = pl.read_parquet(shard, glob=False, columns=None if steps else list(table.columns))
    except (pl.exceptions.PolarsError, OSError) as fault:
        raise StoreError(f"{shard}: cannot be read ({fault}): {again}") from None
    if frame.height != rows:
        raise StoreError(f"{shard}: {frame.height} rows, its manifest names {rows}: {again}")
    for step in steps:
        frame = step(frame)
    return tables.check(frame.select(list(table.columns)) if steps else frame, table)


def _facts(manifest: Path, again: str) -> dict[str, Any]:
    facts = whole_object(manifest.read_bytes()) or {}
    if not {"schema", "bytes", "rows"} <= facts.keys():
        raise StoreError(f"{manifest}: not a manifest: {again}")
    migrations.check(str(manifest), facts["schema"])
    return facts


def _sha256(path: Path) -> str:
    facts = path.stat()
    return _summed(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@cache  # a command that reads a table five times sums it up once
def _summed(path: Path, *state: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _without(frame: pl.DataFrame, table: tables.Table, manifests: Sequence[Path]) -> pl.DataFrame:
    """The rows whose key is in none of these shards."""
    key = list(table.key)
    narrow = replace(table, columns={c: table.columns[c] for c in key})
    for manifest in manifests:
        frame = frame.join(_shard(manifest, narrow), key, "anti", nulls_equal=True, maintain_order="left")
    return frame


def _renew(manifest: Path, table: tables.Table) -> None:
    """A shard of an older schema written anew. Who is killed on the way leaves both, and the newer one counts; the
    older one goes with the next append, since somebody may be reading it."""
    stem = manifest.name.split(".")[0]
    for left in manifest.parent.glob(f"{stem}.*"):
        if _renewal(left.with_suffix(".json")) < _renewal(manifest):
            left.unlink()
    if migrations.bulk(table.name, _facts(manifest, f"delete {manifest.name}")["schema"]):
        _put(manifest.with_name(f"{stem}.s{migrations.newest()}.parquet"), _shard(manifest, table))


def _write(folder: Path, table: tables.Table, new: pl.DataFrame) -> None:
    """One more shard, by whose turn it is: what a killed run has left of its own is in nobody's way.

    Rows that come back for a damaged shard, whose manifest was deleted, get its place: the last revision counts.
    """
    name = digest(new.select(table.key).rows())
    taken = {_number(manifest) for manifest in folder.glob("[0-9]*-*.json")}
    number = 1 + max(taken, default=-1)
    left = sorted(p for p in folder.glob("[0-9]*-*.parquet") if _number(p) not in taken)  # of nobody's manifest
    same = [p for p in left if p.name.split(".")[0].endswith(f"-{name}")]
    number = min([number, *map(_number, same or [p for p in left if _number(p) < number and _held(p, table, new)])])
    for file in (*folder.glob("*.tmp"), *(p for p in left if _number(p) == number)):
        file.unlink()
    _put(folder / f"{number:06d}-{name}.parquet", new)


def _number(file: Path) -> int:
    return int(file.name.split("-")[0])


def _held(damaged: Path, table: tables.Table, new: pl.DataFrame) -> bool:
    """Whether some of the rows stood there: not all come back where later shards have more of the same. Where it
    cannot be read they did: what was lost is brought back before anything else is added."""
    import pyarrow as pa  # not at the start of every command
    import pyarrow.parquet as pq

    key = list(table.key)
    try:  # arrow, for polars prints pages of a fault of its own at some of these
        before = pl.DataFrame(pq.read_table(damaged, columns=key)).cast({c: table.schema[c] for c in key})
        return not new.join(before, key, "semi", nulls_equal=True).is_empty()
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError):
        return True


def _put(shard: Path, rows: pl.DataFrame) -> None:
    """The shard, then its manifest."""
    with replacing(shard) as tmp:
        rows.rechunk().write_parquet(tmp, compression="zstd")
    facts = {"rows": rows.height, "bytes": shard.stat().st_size, "schema": migrations.newest()}
    with replacing(shard.with_suffix(".json")) as tmp:
        tmp.write_text(json.dumps(facts | {"sha256": _sha256(shard)}))
