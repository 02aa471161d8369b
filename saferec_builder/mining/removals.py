"""Who asked to be removed from a workspace, and which conversations they are in.

reads  removals.csv, the table forgotten (people who were erased), conversations and origins, read or mined
gives  rows of honoured and of drops; the conversations to withhold
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.mining.conversations import drops_of, pseudonym
from saferec_builder.sources import Left, csv_rows, opened, spelling
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, texts_on_disk, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

FILE = "removals.csv"
REMOVED = "removed on request"
_COLUMNS = ("source", "source_id", "author")
TASK, CONVERSATION, NOBODY = "review task", "conversation", "nobody"  # in place of a source
Key = Callable[[str, str, bytes], str]  # source, name, secret
_USER = re.compile(r"^(?:/?(?:u|user)/|@)|/$", re.I)  # prefixes and suffixes that people write around a name of Reddit


@dataclass(frozen=True)
class Wish:
    """One row of removals.csv: everybody whom one of its names means is removed."""

    line: int
    source: str
    post: str  # the id as written; empty if the row names only an author
    ids: frozenset[tuple[str, str]]  # as in Removals
    authors: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Removals:
    """What to remove: (source in lower case, or empty for any; id of a post), (source, author).

    `hf` stands for every dataset that was mined with `mine hf`. `forgotten`: rows of FORGOTTEN, made with `secret`.
    """

    ids: frozenset[tuple[str, str]] = frozenset()
    authors: frozenset[tuple[str, str]] = frozenset()
    wishes: tuple[Wish, ...] = ()
    forgotten: frozenset[tuple[str, str]] = frozenset()
    secret: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.ids or self.authors or self.forgotten)

    def of(self, pairs: frozenset[tuple[str, str]], source: str) -> set[str]:
        """The names of `pairs` (`ids` or `authors`) that may be of this source."""
        return {name for named_source, name in pairs if named_source in spelt(source)}

    def erased(self, source: str) -> set[str]:
        """Keyed digests of ids and pseudonyms of authors of a source."""
        names = spelt(source)
        return {key for named_source, key in self.forgotten if named_source in names}

    def ids_in(self, source: str, names: pl.Series) -> list[str]:
        """Those of the ids, as the source has them, that are to be removed."""
        return self._in(self.ids, id_key, source, names)

    def people_in(self, source: str, names: pl.Series) -> list[str]:
        """Those of the authors, as the source names them, that are to be removed."""
        return self._in(self.authors, pseudonym, source, names)

    def conversations_in(self, names: pl.Series) -> list[str]:
        """Those of the ids of conversations, here or in a release, that were erased."""
        return [name for name in names.unique() if conversation_key(name, self.secret) in self.forgotten]

    def _in(self, pairs: frozenset[tuple[str, str]], key: Key, source: str, names: pl.Series) -> list[str]:
        asked_for, sources = self.of(pairs, source), spelt(source) if self.forgotten else ()
        return [
            name
            for name in names.drop_nulls().unique()
            if name in asked_for or any((s, key(s, name, self.secret)) in self.forgotten for s in sources)
        ]


def spelt(source: str) -> set[str]:
    """The names by which a wish may mean this source."""
    lower = source.lower()
    return {"", source, lower, lower.partition(":")[0]}


def of_workspace(ws: Workspace) -> Removals:
    """The wishes of removals.csv, and who was erased before."""
    rows = workspace.read(ws, tables.FORGOTTEN)
    found = replace(read_removals(ws.root / FILE), forgotten=frozenset(rows.iter_rows()))
    return replace(found, secret=ws.secret) if found else found  # to ask for it makes it: who only looks makes nothing


def read_removals(path: Path) -> Removals:
    """Reads removals.csv: source,source_id,author, with an id or an author in each row; without the file no wishes.

    A row that cannot name anybody is an error: if it were skipped, a person who asked to be removed would stay.
    """
    if not path.exists():
        return Removals()
    wishes, drops = csv_rows(path, "mine", FILE, _wishes, expected=_COLUMNS)
    if drops:
        raise UsageError("{}/{place}: {reason}: {detail}".format(path.parent, **drops[0]))
    return together(wishes)


def _wishes(place: str, row: dict[str, str]) -> list[Wish]:
    source, post, author = (row[column] for column in _COLUMNS)
    if any("\ufffd" in cell for cell in row.values()):  # what UTF-16 could not say
        raise Left("not readable", "a character is damaged: save the file as CSV in UTF-8")
    if any("\n" in cell or "\r" in cell for cell in row.values()):  # it may have taken another wish in
        raise Left("a cell of two lines", "expected each in one: is a quote not closed?")
    if not post and not author:
        raise Left("nobody is named", "expected a source_id or an author in each row")
    source = source.lower()
    if source and source.partition(":")[0] not in list(Source):
        names = ", ".join(sorted(Source))
        raise Left(f"no source is called {source[:40]!r}", f"expected one of {names}, or nothing for all")
    return [wish(source, post, author, int(place.rpartition(":")[2]))]


def wish(source: str, post: str, author: str, line: int = 0) -> Wish:
    """The wish of an id and an author, in whatever form they are written; either may be empty."""
    posts = {(source, name) for name in (post, post.removeprefix("t3_")) if post}
    if post and source in ("", "reddit") and not post.startswith(("t1_", "t3_")):
        posts |= {("reddit", f"{kind}_{post}") for kind in ("t1", "t3")}  # it may be a comment or a submission
    people = {(source, name) for name in (author, _USER.sub("", author).lower()) if author}
    return Wish(line, source, post, frozenset(posts), frozenset(people))


def together(wishes: Sequence[Wish], secret: bytes = b"") -> Removals:
    """The removals that these wishes ask for."""
    none = frozenset[tuple[str, str]]()
    return Removals(
        none.union(*(w.ids for w in wishes)), none.union(*(w.authors for w in wishes)), tuple(wishes), secret=secret
    )


def drop_erased(ws: Workspace) -> None:
    """Takes the rows of erased people out of removals.csv, since their plain names are no longer needed. A row with an
    id and an author stays until both were erased."""
    path, removals, nobody = ws.root / FILE, of_workspace(ws), frozenset[tuple[str, str]]()

    def erased(wish: Wish) -> bool:
        parts = [replace(wish, authors=nobody), replace(wish, ids=nobody)]
        return all(hashed(p, (), ws.secret) & removals.forgotten for p in parts if p.ids or p.authors)

    if finished := {wish.line for wish in removals.wishes if erased(wish)}:
        coding, _ = spelling(path, _COLUMNS)
        coding = coding.removesuffix("-sig")  # the mark stays in the header
        with opened(path) as raw, TextIOWrapper(raw, coding, "surrogateescape", newline="") as file:
            lines = [*file]
        with whole_files.replacing(path, path.stat().st_mode) as tmp:
            tmp.chmod(path.stat().st_mode)  # with the bits that the umask removed
            rest = "".join(line for n, line in enumerate(lines, 1) if n not in finished)
            tmp.write_text(rest, coding, "surrogateescape", newline="")


def hashed(wish: Wish, sources: Iterable[str], secret: bytes) -> set[tuple[str, str]]:
    """Rows of FORGOTTEN for a wish: under the source that it names, and under each of `sources` that it means."""
    keys = set[tuple[str, str]]()
    for names, key in ((wish.ids, id_key), (wish.authors, pseudonym)):
        for named_source, name in names:
            meant = {named_source, *(source for source in sources if named_source in spelt(source))}
            keys |= {(source, key(source, name, secret)) for source in meant}
    return keys


def without(read: pl.DataFrame, removals: Removals) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows that nobody asked to remove, rows of DROPS for the others)."""
    is_removed = pl.lit(False)
    for source in read["source"].unique().sort():
        rows = read.filter(pl.col("source") == source)
        hit = pl.col("source_id").str.strip_chars().is_in(removals.ids_in(source, rows["source_id"].str.strip_chars()))
        writers = rows["posts"].explode().struct.field("author")
        people = removals.people_in(source, pl.concat([rows["seeker"], writers.alias("seeker")]))
        hit |= pl.col("seeker").is_in(people)
        hit |= pl.col("posts").list.eval(pl.element().struct["author"].is_in(people)).list.any()
        is_removed |= (pl.col("source") == source) & hit.fill_null(False)
    return read.filter(~is_removed), drops_of(read.filter(is_removed), REMOVED)


def met(removals: Removals, ids: pl.DataFrame, people: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """Rows of HONOURED: those of `ids` and `people` (source, name; as the source has them) that removals.csv names."""
    keys: list[tuple[str, str]] = []
    ids = ids.with_columns(pl.col("name").str.strip_chars())  # as `without` compares them
    for frame, pairs, key in ((ids, removals.ids, id_key), (people, removals.authors, pseudonym)):
        for source in frame["source"].unique():
            names = frame.filter(pl.col("source") == source)["name"]
            matches = names.filter(names.is_in(list(removals.of(pairs, source)))).unique()
            keys += [(source, key(source, name, secret)) for name in matches]
    return tables.HONOURED.frame(sorted(set(keys)))


def id_key(source: str, name: str, secret: bytes) -> str:
    """The key of an id: other than that of an author of the same name, because no author has a line break."""
    return pseudonym(source, f"\n{name}", secret)


def task_key(task: str, secret: bytes) -> tuple[str, str]:
    """The row of FORGOTTEN for a review task about an erased person: a reviewer's file names the person by it alone."""
    return TASK, pseudonym(TASK, task, secret)


def nobody_keys(keys: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Rows of FORGOTTEN which say that nobody here was meant by these others when they were written."""
    return {(NOBODY, key) for _, key in keys}


def conversation_key(name: str, secret: bytes) -> tuple[str, str]:
    """Row of FORGOTTEN of an id that an erased conversation had here or in a release, which has no other."""
    return CONVERSATION, pseudonym(CONVERSATION, name, secret)


def erased_in(ws: Workspace, removals: Removals, rows: pl.DataFrame, *datasets: str) -> pl.DataFrame:
    """The `rows` (conversation: an id here or in a release of these datasets; digest) of conversations that were
    erased, with `mined`: the id here where one was mined again, as a thread on Reddit is without the posts of whoever
    was erased, else null. The texts of it that are here now are not erased ones, unless a backup of the tables was put
    back."""
    hits = rows.filter(pl.col("conversation").is_in(removals.conversations_in(rows["conversation"])))
    if hits.is_empty():
        return hits.with_columns(mined=pl.lit(None, pl.String))
    rows_here = texts_on_disk.narrow(ws)
    back = removed(removals, standing(rows_here, workspace.read(ws, tables.ORIGINS)))
    here = rows_here.join(back, on=["conversation", "digest"], how="anti").select("digest", mined="conversation")
    again = removals.conversations_in(here["mined"])
    names = {name: mined for mined in again for name in (mined, *(ws.released_id(mined, d) for d in datasets))}
    mined = pl.col("conversation").replace_strict(names, default=None, return_dtype=pl.String)
    return hits.with_columns(mined=mined).join(here, on=["mined", "digest"], how="anti")


def met_in(removals: Removals, read: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """`met` for conversations as their sources give them."""
    post = pl.col("posts").struct
    posts = read.select("source", "posts").explode("posts").drop_nulls("posts")
    ids = [read.select("source", name="source_id"), posts.select("source", name=post["source_id"])]
    people = [read.select("source", name="seeker"), posts.select("source", name=post["author"])]
    return met(removals, pl.concat(ids).drop_nulls(), pl.concat(people).drop_nulls(), secret)


def in_other_case(removals: Removals, kept: pl.DataFrame) -> int:
    """How many authors of these conversations have the name of a wish in other capitals: only the owner of the data
    knows whether they are the same people."""
    wishes = {(source, name.casefold()) for source, name in removals.authors}
    posters = kept.explode("posts").select("source", who=pl.col("posts").struct["author"])
    people = pl.concat([kept.select("source", who="seeker"), posters])
    names = people.drop_nulls().unique().iter_rows()
    return sum(any((s, name.casefold()) in wishes for s in spelt(source)) for source, name in names)


def unmet(removals: Removals, have: pl.DataFrame, secret: bytes) -> list[Wish]:
    """Wishes that name nobody of `have` (source, who: a pseudonym); they may be misspelt."""
    sources, present = have["source"].unique(), frozenset(have.iter_rows())
    return [wish for wish in removals.wishes if present.isdisjoint(hashed(wish, sources, secret))]


def nearest(wish: Wish, ids: pl.Series) -> list[str]:
    """Up to three ids whose spelling is close to that of the wish."""
    plain = re.compile("^t[13]_")
    word = plain.sub("", wish.post)
    pairs = {word[n : n + 2] for n in range(max(1, len(word) - 1))}
    frame = pl.DataFrame({"id": ids.unique().sort()})
    shared = pl.sum_horizontal(pl.col("id").str.contains(pair, literal=True).cast(pl.Int32) for pair in sorted(pairs))
    likely = frame.with_columns(shared=shared).filter(pl.col("shared") > 0).sort("shared", descending=True)
    spelt = {plain.sub("", name): name for name in likely["id"].head(500)}  # difflib is slow
    return [spelt[name] for name in difflib.get_close_matches(word, spelt, 3)]


def gone(removals: Removals, conversations: pl.DataFrame, origin: pl.DataFrame) -> pl.Series:
    """Ids of mined conversations to withhold: their current text holds something that is to be removed.

    `conversations` and `origin` are the whole tables CONVERSATIONS and ORIGINS.
    """
    newest = tables.last(conversations, "conversation")
    return removed(removals, standing(newest, origin))["conversation"].sort()


def standing(conversations: pl.DataFrame, origin: pl.DataFrame) -> pl.DataFrame:
    """(conversation, digest, source, source_id, seeker): a row per revision, and per post in it with its author."""
    mined = conversations.select("conversation", "digest", "source", "source_id", "seeker")
    posts = origin.join(mined.select("conversation", "digest", "source"), ["conversation", "digest"])
    return pl.concat([mined, posts.rename({"author": "seeker"}).select(mined.columns)])


def removed(removals: Removals, rows: pl.DataFrame) -> pl.DataFrame:
    """(conversation, digest) of every revision in `rows` (as of `standing`) with something that is to be removed."""
    ids, hit = rows["source_id"].str.strip_chars(), pl.repeat(False, rows.height, eager=True)
    for source in rows["source"].unique():
        people = {pseudonym(source, name, removals.secret) for name in removals.of(removals.authors, source)}
        people |= removals.erased(source)
        is_source = rows["source"] == source
        is_removed = ids.is_in(removals.ids_in(source, ids.filter(is_source))) | rows["seeker"].is_in(list(people))
        hit |= is_source & is_removed.fill_null(False)
    return rows.filter(hit).select("conversation", "digest").unique()
