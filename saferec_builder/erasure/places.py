"""Files of a workspace in which people stand beside its tables: lists, reviewers' files, copies of input, releases."""

import csv
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from exports import released_ids
from exports.folder import MANIFEST, SUMS, facts_of
from exports.withdraw import mark, reasons
from saferec_builder.core.errors import SafeRecError
from saferec_builder.erasure.people import Gone
from saferec_builder.mining import removals as wishes
from saferec_builder.mining.ingest import READERS
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace

DATA, EMPTIED = "data", ".emptied"  # of a release; and while it is being deleted
REASON = "it held somebody who asked to be forgotten"
_BLOCK, _EDGE = 8 << 20, 64  # bytes that are searched at once, and how far two pieces overlap
_LISTS, _TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
_PACKED = (".7z", ".bz2", ".gz", ".ods", ".xlsx", ".xz", ".zip", ".zst")
_OURS = (".secret", "saferec.toml", wishes.FILE, ".forget.json", ".outbox.json")  # each is dealt with by its room


def files(root: Path) -> Iterator[Path]:
    """Every file of the workspace but its tables, database and locks."""
    for path in sorted(root.rglob("*")):
        first = path.relative_to(root).parts[0]
        ours = first == "tables" or first.startswith("workspace.db") or path.suffix == ".lock" or path.name in _OURS
        if not ours and path.is_file() and not path.is_symlink():
            yield path


def holding(ws: Workspace, gone: Gone) -> list[Path]:
    """The files in which any of their names here stands, as UTF-8 or UTF-16 (of parquet among the values), and the
    copies of input with a row of theirs. Nothing is unpacked."""
    copies, names = _inputs(ws, gone), gone.names
    found = ((path, names and any(_said(block, names) for block in _blocks(path))) for path in files(ws.root))
    return [path for path, said in found if said or path in copies]


def packed(root: Path) -> list[Path]:
    """The files that nobody looks into."""
    return [path for path in files(root) if path.suffix.lower() in _PACKED]


def _said(block: bytes, names: Sequence[str]) -> bool:
    texts = pl.Series([block.decode("latin-1"), block.replace(b"\0", b"").decode("latin-1")])
    return bool(texts.str.contains_any(list(names)).any())


def _blocks(path: Path) -> Iterator[bytes]:
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches():
            for column in batch.columns:
                yield b"\n".join(part.to_pybytes() for part in column.buffers() if part is not None)
        return
    before = b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            yield before + block
            before = block[-_EDGE:]


# ---- lists, one thing a line


def clean_lists(ws: Workspace, gone: Gone) -> int:
    """Takes the lines about them out of JSON lines and CSV files, copies of input among them: how many that were."""
    copies, lines = _inputs(ws, gone), 0
    for path in files(ws.root):
        if path.suffix in (*_LISTS, *_TABLES) and "label-studio" not in path.relative_to(ws.root).parts:
            lines += _clean(path, gone.names, *copies.get(path, (set(), set())))
    return lines


def _inputs(ws: Workspace, gone: Gone) -> dict[Path, tuple[set[int], set[str]]]:
    """Copies of the files that they were read from, with rows of theirs -> (numbers of the lines, their ids in it)."""
    found: dict[Path, tuple[set[int], set[str]]] = {}
    before = workspace.read(ws, tables.FORGOTTEN).iter_rows()  # a copy may have been put back
    erased = wishes.Removals(forgotten=frozenset((*gone.forgotten, *before)), secret=ws.secret)
    for source, name in gone.inputs:
        if source not in list(Source) or not (reader := READERS.get(Source(source))):
            continue
        for path in ws.root.rglob(glob.escape(Path(name).name)):
            try:
                read = reader(path).rows
            except SafeRecError:  # of another kind, under the same name
                continue
            kept, _ = wishes.without(read, erased)
            theirs = read.join(kept, on=["conversation", "place"], how="anti")
            numbers = (place.rpartition(":")[2] for place in theirs["place"])
            if not theirs.is_empty():
                found[path] = {int(n) for n in numbers if n.isdecimal()}, set(theirs["source_id"].drop_nulls())
    return found


def _clean(path: Path, names: Sequence[str], numbers: set[int], ids: set[str]) -> int:
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16 has no lines of bytes: `holding` tells of it
        return 0
    records = _records(path, raw.decode("latin-1"), ids)
    texts = pl.Series([text for text, _ in records], dtype=pl.String)
    doomed = texts.str.contains_any(list(names)) if names else pl.repeat(False, len(texts), eager=True)
    if path.suffix in _LISTS:
        doomed |= pl.Series([n in numbers for n in range(1, len(records) + 1)], dtype=pl.Boolean)
    else:
        doomed |= pl.Series([theirs for _, theirs in records], dtype=pl.Boolean)
    if doomed.any():
        with replacing(path) as tmp:
            tmp.write_bytes("".join(texts.filter(~doomed)).encode("latin-1"))
            tmp.chmod(path.stat().st_mode)
    return int(doomed.sum())


def _records(path: Path, text: str, ids: set[str]) -> list[tuple[str, bool]]:
    """(a row as it stands there, whether its dialog_id is one of these ids); a cell may hold line breaks.

    None of a file with a quote that nobody closes: one could only guess where a row ends, and whose it is.
    """
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if path.suffix in _LISTS:
        return [(line, False) for line in lines]
    marks = max(",;\t", key=lines[0].count)
    if marks == "\t" and ids:  # a copy of INSPIRED, where a quote is a letter
        reader = csv.reader(iter(lines), delimiter=marks, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(iter(lines), delimiter=marks, strict=True)
    at, column, found = 0, slice(0), list[tuple[str, bool]]()
    try:
        for cells in reader:
            if len(found) < 2:  # the header, or `sep=;` and then the header
                named = [n for n, cell in enumerate(cells) if cell.strip().lower().endswith("dialog_id")]
                column = slice(named[0], named[0] + 1) if named else column
            found.append(("".join(lines[at : reader.line_num]), bool(ids.intersection(cells[column]))))
            at = reader.line_num
    except csv.Error:
        return []
    return found


# ---- releases


def releases(ws: Workspace) -> list[Path]:
    """Folders of releases and of copies of them, wherever they lie in the workspace."""
    return sorted(path.parent for path in ws.root.rglob(MANIFEST) if (path.parent / SUMS).is_file())


def empty_releases(ws: Workspace, gone: Gone, *, again: bool) -> list[Path]:
    """Deletes the data of every release and copy of one that holds them, and withdraws it; its manifest stays, so that
    the next version goes on from there. Their rows leave the key files.

    again: a run before was broken off, so those without data count too, whoever emptied them.
    """
    emptied, keys = [], list(ws.releases.glob("*.key.parquet"))
    for key in keys:
        released_ids.read(key)  # a damaged one stops this before anything is deleted
    for home in releases(ws):
        if holds(ws, home, gone):
            if home.parent == ws.releases and home.name not in reasons(ws.releases):
                mark(ws.releases, home.name, REASON)
            os.replace(home / DATA, home / EMPTIED)
            emptied.append(home)
        elif again and not (home / DATA).exists():
            emptied.append(home)
        shutil.rmtree(home / EMPTIED, ignore_errors=True)
    for key in keys:
        released_ids.erase(key, list(gone.whole), gone.revisions)
    for draft in ws.releases.glob(".*.tmp"):  # of a build that was killed
        shutil.rmtree(draft, ignore_errors=True)
    return emptied


def holds(ws: Workspace, home: Path, gone: Gone) -> bool:
    """Whether one of the revisions is in this release, as far as its key file tells; else the conversation."""
    dataset, key = facts_of(home)["name"], released_ids.path_of(home)
    named = {released_ids.released(ws, dataset, one): one for one, _ in gone.revisions}
    named |= {one: one for one, _ in gone.revisions}  # of an older program
    paths = sorted((home / DATA / "conversations").glob("*.parquet"))
    there = [pl.read_parquet(path, columns=["conversation", "digest"], glob=False) for path in paths]
    rows = pl.concat(there).filter(pl.col("conversation").is_in(list(named))) if there else pl.DataFrame()
    if rows.is_empty():
        return False
    digests = dict(released_ids.read(key).select("conversation", "digest").iter_rows()) if key.exists() else {}
    gone_now = set(gone.revisions)
    each = ((named[one], digests.get(one, digest)) for one, digest in rows.iter_rows())
    return any(digest is None or (subject, digest) in gone_now for subject, digest in each)
