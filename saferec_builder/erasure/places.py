"""Finds people in files of a workspace beside its tables (lists, reviewers' files, copies of input, releases)."""

import csv
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exports import formats, released_ids
from exports.folder import facts_of
from exports.report import PAGE
from exports.withdraw import FORGOTTEN, mark, reasons
from saferec_builder.core.errors import ReleaseError, SafeRecError
from saferec_builder.core.plain_files import PARQUET, packed_as
from saferec_builder.core.progress import Progress, counted
from saferec_builder.erasure.people import Erasure, Pair, dataset_names, releases
from saferec_builder.mining import removals as wishes
from saferec_builder.sources import saferec
from saferec_builder.sources.readers import READERS, in_cells, likely
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace

DATA, EMPTIED = "data", ".emptied"  # folder of a release with its data; its name while it is deleted
_BLOCK, _EDGE = 8 << 20, 64  # bytes that are searched at once, and the overlap of two blocks
_LISTS, _TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
_OUTPUTS = ("label-studio", "mining", "releases", "review", PAGE)  # our outputs: none holds names of a source
_TOKEN = re.compile(r"""[^\s"',;(){}\[\]<>]+""")
_SEPARATOR = re.compile(r"([:=|/\\])")  # within a name, or between two names
_TASK = re.compile(r"task-[0-9a-f]{16}")  # tasks_and_answers.Task.id
_MAX_PARTS, _PUNCTUATION = 3, ".!?@*`"  # parts of a name; punctuation around one
_MAX_WORDS = 1_000_000  # how many words are remembered as nobody's name
_DATABASE = ("workspace.db", "workspace.db-wal", "workspace.db-shm", "workspace.db-journal")
# files at the root that other steps handle
_ROOT_FILES = (".secret", "saferec.toml", wishes.FILE, ".forget.json", ".outbox.json", *_DATABASE)


def files(root: Path) -> Iterator[Path]:
    """Yields every file of the workspace except its tables and its database; it yields copies of these, too."""
    for path in sorted(root.rglob("*")):
        match path.relative_to(root).parts:
            case ("tables", name, _) if name in tables.TABLES:
                continue
            case (name,) if name in _ROOT_FILES or fnmatch(name, "workspace.db.schema-*.bak"):
                continue
        if os.path.isfile(path) and not path.is_symlink():
            yield path


def files_naming(
    ws: Workspace, erasure: Erasure, copies: Collection[Path], progress: Progress | None = None
) -> tuple[list[Path], list[Path]]:
    """(files that name them, files and folders that cannot be read). A file names them if it holds a name of theirs
    here or a task about somebody erased before, in UTF-8 or UTF-16 (for parquet, in its values and names of columns),
    or their name in a source as a word, also in its own name, or if it is one of `copies`: copies of input with a row
    of theirs. Nothing is unpacked."""
    names, folders, spelled = erasure.names, releases(ws), SpelledNames(ws, (*erasure.forgotten, *erasure.ids))
    erased = _all_erased(ws, erasure)
    folders_here = (path for path in sorted(ws.root.rglob("*")) if os.path.isdir(path) and not path.is_symlink())
    paths, unread = list[Path](), [path for path in folders_here if not os.access(path, os.R_OK | os.X_OK)]
    for path in counted([*files(ws.root)], progress):
        is_ours = path.relative_to(ws.root).parts[0] in _OUTPUTS or not folders.isdisjoint(path.parents)
        try:
            own_name = os.fsencode("\n".join((*path.relative_to(ws.root).parts, path.stem)))
            blocks = () if path in copies else chain([own_name], _blocks(path))
            is_hit = any(
                (names and bool(pl.Series([block.decode("latin-1"), _plain(block)]).str.contains_any(names).any()))
                or _tasks_about(_plain(block), erased)
                or (not is_ours and spelled.is_in(block))
                for block in blocks
            )
        except (OSError, pa.ArrowException):
            unread.append(path)
        else:
            paths += [path] * (is_hit or path in copies)
    return paths, unread


class SpelledNames:
    """Recognises names, as their sources spell them, by keyed digests alone (rows of FORGOTTEN)."""

    def __init__(self, ws: Workspace, keys: Collection[tuple[str, str]]) -> None:
        self.keys, self.sources, self.secret = set(keys), {source for source, _ in keys}, ws.secret if keys else b""
        self.rejected = set[str]()

    def is_in(self, block: bytes) -> bool:
        """Whether a word of the block is such a name, in a spelling that a wish may use. Numbers do not count: those of
        an id can mean much else."""
        words = _words(block.replace(b"\0", b"").decode("utf-8", "ignore")) - self.rejected
        if any(self._is_theirs(word) for word in words if not word.isdecimal()):
            return True
        if len(self.rejected) > _MAX_WORDS:
            self.rejected.clear()
        self.rejected |= words
        return False

    def _is_theirs(self, word: str) -> bool:
        forgotten = (wishes.hashed(wishes.wish(source, word, word), (), self.secret) for source in self.sources)
        return not all(map(self.keys.isdisjoint, forgotten))


def _words(text: str) -> set[str]:
    """Words, and runs of words without a blank or quote between: a name may be `auth0|65f1` or `talk:2024/7`."""
    words = set[str]()
    for token in set(_TOKEN.findall(text.replace("\\/", "/"))):  # as JSON may write it
        parts = _SEPARATOR.split(token)
        for start in range(0, len(parts), 2):
            ends = range(start + 1, min(start + 2 * _MAX_PARTS, len(parts) + 1), 2)
            words.update("".join(parts[start:end]).strip(_PUNCTUATION) for end in ends)
        words.add(token.strip(_PUNCTUATION))
    return words - {""}


def packed(root: Path) -> list[Path]:
    """The packed files, recognised by their first bytes: they are not searched."""
    paths = list[Path]()
    for path in files(root):
        with suppress(OSError):  # it cannot be read: `files_naming` reports it
            paths += [path] * (packed_as(_head(path)) is not None)
    return paths


def _head(path: Path, size: int = 16) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def links(root: Path) -> list[Path]:
    """The links that lead out of the workspace: they are not followed."""
    root_path, all_links = root.resolve(), (path for path in sorted(root.rglob("*")) if os.path.islink(path))
    return [path for path in all_links if os.path.exists(path) and not path.resolve().is_relative_to(root_path)]


def _plain(block: bytes) -> str:
    """The text without the zero bytes that UTF-16 has between letters."""
    return block.replace(b"\0", b"").decode("latin-1")


def _all_erased(ws: Workspace, erasure: Erasure) -> wishes.Removals:
    """People who are erased now or were before: a copy of theirs may have been put back."""
    earlier = workspace.read(ws, tables.FORGOTTEN).iter_rows()
    return wishes.Removals(forgotten=frozenset((*erasure.forgotten, *erasure.ids, *earlier)), secret=ws.secret)


def _tasks_about(text: str, erased: wishes.Removals) -> list[str]:
    """The tasks in a text that were about an erased person."""
    tasks = set(_TASK.findall(text)) if erased.forgotten else ()
    return [task for task in tasks if wishes.task_key(task, erased.secret) in erased.forgotten]


def _blocks(path: Path) -> Iterator[bytes]:
    if path.suffix.lower() == ".parquet" or _head(path).startswith(PARQUET):  # without these bytes it is damaged
        table = pq.ParquetFile(path)
        yield table.schema_arrow.serialize().to_pybytes()  # names of columns
        for batch in table.iter_batches():
            yield from (b"\n".join(_values(column)) for column in batch.columns)
        return  # any short name is in its packed bytes by chance
    tail = b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            yield tail + block
            tail = block[-_EDGE:]


def _values(column: pa.Array) -> Iterator[bytes]:
    """Yields the texts of a column, also from lists and categories, and the bytes of all other values."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        yield from _values(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _values(column.dictionary)
    elif pa.types.is_struct(kind):
        for n in range(kind.num_fields):
            yield from _values(column.field(n))
    elif pa.types.is_map(kind):
        yield from (*_values(column.keys), *_values(column.items))
    elif pa.types.is_nested(kind):
        yield from _values(column.flatten())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield from column.drop_null().cast(pa.large_binary()).to_pylist()
    else:
        yield from (part.to_pybytes() for part in column.buffers() if part is not None)


# ---- lists with one record per line


@dataclass(frozen=True)
class InputRows:
    """Their rows in a copy of input: line numbers if each row is a line, else ids of dialogues in a table."""

    lines: set[int] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    found: bool = False


def clean_lists(
    ws: Workspace, erasure: Erasure, *, dry: bool = False, progress: Progress | None = None
) -> tuple[int, list[Path]]:
    """Removes the lines about them from JSON lines and CSV files, and from copies of input under any name. Returns (how
    many, the copies of input that still hold something of theirs). dry: only counts; returns all files with some."""
    lines, remaining, folders, erased = 0, list[Path](), releases(ws), _all_erased(ws, erasure)
    for path in counted([*files(ws.root)], progress):
        if path.relative_to(ws.root).parts[0] == "label-studio":
            continue
        matched, removed = InputRows(), 0
        with suppress(OSError):  # it cannot be read or written: `files_naming` reports it
            matched = InputRows() if folders.intersection(path.parents) else _input_rows(path, erased)
            in_rows = path.suffix.lower() in (*_LISTS, *_TABLES) or matched.lines or matched.ids
            removed = _clean(path, erasure.names, matched, erased, dry=dry) if in_rows else 0
        lines += removed
        if (matched.found and not removed) or (dry and removed):
            remaining.append(path)
    return lines, remaining


def _input_rows(path: Path, erased: wishes.Removals) -> InputRows:
    lines, ids, any_found = set[int](), set[str](), False
    for source in likely(path) if erased else ():
        try:
            rows = READERS[source](path).rows
        except SafeRecError:  # a file of another kind with a field of this name
            continue
        removed = rows.join(wishes.without(rows, erased)[0], on=["conversation", "place"], how="anti")
        any_found |= not removed.is_empty()
        if in_cells(path, source):
            ids |= set(removed["source_id"].drop_nulls())
        elif not removed.is_empty() and _is_in_lines(path):
            lines |= {int(place.rpartition(":")[2]) for place in removed["place"]}
    return InputRows(lines, ids, any_found)


def _is_in_lines(path: Path) -> bool:
    """Whether each row of a JSON file is a line of its own; False also where that cannot be told."""
    try:
        return path.suffix != ".parquet" and not packed_as(_head(path)) and saferec.samples(path) is None
    except SafeRecError:  # a key comes twice
        return False


def _clean(path: Path, names: Sequence[str], matched: InputRows, erased: wishes.Removals, *, dry: bool) -> int:
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16 cannot be split into lines as bytes: `files_naming` reports it
        return 0
    in_lines = path.suffix.lower() in _LISTS or bool(matched.lines)
    text = raw.decode("latin-1")
    tasks = _tasks_about(text, erased)
    records = _records(text, matched.ids, in_lines=in_lines)
    texts = pl.Series([text for text, _ in records], dtype=pl.String)
    to_drop = texts.str.contains_any([*names, *tasks]) if names or tasks else pl.repeat(False, len(texts), eager=True)
    is_theirs = [n in matched.lines if in_lines else in_ids for n, (_, in_ids) in enumerate(records, 1)]
    to_drop |= pl.Series(is_theirs, dtype=pl.Boolean)
    if to_drop.any() and not dry:
        with replacing(path) as tmp:
            tmp.write_bytes("".join(texts.filter(~to_drop)).encode("latin-1"))
            tmp.chmod(path.stat().st_mode)
            os.utime(tmp, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))  # the version saved last counts
    return int(to_drop.sum())


def _records(text: str, ids: set[str], *, in_lines: bool) -> list[tuple[str, bool]]:
    """(a row as written, whether its dialog_id is one of these ids); a cell may hold line breaks.

    Returns no rows if a quote is not closed: where a row ends, and whose it is, would be a guess.
    """
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if in_lines:
        return [(line, False) for line in lines]
    delimiter = max(",;\t", key=lines[0].count)
    if delimiter == "\t" and ids:  # a copy of INSPIRED, where quotes are ordinary characters
        reader = csv.reader(iter(lines), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    start, id_column, records = 0, slice(0), list[tuple[str, bool]]()
    try:
        for cells in reader:
            if len(records) < 2:  # the header, or `sep=;` and then the header
                columns = [n for n, cell in enumerate(cells) if cell.strip().lower().endswith("dialog_id")]
                id_column = slice(columns[0], columns[0] + 1) if columns else id_column
            records.append(("".join(lines[start : reader.line_num]), bool(ids.intersection(cells[id_column]))))
            start = reader.line_num
    except csv.Error:
        return []
    return records


# ---- releases


def empty_releases(ws: Workspace, erasure: Erasure, *, again: bool) -> list[Path]:
    """Deletes the data of every release, or copy of one, that holds them, and withdraws the release. Its manifest
    stays, so that the next version can build on it. Their rows are removed from the key files. Returns the folders.

    again: an earlier run was interrupted, so folders without data count too, whichever run emptied them.
    """
    emptied = []
    for folder in sorted(releases(ws)):
        if release_holds(ws, folder, erasure):
            if folder.parent == ws.releases and folder.name not in reasons(ws.releases):
                mark(ws, folder.name, FORGOTTEN)
            os.replace(folder / DATA, folder / EMPTIED)
            emptied.append(folder)
        elif again and not (folder / DATA).exists():
            emptied.append(folder)
        shutil.rmtree(folder / EMPTIED, ignore_errors=True)
    for key_file in ws.releases.glob("*.key.parquet"):
        released_ids.erase(key_file, [*erasure.whole, *erasure.before], erasure.revisions)
    for draft in ws.releases.glob(".*.tmp"):  # left by a build that was killed
        shutil.rmtree(draft, ignore_errors=True)
    return emptied


def releases_with(ws: Workspace, erasure: Erasure) -> list[Path]:
    """The releases and copies that hold them; raises ReleaseError if one of these, or a key file, is damaged."""
    for key_file in ws.releases.glob("*.key.parquet"):
        released_ids.read(key_file)
    return [folder for folder in sorted(releases(ws)) if release_holds(ws, folder, erasure)]


def release_holds(ws: Workspace, folder: Path, erasure: Erasure) -> bool:
    """Whether this release holds one of the revisions, or somebody who was erased before, if it was put back. If
    neither it nor its key file says which revision of a conversation it holds, the conversation decides."""
    dataset, key_file, rows = facts_of(folder)["name"], released_ids.path_of(folder), _read_release(folder)
    subjects = {ws.released_id(conversation, dataset): conversation for conversation, _ in erasure.revisions}
    subjects |= {conversation: conversation for conversation, _ in erasure.revisions}  # releases of an older program
    if rows.is_empty():
        return False
    keys = released_ids.read(key_file) if key_file.exists() else pl.DataFrame(schema=released_ids.KEY)
    if not {*erasure.before}.isdisjoint([*rows["conversation"], *rows["seeker"], *keys["subject"], *keys["seeker"]]):
        return True
    digests = dict(keys.select("conversation", "digest").iter_rows())
    released = rows.filter(pl.col("conversation").is_in(list(subjects))).select("conversation", "digest").iter_rows()
    revisions = ((subjects[conversation], digests.get(conversation, digest)) for conversation, digest in released)
    erased = set(erasure.revisions)
    return any(digest is None or (subject, digest) in erased for subject, digest in revisions)


def _read_release(folder: Path) -> pl.DataFrame:
    """(conversation, digest, seeker) of a release; no rows if its data was deleted."""
    paths = sorted((folder / DATA / "conversations").glob("*.parquet"))
    columns = ["conversation", "digest", "seeker"]
    try:
        frames = [pl.read_parquet(path, columns=columns, glob=False) for path in paths]
    except (pl.exceptions.PolarsError, OSError) as fault:
        problem = f"{folder}: {DATA}/conversations cannot be read ({str(fault).splitlines()[0]})"
        raise ReleaseError(f"{problem}: put your copy of it back, or delete the folder") from None
    return pl.concat([pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), *frames])


def _with_digests(ws: Workspace, folder: Path) -> pl.DataFrame:
    """The rows of a release, with the digests of its key file; an empty digest where neither says which text it is."""
    rows, path = _read_release(folder), released_ids.path_of(ws.releases / facts_of(folder)["version"])
    keys = released_ids.read(path) if path.exists() else pl.DataFrame(schema=released_ids.KEY)
    rows = rows.join(keys.select("conversation", of_key="digest"), on="conversation", how="left")
    return rows.with_columns(pl.coalesce("digest", "of_key", pl.lit("")).alias("digest")).drop("of_key")


def without_key(ws: Workspace, erasure: Erasure) -> list[Path]:
    """Releases and copies that hold data, and have no key file: if anybody was erased by an id of their source, nobody
    can recognise them there."""
    if not _all_erased(ws, erasure):
        return []
    keys = {path: released_ids.path_of(ws.releases / facts_of(path)["version"]) for path in sorted(releases(ws))}
    return [path for path, key in keys.items() if not key.exists() and not _read_release(path).is_empty()]


def put_back(ws: Workspace) -> tuple[set[str], list[Pair]]:
    """In releases and key files that somebody put back from a backup: names of people who were erased before, and their
    texts (conversation, digest) in conversations that were mined again without them since."""
    erased, key_files = _all_erased(ws, Erasure()), map(released_ids.read, ws.releases.glob("*.key.parquet"))
    if not erased:
        return set(), []
    frames = [pl.DataFrame(schema=released_ids.KEY), *(_with_digests(ws, path) for path in releases(ws)), *key_files]
    rows = pl.concat(frames, how="diagonal")
    datasets = dataset_names(ws)
    people = {formats.pseudonym(dataset, key) for dataset in datasets for _, key in erased.forgotten}
    subjects = rows.select("digest", conversation="subject").drop_nulls("conversation")
    texts = pl.concat([rows.select("digest", "conversation"), subjects]).unique()
    hits = wishes.erased_in(ws, erased, texts, *datasets)
    names = {*hits.filter(pl.col("mined").is_null())["conversation"]}
    rows = rows.with_columns(pl.col("source_id").str.strip_chars())
    for (source,), part in rows.drop_nulls("source").group_by("source"):
        names |= {*part.filter(pl.col("source_id").is_in(erased.ids_in(str(source), part["source_id"])))["subject"]}
    revisions = hits.select("mined", "digest").drop_nulls().unique().sort("mined", "digest").rows()
    return names | people.intersection(rows["seeker"]), revisions
