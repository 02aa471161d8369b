"""Files of a workspace in which people stand beside its tables: lists, reviewers' files, copies of input, releases."""

import csv
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exports import released_ids
from exports.folder import facts_of
from exports.report import PAGE
from exports.withdraw import FORGOTTEN, mark, reasons
from saferec_builder.core.errors import ReleaseError, SafeRecError
from saferec_builder.core.plain_files import PARQUET, packed_as
from saferec_builder.core.progress import Progress, counted
from saferec_builder.erasure.people import Gone, releases
from saferec_builder.mining import removals as wishes
from saferec_builder.sources.readers import IN_CELLS, READERS, likely
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace

DATA, EMPTIED = "data", ".emptied"  # of a release; and while it is being deleted
_BLOCK, _EDGE = 8 << 20, 64  # bytes that are searched at once, and how far two pieces overlap
_LISTS, _TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
_MADE = ("label-studio", "mining", "releases", "review", PAGE)  # of ours: a source's names are in no file of these
_ONE_VALUE = re.compile(rb"\x1f\x8b|(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*\"samples\"\s*:)")
_TOKEN = re.compile(r"""[^\s"',;(){}\[\]<>]+""")
_BETWEEN = re.compile(r"([:=|/\\])")  # in a name, or between two
_TASK = re.compile(r"task-[0-9a-f]{16}")  # tasks_and_answers.task_id
_LONGEST, _EDGES = 3, ".!?@*`"  # parts of a name; and what stands around one
_KNOWN = 1_000_000  # words that are remembered as nobody's
_DATABASE = ("workspace.db", "workspace.db-wal", "workspace.db-shm", "workspace.db-journal")
# at the root: each is dealt with by its room
_OURS = (".secret", "saferec.toml", wishes.FILE, ".forget.json", ".outbox.json", *_DATABASE)


def files(root: Path) -> Iterator[Path]:
    """Every file of the workspace but its tables and its database; copies of these are like any other file."""
    for path in sorted(root.rglob("*")):
        match path.relative_to(root).parts:
            case ("tables", name, _) if name in tables.TABLES:
                continue
            case (name,) if name in _OURS or fnmatch(name, "workspace.db.schema-*.bak"):
                continue
        if os.path.isfile(path) and not path.is_symlink():
            yield path


def holding(
    ws: Workspace, gone: Gone, copies: Collection[Path], progress: Progress | None = None
) -> tuple[list[Path], list[Path]]:
    """(The files in which any of their names here stands, or a task of whoever was erased before, as UTF-8 or UTF-16
    (of parquet among the values), or as a word a name that the source has for them, and `copies`, of input with a row
    of theirs; what cannot be read). Nothing is unpacked."""
    names, homes, spelt = gone.names, releases(ws), Spelt(ws, (*gone.forgotten, *gone.ids))
    erased = _erased(ws, gone)
    found, unread = list[Path](), [path for path in sorted(ws.root.rglob("*")) if _is_closed(path)]
    for path in counted([*files(ws.root)], progress):
        made = path.relative_to(ws.root).parts[0] in _MADE or not homes.isdisjoint(path.parents)
        try:
            blocks = () if path in copies else _blocks(path)
            told = any(
                (names and _said(one, names)) or _tasks(_plain(one), erased) or (not made and spelt.stands_in(one))
                for one in blocks
            )
        except (OSError, pa.ArrowException):
            unread.append(path)
        else:
            found += [path] * (told or path in copies)
    return found, unread


def _is_closed(path: Path) -> bool:
    """A folder into which one may not look."""
    return os.path.isdir(path) and not path.is_symlink() and not os.access(path, os.R_OK | os.X_OK)


class Spelt:
    """Names of people as their sources spell them, of which only keyed digests are known (rows of FORGOTTEN)."""

    def __init__(self, ws: Workspace, who: Collection[tuple[str, str]]) -> None:
        self.who, self.sources, self.secret = set(who), {source for source, _ in who}, ws.secret if who else b""
        self.others = set[str]()

    def stands_in(self, block: bytes) -> bool:
        """Whether one is a word there, written as a wish may write it; numbers are none, as those of an id stand for
        much else."""
        words = _words(block.replace(b"\0", b"").decode("utf-8", "ignore")) - self.others
        if any(self._is_theirs(word) for word in words if not word.isdecimal()):
            return True
        if len(self.others) > _KNOWN:
            self.others.clear()
        self.others |= words
        return False

    def _is_theirs(self, word: str) -> bool:
        each = (wishes.hashed(wishes.wish(one, word, word), (), self.secret) for one in self.sources)
        return not all(map(self.who.isdisjoint, each))


def _words(text: str) -> set[str]:
    """Words, and several of them where no blank or quote is between: a name may be `auth0|65f1` or `talk:2024/7`."""
    found = set[str]()
    for token in set(_TOKEN.findall(text.replace("\\/", "/"))):  # as JSON may write it
        parts = _BETWEEN.split(token)
        for start in range(0, len(parts), 2):
            ends = range(start + 1, min(start + 2 * _LONGEST, len(parts) + 1), 2)
            found.update("".join(parts[start:end]).strip(_EDGES) for end in ends)
        found.add(token.strip(_EDGES))
    return found - {""}


def packed(root: Path) -> list[Path]:
    """The files that nobody looks into, whatever they are called."""
    found = list[Path]()
    for path in files(root):
        with suppress(OSError):  # one may not read it: `holding` tells of it
            found += [path] * (packed_as(_head(path)) is not None)
    return found


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def links(root: Path) -> list[Path]:
    """The links that lead out of the workspace: nobody looks behind them."""
    home, all_links = root.resolve(), (path for path in sorted(root.rglob("*")) if os.path.islink(path))
    return [path for path in all_links if os.path.exists(path) and not path.resolve().is_relative_to(home)]


def _said(block: bytes, names: Sequence[str]) -> bool:
    texts = pl.Series([block.decode("latin-1"), _plain(block)])
    return bool(texts.str.contains_any(list(names)).any())


def _plain(block: bytes) -> str:
    """Without the bytes that UTF-16 has between letters."""
    return block.replace(b"\0", b"").decode("latin-1")


def _erased(ws: Workspace, gone: Gone) -> wishes.Removals:
    """Who goes, and who went before: a copy of theirs may have been put back."""
    known = workspace.read(ws, tables.FORGOTTEN).iter_rows()
    return wishes.Removals(forgotten=frozenset((*gone.forgotten, *gone.ids, *known)), secret=ws.secret)


def _tasks(text: str, erased: wishes.Removals) -> list[str]:
    """The tasks in it that were about somebody who is erased."""
    found = set(_TASK.findall(text)) if erased.forgotten else ()
    return [task for task in found if wishes.task_key(task, erased.secret) in erased.forgotten]


def _blocks(path: Path) -> Iterator[bytes]:
    if path.suffix.lower() == ".parquet" or _head(path).startswith(PARQUET):  # without these bytes it is damaged
        for batch in pq.ParquetFile(path).iter_batches():
            yield from (b"\n".join(_values(column)) for column in batch.columns)
        return
    before = b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            yield before + block
            before = block[-_EDGE:]


def _values(column: pa.Array) -> Iterator[bytes]:
    """The texts of a column, those in lists and categories too; the bytes of all else."""
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


# ---- lists, one thing a line


@dataclass(frozen=True)
class Theirs:
    """What a copy of input holds of them: numbers of lines, where a row is one; else ids of dialogues in a table."""

    lines: set[int] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    found: bool = False


def clean_lists(
    ws: Workspace, gone: Gone, *, dry: bool = False, progress: Progress | None = None
) -> tuple[int, list[Path]]:
    """Takes the lines about them out of JSON lines and CSV files, and out of copies of input under any name: (how many
    that were, the copies of input that hold something of theirs still). dry: counts alone, and all files are told."""
    lines, left, homes, erased = 0, list[Path](), releases(ws), _erased(ws, gone)
    for path in counted([*files(ws.root)], progress):
        if path.relative_to(ws.root).parts[0] == "label-studio":
            continue
        theirs, taken = Theirs(), 0
        with suppress(OSError):  # one may not read it, or not write there: `holding` tells of it
            theirs = Theirs() if homes.intersection(path.parents) else _theirs(path, erased)
            listed = path.suffix.lower() in (*_LISTS, *_TABLES) or theirs.lines or theirs.ids
            taken = _clean(path, gone.names, theirs, erased, dry=dry) if listed else 0
        lines += taken
        if (theirs.found and not taken) or (dry and taken):
            left.append(path)
    return lines, left


def _theirs(path: Path, erased: wishes.Removals) -> Theirs:
    lines, ids, found = set[int](), set[str](), False
    for source in likely(path) if erased else ():
        try:
            read = READERS[source](path).rows
        except SafeRecError:  # of another kind, with a field of this name
            continue
        theirs = read.join(wishes.without(read, erased)[0], on=["conversation", "place"], how="anti")
        found |= not theirs.is_empty()
        if source in IN_CELLS:
            ids |= set(theirs["source_id"].drop_nulls())
        elif path.suffix != ".parquet" and not _is_one_value(path):
            lines |= {int(place.rpartition(":")[2]) for place in theirs["place"]}
    return Theirs(lines, ids, found)


def _is_one_value(path: Path) -> bool:
    """A JSON value over the whole file, or a packed one: its rows are no lines."""
    with path.open("rb") as file:
        return bool(_ONE_VALUE.match(file.read(1_000)))


def _clean(path: Path, names: Sequence[str], theirs: Theirs, erased: wishes.Removals, *, dry: bool) -> int:
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16 has no lines of bytes: `holding` tells of it
        return 0
    in_lines = path.suffix.lower() in _LISTS or bool(theirs.lines)
    text = raw.decode("latin-1")
    back = _tasks(text, erased)
    records = _records(text, theirs.ids, in_lines=in_lines)
    texts = pl.Series([text for text, _ in records], dtype=pl.String)
    doomed = texts.str.contains_any([*names, *back]) if names or back else pl.repeat(False, len(texts), eager=True)
    if in_lines:
        doomed |= pl.Series([n in theirs.lines for n in range(1, len(records) + 1)], dtype=pl.Boolean)
    else:
        doomed |= pl.Series([is_theirs for _, is_theirs in records], dtype=pl.Boolean)
    if doomed.any() and not dry:
        with replacing(path) as tmp:
            tmp.write_bytes("".join(texts.filter(~doomed)).encode("latin-1"))
            tmp.chmod(path.stat().st_mode)
    return int(doomed.sum())


def _records(text: str, ids: set[str], *, in_lines: bool) -> list[tuple[str, bool]]:
    """(a row as it stands there, whether its dialog_id is one of these ids); a cell may hold line breaks.

    None of a file with a quote that nobody closes: one could only guess where a row ends, and whose it is.
    """
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if in_lines:
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


def empty_releases(ws: Workspace, gone: Gone, *, again: bool) -> list[Path]:
    """Deletes the data of every release and copy of one that holds them, and withdraws it; its manifest stays, so that
    the next version goes on from there. Their rows leave the key files.

    again: a run before was broken off, so those without data count too, whoever emptied them.
    """
    emptied = []
    for home in sorted(releases(ws)):
        if holds(ws, home, gone):
            if home.parent == ws.releases and home.name not in reasons(ws.releases):
                mark(ws.releases, home.name, FORGOTTEN)
            os.replace(home / DATA, home / EMPTIED)
            emptied.append(home)
        elif again and not (home / DATA).exists():
            emptied.append(home)
        shutil.rmtree(home / EMPTIED, ignore_errors=True)
    for key in ws.releases.glob("*.key.parquet"):
        released_ids.erase(key, [*gone.whole, *gone.before], gone.revisions)
    for draft in ws.releases.glob(".*.tmp"):  # of a build that was killed
        shutil.rmtree(draft, ignore_errors=True)
    return emptied


def held(ws: Workspace, gone: Gone) -> list[Path]:
    """The releases and copies that hold one of the revisions; ReleaseError where one, or a key file, is damaged."""
    for key in ws.releases.glob("*.key.parquet"):
        released_ids.read(key)
    return [home for home in sorted(releases(ws)) if holds(ws, home, gone)]


def holds(ws: Workspace, home: Path, gone: Gone) -> bool:
    """Whether one of the revisions is in this release, as far as its key file tells, else the conversation; or somebody
    who was erased before, where it was put back."""
    dataset, key = facts_of(home)["name"], released_ids.path_of(home)
    named = {released_ids.released(ws, dataset, one): one for one, _ in gone.revisions}
    named |= {one: one for one, _ in gone.revisions}  # of an older program
    paths = sorted((home / DATA / "conversations").glob("*.parquet"))
    try:
        there = [pl.read_parquet(path, columns=["conversation", "digest", "seeker"], glob=False) for path in paths]
    except (pl.exceptions.PolarsError, OSError) as fault:
        why = f"{home}: {DATA}/conversations cannot be read ({str(fault).splitlines()[0]})"
        raise ReleaseError(f"{why}: put your copy of it back, or delete the folder") from None
    if not there:
        return False
    rows = pl.concat(there)
    held = released_ids.read(key) if key.exists() else pl.DataFrame(schema=released_ids.KEY)
    if not {*gone.before}.isdisjoint([*rows["conversation"], *rows["seeker"], *held["subject"], *held["seeker"]]):
        return True
    digests = dict(held.select("conversation", "digest").iter_rows())
    theirs = rows.filter(pl.col("conversation").is_in(list(named))).select("conversation", "digest").iter_rows()
    each = ((named[one], digests.get(one, digest)) for one, digest in theirs)
    gone_now = set(gone.revisions)
    return any(digest is None or (subject, digest) in gone_now for subject, digest in each)
