"""From what a source read to conversations: one per id, with a seeker who says something, and nobody's name.

reads  conversations as the sources give them (with `place`, and people under the source's own ids), removals
gives  conversations (people as keyed pseudonyms, placeholders for personal data), origins, drops
"""

import csv
import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.sources.conversations import Source
from saferec_builder.storage import tables

Hide = Callable[[pl.Series], tuple[pl.Series, Counter[str]]]  # texts -> (texts with placeholders, how many of what)
REMOVED = "removed on request"
_USER = re.compile(r"^(?:/?(?:u|user)/|@)|/$", re.I)  # what people write around a name on Reddit
PLACEHOLDER = r"\[(?:email|phone|ip|card|url|handle|address|name)\]"


def mine(read: pl.DataFrame, have: pl.DataFrame, secret: bytes | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows of CONVERSATIONS, in order of id; rows of DROPS). `have` is the workspace's table so far.

    Without a secret the seekers are pseudonyms already.

    Dropped: `no seeker text`, and `same id` where an id comes twice: the finer segmentation (more turns) stays,
    whatever the order. Against `have` a row with fewer turns is dropped only where its words are part of the ones
    already there; other words are a changed text, which is a new revision.
    """
    read = read.with_row_index("_row")
    spoken, mute = read.filter(_says_something()), read.filter(~_says_something())
    finest = _finest_first(spoken).unique("conversation", keep="first", maintain_order=True)
    coarser = finest.join(_coarser(finest, have), "conversation", "semi")
    kept = finest.join(coarser, "_row", "anti").sort("conversation")
    others = spoken.join(kept, "_row", "anti")
    drops = pl.concat([_drops(mute, "no seeker text"), _drops(others, "same id")])
    named = kept if secret is None else pseudonyms(kept, secret)
    return named.select(list(tables.CONVERSATIONS.columns)), drops


def pseudonyms(frame: pl.DataFrame, secret: bytes, column: str = "seeker") -> pl.DataFrame:
    """The same person of a source always gets the same name, which nobody without the secret can lead back."""
    names = frame.select("source", column).drop_nulls().unique().sort("source", column)
    keyed = [pseudonym(source, who, secret) for source, who in names.rows()]
    table = names.with_columns(name=pl.Series(keyed, dtype=pl.String))
    joined = frame.join(table, ["source", column], "left", maintain_order="left")
    return joined.with_columns(pl.col("name").alias(column)).drop("name")


def speakers(frame: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """`pseudonyms` of the seekers, and of who wrote each turn where the source says it."""
    each = frame.with_row_index("_row").select("_row", "source", post="posts").explode("post").drop_nulls("post")
    each = pseudonyms(each.with_columns(author=pl.col("post").struct["author"]), secret, "author")
    post = pl.col("post").struct.with_fields(author=pl.col("author"))
    posts = each.with_columns(post).group_by("_row", maintain_order=True).agg(posts="post")
    named = pseudonyms(frame, secret).with_row_index("_row").drop("posts")
    return named.join(posts, "_row", "left", maintain_order="left").select(frame.columns)


def pseudonym(source: str, who: str, secret: bytes) -> str:
    return hashlib.blake2b(f"{source}\n{who}".encode(), key=secret[:64], digest_size=8).hexdigest()


# ---- personal data


def hidden(read: pl.DataFrame, hide: Hide) -> tuple[pl.DataFrame, Counter[str]]:
    """(the rows with placeholders in their turns and the column `replaced`, how many of each kind).

    A conversation whose text changed has the digest of the changed text.
    """
    turns = read.with_row_index("_row").select("_row", "turns").explode("turns", empty_as_null=False)
    texts = turns["turns"].struct.field("text")
    clean, counts = hide(texts)
    changed = turns["_row"].filter(clean != texts)
    if changed.is_empty():
        return read.with_columns(replaced=pl.lit(0, pl.Int32)), counts
    new = turns.with_columns(pl.col("turns").struct.with_fields(text=clean), marks=_placeholders(clean, texts))
    lists = new.group_by("_row", maintain_order=True).agg("turns", replaced=pl.col("marks").sum().cast(pl.Int32))
    rows = read.with_row_index("_row").drop("turns").join(lists, "_row", "left", maintain_order="left")
    rows = rows.with_columns(pl.col("turns").fill_null([]), pl.col("replaced").fill_null(0))
    at = changed.unique().sort()
    some = rows[at.to_list()]
    named = [
        digest_of(list(t), posted=posts is not None and posts[0]["source_id"] is not None)
        for t, posts in zip(some["turns"], some["posts"], strict=True)
    ]
    digests = rows["digest"].scatter(at, named)
    return rows.with_columns(digest=digests).select([*read.columns, "replaced"]), counts


def digest_of(turns: list[dict[str, str]], *, posted: bool) -> str:
    """The digest of turns; where items were found in the text of posts, a better catalog makes no new revision."""
    return tables.digest([[t["role"], t["text"]] for t in turns]) if posted else tables.digest(turns)


def _placeholders(clean: pl.Series, texts: pl.Series) -> pl.Series:
    found = clean.str.count_matches(PLACEHOLDER).cast(pl.Int32) - texts.str.count_matches(PLACEHOLDER).cast(pl.Int32)
    return found.clip(0)


def origins(read: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of ORIGINS of the kept conversations, where their source has posts (whose authors are pseudonyms)."""
    known = read.filter(pl.col("posts").is_not_null()).join(kept, ["conversation", "digest"], "semi")
    known = known.unique(["conversation", "digest"], keep="first", maintain_order=True)
    each = known.select("conversation", "digest", "source", post="posts").explode("post")
    turn = pl.int_range(pl.len()).over("conversation", "digest").cast(pl.Int32)
    named = each.with_columns(turn=turn).with_columns(pl.col("post").struct.unnest())
    return named.select(list(tables.ORIGINS.columns))


# ---- removals on request


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
    drops = _drops(read.filter(gone), REMOVED).with_columns(detail=pl.lit(""))
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
    told = conversations.select("conversation", "digest", "source", "source_id", "seeker")
    posts = origin.join(told.select("conversation", "digest", "source"), ["conversation", "digest"])
    said = pl.concat([told, posts.rename({"author": "seeker"}).select(told.columns)])
    found = [said.clear()]
    for source in said["source"].unique().sort():
        people = [pseudonym(source, who, secret) for who in removals.of(removals.authors, source)]
        wish = pl.col("source_id").str.strip_chars().is_in(list(removals.of(removals.ids, source)))
        wish |= pl.col("seeker").is_in(people)
        found.append(said.filter((pl.col("source") == source) & wish))
    return pl.concat(found).select("conversation", "digest").unique()


# ---- rows


def _says_something() -> pl.Expr:
    said = pl.element().struct["role"].eq("seeker") & pl.element().struct["text"].str.contains(r"\S")
    return pl.col("turns").list.eval(said).list.any()


def _words() -> pl.Expr:
    texts = pl.col("turns").list.eval(pl.element().struct["text"]).list.join(" ")
    return texts.str.replace_all(r"\s+", " ").str.strip_chars()


def _finest_first(frame: pl.DataFrame) -> pl.DataFrame:
    rank = frame.with_columns(_turns=pl.col("turns").list.len(), _length=_words().str.len_chars())
    order = ["conversation", "_turns", "_length", "digest", "place"]
    return rank.sort(order, descending=[False, True, True, False, False]).drop("_turns", "_length")


def _coarser(new: pl.DataFrame, have: pl.DataFrame) -> pl.DataFrame:
    """Ids of `new` rows that are not in `have` and whose words its current revision has in more turns."""
    unknown = new.join(have.select("conversation", "digest"), ["conversation", "digest"], "anti")
    facts = {"turns": pl.col("turns").list.len(), "words": _words()}
    current = tables.last(have, "conversation").select("conversation", **facts)
    both = unknown.select("conversation", **facts).join(current, "conversation", suffix="_have")
    part = pl.col("words_have").str.contains(pl.col("words"), literal=True)
    return both.filter((pl.col("turns") < pl.col("turns_have")) & part).select("conversation")


def _drops(rows: pl.DataFrame, reason: str) -> pl.DataFrame:
    return rows.select(
        stage=pl.lit("mine"), source="source", place="place", reason=pl.lit(reason), detail="source_id"
    ).select(list(tables.DROPS.columns))
