"""removals.csv of a workspace: who asked to be taken out, and in which conversations they stand.

reads  removals.csv, conversations and origins, read or mined
gives  rows of honoured and of drops; the conversations that nobody is given
"""

import csv
import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.mining.conversations import drops_of, pseudonym
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables

REMOVED = "removed on request"
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

    `hf` stands for every dataset that was mined so.
    """

    ids: frozenset[tuple[str, str]] = frozenset()
    authors: frozenset[tuple[str, str]] = frozenset()
    wishes: tuple[Wish, ...] = ()

    def of(self, wanted: frozenset[tuple[str, str]], source: str) -> set[str]:
        named = source.lower()
        return {value for where, value in wanted if where in ("", named, named.partition(":")[0])}


def read_removals(path: Path) -> Removals:
    """removals.csv of a workspace: source,source_id,author with an id or an author in each row; no file is no wish.

    A row that could name nobody is an error: a wish that is passed by in silence would be a person who stays in.
    """
    if not path.exists():
        return Removals()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _wishes(path, csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise UsageError(f"{path}: cannot be read ({fault}): expected source,source_id,author in UTF-8") from None


def _wishes(path: Path, rows: "csv.DictReader[str]") -> Removals:
    ids, authors, wishes = set[tuple[str, str]](), set[tuple[str, str]](), list[Wish]()
    if not {"source", "source_id", "author"} <= set(rows.fieldnames or ()):
        raise UsageError(f"{path}: found columns {rows.fieldnames}, expected source,source_id,author")
    for row in rows:
        source, post, who = ((row[c] or "").strip() for c in ("source", "source_id", "author"))
        source = source.lower()
        if None in row or any("\n" in cell or "\r" in cell for cell in (source, post, who)):
            raise UsageError(
                f"{path}:{rows.line_num}: expected as many cells as the header has, each in one line: is a comma not"
                " quoted, or a quote not closed?"
            )
        if not post and not who:
            raise UsageError(f"{path}:{rows.line_num}: expected a source_id or an author in each row")
        if source and source.partition(":")[0] not in list(Source):
            raise UsageError(
                f"{path}:{rows.line_num}: no source is called {source[:40]!r}: expected one of"
                f" {', '.join(sorted(Source))}, or nothing for all"
            )
        posts = {(source, name) for name in (post, post.removeprefix("t3_")) if post}
        if post and source in ("", "reddit") and not post.startswith(("t1_", "t3_")):
            posts |= {("reddit", f"{kind}_{post}") for kind in ("t1", "t3")}  # a comment or a submission, who knows
        people = {(source, name) for name in (who, _USER.sub("", who).lower()) if who}
        wishes.append(Wish(rows.line_num, source, post, frozenset(posts), frozenset(people)))
        ids |= posts
        authors |= people
    return Removals(frozenset(ids), frozenset(authors), tuple(wishes))


def without(read: pl.DataFrame, removals: Removals) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows that nobody asked to have removed, rows of DROPS of the others)."""
    gone = pl.lit(False)
    for source in read["source"].unique().sort():
        wish = pl.col("source_id").str.strip_chars().is_in(list(removals.of(removals.ids, source)))
        people = list(removals.of(removals.authors, source))
        wish |= pl.col("seeker").is_in(people)
        wish |= pl.col("posts").list.eval(pl.element().struct["author"].is_in(people)).list.any()
        gone |= (pl.col("source") == source) & wish.fill_null(False)
    # the source's id is what may not be kept: the place in the file says enough
    drops = drops_of(read.filter(gone), REMOVED).with_columns(detail=pl.lit(""))
    return read.filter(~gone), drops


def met(removals: Removals, ids: pl.DataFrame, people: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """Rows of HONOURED: whom removals.csv names of these `ids` and `people` (source, name), as the source has them."""
    found: list[tuple[str, str]] = []
    ids = ids.with_columns(pl.col("name").str.strip_chars())  # as `without` compares them
    for frame, wanted, key in ((ids, removals.ids, _of_id), (people, removals.authors, pseudonym)):
        for source in frame["source"].unique():
            names = frame.filter(pl.col("source") == source)["name"]
            here = names.filter(names.is_in(list(removals.of(wanted, source)))).unique()
            found += [(source, key(source, name, secret)) for name in here]
    return pl.DataFrame(sorted(set(found)), schema=tables.HONOURED.schema, orient="row")


def _of_id(source: str, name: str, secret: bytes) -> str:
    """An id and an author of one name are two; no author has a line break."""
    return pseudonym(source, f"\n{name}", secret)


def met_in(removals: Removals, read: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """`met` of conversations as their sources give them."""
    post = pl.col("posts").struct
    posts = read.select("source", "posts").explode("posts").drop_nulls("posts")
    ids = [read.select("source", name="source_id"), posts.select("source", name=post["source_id"])]
    people = [read.select("source", name="seeker"), posts.select("source", name=post["author"])]
    return met(removals, pl.concat(ids).drop_nulls(), pl.concat(people).drop_nulls(), secret)


def unmet(removals: Removals, have: pl.DataFrame, secret: bytes) -> list[Wish]:
    """Wishes that name nobody of `have` (source, who: pseudonyms): nobody knows whether they were written rightly."""
    known = {source: set(of["who"]) for (source,), of in have.partition_by("source", as_dict=True).items()}

    def is_met(wish: Wish) -> bool:
        return any(
            key(source, name, secret) in who
            for source, who in known.items()
            for names, key in ((wish.ids, _of_id), (wish.authors, pseudonym))
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


def gone(path: Path, conversations: pl.DataFrame, origin: pl.DataFrame, secret: bytes) -> pl.Series:
    """Ids of mined conversations whose current text holds what removals.csv at `path` names: nobody is given them.

    `conversations` and `origin` are the whole tables CONVERSATIONS and ORIGINS.
    """
    newest = tables.last(conversations, "conversation")
    return removed(path, newest, origin, secret)["conversation"].sort()


def removed(path: Path, conversations: pl.DataFrame, origin: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """Columns conversation and digest: every revision given whose text holds what removals.csv at `path` names."""
    removals = read_removals(path)
    mined = conversations.select("conversation", "digest", "source", "source_id", "seeker")
    posts = origin.join(mined.select("conversation", "digest", "source"), ["conversation", "digest"])
    there = pl.concat([mined, posts.rename({"author": "seeker"}).select(mined.columns)])
    found = [there.clear()]
    for source in there["source"].unique().sort():
        people = [pseudonym(source, who, secret) for who in removals.of(removals.authors, source)]
        wish = pl.col("source_id").str.strip_chars().is_in(list(removals.of(removals.ids, source)))
        wish |= pl.col("seeker").is_in(people)
        found.append(there.filter((pl.col("source") == source) & wish))
    return pl.concat(found).select("conversation", "digest").unique()
