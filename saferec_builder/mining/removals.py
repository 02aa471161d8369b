"""Who asked to be taken out of a workspace, and in which conversations they stand.

reads  removals.csv, the table forgotten (whoever was erased), conversations and origins, read or mined
gives  rows of honoured and of drops; the conversations that nobody is given
"""

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.core.plain_files import read_plain
from saferec_builder.mining.conversations import drops_of, pseudonym
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

FILE = "removals.csv"
REMOVED = "removed on request"
_COLUMNS = {"source", "source_id", "author"}
TASK = "review task"  # in place of a source
Key = Callable[[str, str, bytes], str]  # source, name, secret
_USER = re.compile(r"^(?:/?(?:u|user)/|@)|/$", re.I)  # what people write around a name on Reddit


@dataclass(frozen=True)
class Wish:
    """One row of removals.csv: whoever any of its names means is taken out."""

    line: int
    source: str
    post: str  # its id as written; empty where it names an author alone
    ids: frozenset[tuple[str, str]]  # as in Removals
    authors: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Removals:
    """What people asked to have taken out: (source in small letters, or empty for any, id of a post), (source, author).

    `hf` stands for every dataset that was mined so. `forgotten`: rows of FORGOTTEN, made with `secret`.
    """

    ids: frozenset[tuple[str, str]] = frozenset()
    authors: frozenset[tuple[str, str]] = frozenset()
    wishes: tuple[Wish, ...] = ()
    forgotten: frozenset[tuple[str, str]] = frozenset()
    secret: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.ids or self.authors or self.forgotten)

    def of(self, wanted: frozenset[tuple[str, str]], source: str) -> set[str]:
        return {value for where, value in wanted if where in spelt(source)}

    def erased(self, source: str) -> set[str]:
        """Keyed digests of ids and pseudonyms of authors of a source."""
        names = spelt(source)
        return {who for where, who in self.forgotten if where in names}

    def ids_in(self, source: str, names: pl.Series) -> list[str]:
        """Of these ids, as the source has them, those that are to be left out."""
        return self._in(self.ids, id_key, source, names)

    def people_in(self, source: str, names: pl.Series) -> list[str]:
        """Of these authors, as the source names them, those that are to be left out."""
        return self._in(self.authors, pseudonym, source, names)

    def _in(self, wanted: frozenset[tuple[str, str]], key: Key, source: str, names: pl.Series) -> list[str]:
        clear, known = self.of(wanted, source), names.drop_nulls().unique().to_list()
        if not self.forgotten:
            return [name for name in known if name in clear]
        gone = {name for name in known for s in spelt(source) if (s, key(s, name, self.secret)) in self.forgotten}
        return [name for name in known if name in clear or name in gone]


def spelt(source: str) -> set[str]:
    """How a wish may name it."""
    named = source.lower()
    return {"", source, named, named.partition(":")[0]}


def asked(ws: Workspace) -> Removals:
    """What removals.csv asks for, and who was erased before."""
    rows = workspace.read(ws, tables.FORGOTTEN)
    found = replace(read_removals(ws.root / FILE), forgotten=frozenset(rows.iter_rows()))
    return replace(found, secret=ws.secret) if found else found  # to ask for it makes it: who only looks makes nothing


def read_removals(path: Path) -> Removals:
    """removals.csv of a workspace: source,source_id,author with an id or an author in each row; no file is no wish.

    A row that could name nobody is an error: a wish that is passed by in silence would be a person who stays in.
    """
    if not path.exists():
        return Removals()
    try:
        text = read_plain(path).decode("utf-8-sig")
        return _wishes(path, csv.DictReader(io.StringIO(text, newline=""), delimiter=_mark(text), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise UsageError(f"{path}: cannot be read ({fault}): expected source,source_id,author in UTF-8") from None


def _mark(text: str) -> str:
    """What parts the cells, by the header: spreadsheets of some languages save semicolons."""
    header = next(iter(text.splitlines()), "")
    return max(",;\t", key=lambda mark: ({*next(csv.reader([header], delimiter=mark))} >= _COLUMNS, header.count(mark)))


def _wishes(path: Path, rows: "csv.DictReader[str]") -> Removals:
    wishes = list[Wish]()
    if not set(rows.fieldnames or ()) >= _COLUMNS:
        raise UsageError(f"{path}: found columns {rows.fieldnames}, expected source,source_id,author")
    for row in rows:
        source, post, who = ((row[c] or "").strip() for c in ("source", "source_id", "author"))
        source = source.lower()
        if None in row or any("\n" in cell or "\r" in cell for cell in (source, post, who)):
            raise UsageError(
                f"{path}:{rows.line_num}: expected as many cells as the header has, each in one line: is a comma (or"
                " semicolon) not quoted, or a quote not closed?"
            )
        if not post and not who:
            raise UsageError(f"{path}:{rows.line_num}: expected a source_id or an author in each row")
        if source and source.partition(":")[0] not in list(Source):
            raise UsageError(
                f"{path}:{rows.line_num}: no source is called {source[:40]!r}: expected one of"
                f" {', '.join(sorted(Source))}, or nothing for all"
            )
        wishes.append(wish(source, post, who, rows.line_num))
    return together(wishes)


def wish(source: str, post: str, who: str, line: int = 0) -> Wish:
    """What an id and an author mean, however they are written; either may be empty."""
    posts = {(source, name) for name in (post, post.removeprefix("t3_")) if post}
    if post and source in ("", "reddit") and not post.startswith(("t1_", "t3_")):
        posts |= {("reddit", f"{kind}_{post}") for kind in ("t1", "t3")}  # a comment or a submission, who knows
    people = {(source, name) for name in (who, _USER.sub("", who).lower()) if who}
    return Wish(line, source, post, frozenset(posts), frozenset(people))


def together(wishes: Sequence[Wish], secret: bytes = b"") -> Removals:
    none = frozenset[tuple[str, str]]()
    return Removals(
        none.union(*(w.ids for w in wishes)), none.union(*(w.authors for w in wishes)), tuple(wishes), secret=secret
    )


def drop_erased(ws: Workspace) -> None:
    """removals.csv without the rows of people who were erased: their names in clear are needed no more. A row with an
    id and an author stays until both were."""
    path, removals, nobody = ws.root / FILE, asked(ws), frozenset[tuple[str, str]]()

    def erased(wish: Wish) -> bool:
        parts = [replace(wish, authors=nobody), replace(wish, ids=nobody)]
        return all(hashed(p, (), ws.secret) & removals.forgotten for p in parts if p.ids or p.authors)

    if done := {wish.line for wish in removals.wishes if erased(wish)}:
        lines = path.read_bytes().splitlines(keepends=True)
        with whole_files.replacing(path, path.stat().st_mode) as tmp:
            tmp.chmod(path.stat().st_mode)  # what the umask took
            tmp.write_bytes(b"".join(line for n, line in enumerate(lines, 1) if n not in done))


def hashed(wish: Wish, sources: Iterable[str], secret: bytes) -> set[tuple[str, str]]:
    """Rows of FORGOTTEN of what this wish means, for every source and for those that are in the workspace."""
    found = set[tuple[str, str]]()
    for names, key in ((wish.ids, id_key), (wish.authors, pseudonym)):
        for where, name in names:
            here = {where, *(source for source in sources if where in spelt(source))}
            found |= {(source, key(source, name, secret)) for source in here}
    return found


def without(read: pl.DataFrame, removals: Removals) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows that nobody asked to have removed, rows of DROPS of the others)."""
    gone = pl.lit(False)
    for source in read["source"].unique().sort():
        here = read.filter(pl.col("source") == source)
        wish = pl.col("source_id").str.strip_chars().is_in(removals.ids_in(source, here["source_id"].str.strip_chars()))
        writers = here["posts"].explode().struct.field("author")
        people = removals.people_in(source, pl.concat([here["seeker"], writers.alias("seeker")]))
        wish |= pl.col("seeker").is_in(people)
        wish |= pl.col("posts").list.eval(pl.element().struct["author"].is_in(people)).list.any()
        gone |= (pl.col("source") == source) & wish.fill_null(False)
    return read.filter(~gone), drops_of(read.filter(gone), REMOVED)


def met(removals: Removals, ids: pl.DataFrame, people: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """Rows of HONOURED: whom removals.csv names of these `ids` and `people` (source, name), as the source has them."""
    found: list[tuple[str, str]] = []
    ids = ids.with_columns(pl.col("name").str.strip_chars())  # as `without` compares them
    for frame, wanted, key in ((ids, removals.ids, id_key), (people, removals.authors, pseudonym)):
        for source in frame["source"].unique():
            names = frame.filter(pl.col("source") == source)["name"]
            here = names.filter(names.is_in(list(removals.of(wanted, source)))).unique()
            found += [(source, key(source, name, secret)) for name in here]
    return tables.HONOURED.frame(sorted(set(found)))


def id_key(source: str, name: str, secret: bytes) -> str:
    """An id and an author of one name are two; no author has a line break."""
    return pseudonym(source, f"\n{name}", secret)


def task_key(task: str, secret: bytes) -> tuple[str, str]:
    """Row of FORGOTTEN of a task about somebody who is erased: a reviewer's file has no other name of theirs."""
    return TASK, pseudonym(TASK, task, secret)


def met_in(removals: Removals, read: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """`met` of conversations as their sources give them."""
    post = pl.col("posts").struct
    posts = read.select("source", "posts").explode("posts").drop_nulls("posts")
    ids = [read.select("source", name="source_id"), posts.select("source", name=post["source_id"])]
    people = [read.select("source", name="seeker"), posts.select("source", name=post["author"])]
    return met(removals, pl.concat(ids).drop_nulls(), pl.concat(people).drop_nulls(), secret)


def in_other_case(removals: Removals, kept: pl.DataFrame) -> int:
    """How many authors of these conversations are called as somebody who was asked for, but for capitals: nobody but
    the owner of the data knows whether they are the same people."""
    asked = {(where, name.casefold()) for where, name in removals.authors}
    people = pl.concat([kept.select("source", who="seeker"), kept.explode("posts").select("source", who=_AUTHOR)])
    known = people.drop_nulls().unique().iter_rows()
    return sum(any((s, who.casefold()) in asked for s in spelt(source)) for source, who in known)


_AUTHOR = pl.col("posts").struct.field("author")


def unmet(removals: Removals, have: pl.DataFrame, secret: bytes) -> list[Wish]:
    """Wishes that name nobody of `have` (source, who: pseudonyms): nobody knows whether they were written rightly."""
    known = {source: set(of["who"]) for (source,), of in have.partition_by("source", as_dict=True).items()}

    def is_met(wish: Wish) -> bool:
        return any(
            key(source, name, secret) in who
            for source, who in known.items()
            for names, key in ((wish.ids, id_key), (wish.authors, pseudonym))
            for name in removals.of(names, source)
        )

    return [wish for wish in removals.wishes if not is_met(wish)]


def nearest(wish: Wish, ids: pl.Series) -> list[str]:
    """Up to three of these ids that are written much like the one of the wish."""
    plain = re.compile("^t[13]_")
    word = plain.sub("", wish.post)
    pairs = {word[n : n + 2] for n in range(max(1, len(word) - 1))}
    frame = pl.DataFrame({"id": ids.unique().sort()})
    shared = pl.sum_horizontal(pl.col("id").str.contains(pair, literal=True).cast(pl.Int32) for pair in sorted(pairs))
    likely = frame.with_columns(shared=shared).filter(pl.col("shared") > 0).sort("shared", descending=True)
    spelt = {plain.sub("", name): name for name in likely["id"].head(500)}  # difflib is slow
    return [spelt[name] for name in difflib.get_close_matches(word, spelt, 3)]


def gone(removals: Removals, conversations: pl.DataFrame, origin: pl.DataFrame) -> pl.Series:
    """Ids of mined conversations whose current text holds what was asked to be left out: nobody is given them.

    `conversations` and `origin` are the whole tables CONVERSATIONS and ORIGINS.
    """
    newest = tables.last(conversations, "conversation")
    return removed(removals, standing(newest, origin))["conversation"].sort()


def standing(conversations: pl.DataFrame, origin: pl.DataFrame) -> pl.DataFrame:
    """(conversation, digest, source, source_id, seeker): each revision, and each post in it with its author."""
    mined = conversations.select("conversation", "digest", "source", "source_id", "seeker")
    posts = origin.join(mined.select("conversation", "digest", "source"), ["conversation", "digest"])
    return pl.concat([mined, posts.rename({"author": "seeker"}).select(mined.columns)])


def removed(removals: Removals, there: pl.DataFrame) -> pl.DataFrame:
    """Columns conversation and digest: every revision of these (`standing`) that holds what is to be left out."""
    found = [there.clear()]
    for (source,), here in there.partition_by("source", as_dict=True).items():
        people = {pseudonym(source, who, removals.secret) for who in removals.of(removals.authors, source)}
        people |= removals.erased(source)
        ids = here["source_id"].str.strip_chars()
        wish = ids.is_in(removals.ids_in(source, ids)) | here["seeker"].is_in(list(people)).fill_null(False)
        found.append(here.filter(wish))
    return pl.concat(found).select("conversation", "digest").unique()
