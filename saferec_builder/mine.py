"""From what a source read to conversations: one per id, with a seeker who says something, and nobody's name.

reads  conversations as the sources give them (with `place`, and seekers under the source's own ids)
gives  conversations (seekers as keyed pseudonyms), drops
"""

import hashlib

import polars as pl

from saferec_builder import tables


def mine(read: pl.DataFrame, have: pl.DataFrame, secret: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows of CONVERSATIONS, in order of id; rows of DROPS). `have` is the workspace's table so far.

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
    return pseudonyms(kept, secret).select(list(tables.CONVERSATIONS.columns)), drops


def pseudonyms(frame: pl.DataFrame, secret: bytes) -> pl.DataFrame:
    """The same person of a source always gets the same name, which nobody without the secret can lead back."""
    names = frame.select("source", "seeker").drop_nulls().unique().sort("source", "seeker")
    keyed = [
        hashlib.blake2b(f"{source}\n{who}".encode(), key=secret[:64], digest_size=8).hexdigest()
        for source, who in names.rows()
    ]
    table = names.with_columns(name=pl.Series(keyed, dtype=pl.String))
    joined = frame.join(table, ["source", "seeker"], "left", maintain_order="left")
    return joined.with_columns(seeker=pl.col("name")).drop("name")


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
