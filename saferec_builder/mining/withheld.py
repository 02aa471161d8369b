"""Withheld conversations: no release holds them, and no reviewer and no model reads them."""

import polars as pl

from saferec_builder.core.counts import many
from saferec_builder.mining import removals as wishes
from saferec_builder.mining.removals import REMOVED
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace

CRISIS, FOREIGN = "crisis", "other language"
_NOTICED = ("language", "crisis")  # the marks that count; the other columns of MARKS describe them

MANY = 5  # removals that a message names one by one


def reasons(ws: Workspace, conversations: pl.DataFrame) -> dict[str, str]:
    """conversation -> why it is withheld: `crisis` (the seeker speaks of harming themselves now), a removal on request,
    or a language that saferec.toml does not list (any more).

    `conversations`: at least the newest revision of each, with its source, source_id and seeker.
    """
    newest = tables.last(conversations, "conversation")
    marks = tables.last(workspace.read(ws, tables.MARKS), "conversation", "digest")
    current = marks.join(newest, on=["conversation", "digest"], how="semi")
    languages = ws.config.mine.languages
    foreign = current.filter(~pl.col("language").is_in(languages)) if languages else current.clear()
    found = dict.fromkeys(foreign["conversation"], FOREIGN)
    found |= dict.fromkeys(current.filter("crisis")["conversation"], CRISIS)
    if removals := wishes.of_workspace(ws):
        found |= dict.fromkeys(wishes.gone(removals, newest, workspace.read(ws, tables.ORIGINS)), REMOVED)
    return found


def new_marks(marks: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Rows of MARKS to append: one for each text that has none, or whose _NOTICED marks differ from its last row."""
    # a part of a large workspace
    relevant = before.join(marks, ["conversation", "digest"], "semi", maintain_order="left")
    past = relevant.group_by("conversation", "digest").agg(pl.col("revision").max(), pl.col(_NOTICED).last())
    both = marks.join(past, ["conversation", "digest"], "left", suffix="_was", maintain_order="left")
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(f"{c}_was")) for c in _NOTICED)
    new = both.filter(pl.col("revision").is_null() | ~same)
    number = (pl.col("revision") + 1).fill_null(0).cast(pl.Int32)
    return new.with_columns(revision=number).select(list(tables.MARKS.columns))


def erased(ws: Workspace) -> pl.DataFrame:
    """(conversation, digest) of every revision, older ones too, that somebody asked to remove."""
    removals = wishes.of_workspace(ws)
    if not removals:
        return pl.DataFrame(schema={"conversation": pl.String, "digest": pl.String})
    return wishes.removed(removals, wishes.standing(texts_on_disk.narrow(ws), workspace.read(ws, tables.ORIGINS)))


def unmatched_removals(ws: Workspace) -> str | None:
    """A warning about rows of removals.csv that name nobody who was mined or left out on request so far."""
    removals = wishes.read_removals(ws.root / wishes.FILE)
    if not removals.wishes:
        return None
    mined, posts = texts_on_disk.narrow(ws), workspace.read(ws, tables.ORIGINS)
    posts = posts.join(mined.select("conversation", "digest", "source"), on=["conversation", "digest"])
    ids = pl.concat([frame.select("source", name="source_id") for frame in (mined, posts)]).drop_nulls()
    people = [mined.select("source", who="seeker"), posts.select("source", who="author")]  # these are pseudonyms
    honoured = [workspace.read(ws, table) for table in (tables.HONOURED, tables.FORGOTTEN)]
    met = [wishes.met(removals, ids, ids.clear(), ws.secret), *honoured, *people]
    rest = wishes.unmet(removals, pl.concat(met).drop_nulls(), ws.secret)
    if not rest:
        return None
    named = "; ".join(_unmet(wish, ids) for wish in rest[:MANY]) + ("; ..." if len(rest) > MANY else "")
    return (
        f"{ws.root / 'removals.csv'}: {many(len(rest), 'removal names', 'removals name')} nobody in the workspace, in"
        f" these files or in what was left out before: {named}: what was mined is kept, but nobody was removed by"
        " these: correct the rows, or mine the files that hold them too"
    )


def _unmet(wish: wishes.Wish, ids: pl.DataFrame) -> str:
    if not wish.post:  # authors are stored as pseudonyms, so there is no spelling to compare
        return f"line {wish.line}, an author (is it the source's spelling?)"
    same_source = [wish.source in wishes.spelt(source) for source in ids["source"]]
    names = ids["name"].filter(pl.Series(same_source, dtype=pl.Boolean))
    near = wishes.nearest(wish, names) or wishes.nearest(wish, ids["name"])
    return f"line {wish.line}, {wish.post[:60]!r} (nearest: {', '.join(near) or 'none is like it'})"


def without(rows: pl.DataFrame, withheld: dict[str, str]) -> pl.DataFrame:
    """Rows (with kind and subject) without those of the withheld conversations."""
    return rows.filter((pl.col("kind") != "sensitivity") | ~pl.col("subject").is_in(list(withheld)))
