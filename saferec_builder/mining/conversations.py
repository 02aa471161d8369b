"""Turns the rows of a source into the workspace's conversations: one per id, with pseudonyms for people.

reads  conversations as the sources give them (with `place`; people have the source's own ids until `speakers`)
gives  conversations (people as keyed pseudonyms, placeholders for personal data), origins, drops
"""

from collections import Counter, defaultdict
from collections.abc import Callable

import polars as pl

from saferec_builder.core import titles
from saferec_builder.core.errors import SourceError
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables

# (texts, conversation of each) -> (texts with placeholders, count of each kind)
Hide = Callable[[pl.Series, pl.Series], tuple[pl.Series, Counter[str]]]
MUTE, AGAIN = "no seeker text", "same id"  # why a conversation is dropped; `forget` clears these rows
NEARLY_ALL = 0.9  # from this share of changed texts on, the ids are taken for those of another file
AT_SIGN = {"redial": {"handle"}, "inspired": {"handle"}}  # sources whose workers write @ before a film: no handle there
PLACEHOLDER = r"\[(?:email|phone|ip|card|url|handle|address|name)\]"


def mine(read: pl.DataFrame, have: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows of CONVERSATIONS, sorted by id; rows of DROPS). `have` is the workspace's table so far.

    Dropped: `no seeker text`, and `same id` if an id occurs twice: the finer segmentation (more turns) stays, whatever
    the order. Compared with `have`, a row with fewer turns is dropped only if its words are part of those stored
    already; other words are a changed text, which becomes a new revision.
    """
    read = read.with_row_index("_row")
    spoken, mute = read.filter(_says_something()), read.filter(~_says_something())
    rank = spoken.with_columns(_turns=pl.col("turns").list.len(), _length=_words().str.len_chars())
    rank = rank.sort(
        "conversation", "_turns", "_length", "digest", "place", descending=[False, True, True, False, False]
    )
    finest = rank.drop("_turns", "_length").unique("conversation", keep="first", maintain_order=True)
    coarser = finest.join(_coarser(finest, have), "conversation", "semi")
    kept = finest.join(coarser, "_row", "anti").sort("conversation")
    others = spoken.join(kept, "_row", "anti")
    drops = pl.concat([drops_of(mute, MUTE), drops_of(others, AGAIN)])
    return kept.select(list(tables.CONVERSATIONS.columns)), drops


def pseudonyms(frame: pl.DataFrame, secret: bytes, column: str = "seeker") -> pl.DataFrame:
    """Gives each person of a source the same name every time; without the secret nobody can trace it back."""
    names = frame.select("source", column).drop_nulls().unique().sort("source", column)
    keyed = [pseudonym(source, person, secret) for source, person in names.rows()]
    table = names.with_columns(name=pl.Series(keyed, dtype=pl.String))
    joined = frame.join(table, ["source", column], "left", maintain_order="left")
    return joined.with_columns(pl.col("name").alias(column)).drop("name")


def speakers(frame: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """`pseudonyms` for the seekers and, where the source names them, for the authors of the turns."""
    authors = frame.with_row_index("_row").select("_row", "source", post="posts").explode("post").drop_nulls("post")
    authors = pseudonyms(authors.with_columns(author=pl.col("post").struct["author"]), secret, "author")
    post = pl.col("post").struct.with_fields(author=pl.col("author"))
    posts = authors.with_columns(post).group_by("_row", maintain_order=True).agg(posts="post")
    named = pseudonyms(frame, secret).with_row_index("_row").drop("posts")
    return named.join(posts, "_row", "left", maintain_order="left").select(frame.columns)


def pseudonym(source: str, person: str, secret: bytes) -> str:
    """The name of a person of a source in this workspace: always the same, and nobody without `secret` can trace it."""
    return tables.keyed_digest(secret, source, person)


# ---- personal data


def own_titles(read: pl.DataFrame) -> dict[object, list[str]]:
    """Row -> the titles that its source names for it: a film or a book that was taken up is nobody's name."""
    refs = pl.concat_list(pl.col("recommended", "accepted", "seen").fill_null([]))
    named = read.with_row_index("_row").select("_row", ref=refs.list.unique(maintain_order=True)).explode("ref")
    named = named.filter(pl.col("ref").str.starts_with("title:")).with_columns(pl.col("ref").str.slice(len("title:")))
    by_row = defaultdict[object, list[str]](list)
    for row, name in named.iter_rows():
        by_row[row].append(titles.split_year(name)[0])
    return by_row


def hidden(read: pl.DataFrame, hide: Hide) -> tuple[pl.DataFrame, Counter[str]]:
    """(rows with placeholders in their turns and the column `replaced`, count of each kind).

    A conversation whose text changed gets the digest of the changed text.
    """
    turns = read.with_row_index("_row").select("_row", "turns").explode("turns", empty_as_null=False)
    texts = turns["turns"].struct.field("text")
    clean, counts = hide(texts, turns["_row"])
    changed = turns["_row"].filter(clean != texts)
    if changed.is_empty():
        return read.with_columns(replaced=pl.lit(0, pl.Int32)), counts
    now, before = (column.str.count_matches(PLACEHOLDER).cast(pl.Int32) for column in (clean, texts))
    new = turns.with_columns(pl.col("turns").struct.with_fields(text=clean), marks=(now - before).clip(0))
    lists = new.group_by("_row", maintain_order=True).agg("turns", replaced=pl.col("marks").sum().cast(pl.Int32))
    rows = read.with_row_index("_row").drop("turns").join(lists, "_row", "left", maintain_order="left")
    rows = rows.with_columns(pl.col("turns").fill_null([]), pl.col("replaced").fill_null(0))
    places = changed.unique().sort()
    digests = [tables.digest(list(turns)) for turns in rows["turns"].gather(places)]
    return rows.with_columns(digest=rows["digest"].scatter(places, digests)).select([*read.columns, "replaced"]), counts


def origins(read: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of ORIGINS for the kept conversations whose source has posts (their authors are pseudonyms already)."""
    threads = read.filter(pl.col("posts").is_not_null()).join(kept, ["conversation", "digest"], "semi")
    threads = threads.unique(["conversation", "digest"], keep="first", maintain_order=True)
    posts = threads.select("conversation", "digest", "source", post="posts").explode("post")
    turn = pl.int_range(pl.len()).over("conversation", "digest").cast(pl.Int32)
    rows = posts.with_columns(turn=turn).with_columns(pl.col("post").struct.unnest())
    return rows.select(list(tables.ORIGINS.columns))


# ---- rows


def _says_something() -> pl.Expr:
    speaks = pl.element().struct["role"].eq("seeker") & pl.element().struct["text"].str.contains(r"\S")
    return pl.col("turns").list.eval(speaks).list.any()


def _words() -> pl.Expr:
    texts = pl.col("turns").list.eval(pl.element().struct["text"]).list.join(" ")
    return texts.str.replace_all(r"\s+", " ").str.strip_chars()


def _coarser(new: pl.DataFrame, have: pl.DataFrame) -> pl.DataFrame:
    """Ids of `new` rows that are not in `have`, and whose words are part of its current revision, in more turns."""
    unseen = new.join(have.select("conversation", "digest"), ["conversation", "digest"], "anti")
    facts = {"turns": pl.col("turns").list.len(), "words": _words()}
    current = tables.last(have, "conversation").select("conversation", **facts)
    both = unseen.select("conversation", **facts).join(current, "conversation", suffix="_have")
    part = pl.col("words_have").str.contains(pl.col("words"), literal=True)
    return both.filter((pl.col("turns") < pl.col("turns_have")) & part).select("conversation")


def refuse_other_ids(rows: pl.DataFrame, have: pl.DataFrame) -> None:
    """Raises SourceError if a dataset reuses the ids of another split or file, whose rows it would replace."""
    rows = rows.filter(pl.col("source").str.starts_with(f"{Source.hf}:"))
    for (source,), part in rows.group_by("source", maintain_order=True):
        known = part.join(have, "conversation", "semi")["conversation"].n_unique()
        changed = _changed(part, have)["conversation"].n_unique()
        if changed > 1 and changed >= NEARLY_ALL * known:
            raise SourceError(
                f"mine hf: {changed:,} of {known:,} ids are known from {source}, with wholly other words: does"
                " each split or file count its ids anew? Name a column whose ids are its own (--column id=NAME), or"
                " give the rows as JSON lines with such ids. If these are the same conversations, read rightly now:"
                " delete tables/conversations, and mine all files again. Nothing was added"
            )


def _changed(rows: pl.DataFrame, have: pl.DataFrame) -> pl.DataFrame:
    """The rows whose id is in `have` with other words: the row and the current revision share fewer than half of the
    turns of the shorter one (a few may be shared: many conversations begin with the same greeting)."""
    texts = pl.col("turns").list.eval(pl.element().struct["text"])
    current = tables.last(have.drop_nulls("turns"), "conversation").select("conversation", was=texts)
    both = rows.join(have, ["conversation", "digest"], "anti").join(current, "conversation")
    shared = texts.list.set_intersection("was").list.len()
    shorter = pl.min_horizontal(texts.list.n_unique(), pl.col("was").list.n_unique())
    return both.filter(2 * shared < shorter).drop("was")


def drops_of(rows: pl.DataFrame, reason: str, detail: pl.Expr | None = None) -> pl.DataFrame:
    """Rows of DROPS for conversations that are left out for one reason.

    They hold the place in the file and not the source's id, which must be in no table once a person is forgotten.
    """
    details = pl.lit("") if detail is None else detail
    drops = rows.select("source", "place", stage=pl.lit("mine"), reason=pl.lit(reason), detail=details)
    return drops.select(list(tables.DROPS.columns))
