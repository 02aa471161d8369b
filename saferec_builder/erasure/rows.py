"""Finds the rows about erased people in the tables of a workspace, and removes them from the tables."""

from collections.abc import Callable

import polars as pl

from annotation import review_history
from annotation.tools.tasks_and_answers import SHEET, base_id
from exports.checks import words_of
from saferec_builder.erasure.people import Erasure
from saferec_builder.mining.conversations import AGAIN, MUTE
from saferec_builder.storage import database, evidence_check, tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace

Change = Callable[[pl.DataFrame], pl.DataFrame]
_BULK = (tables.DROPS, tables.STATED, tables.MARKS, tables.CLUSTERS, tables.PROPOSALS, tables.READINGS, tables.ORIGINS)
_BY_SUBJECT = (tables.ASSIGNMENTS, tables.DESIGN, tables.GOLD, tables.DECOYS, tables.REVIEWS, tables.LABELS)
_ERASED_KEY = f"task-erased{SHEET}"  # a row of KEYED: see `had_keys`
_WORDS = 3  # a note on an answer that repeats so many words of theirs in sequence goes too, whoever it is about


def changes(ws: Workspace, erasure: Erasure) -> list[tuple[tables.Table, Change]]:
    """(bulk table, function that removes their rows from a shard), in the order in which they have to be applied."""

    def without(condition: pl.Expr) -> Change:
        def change(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.filter(~condition)
            if "detail" in rows.columns:  # older programs wrote ids here without noting whose they are
                has_id = (pl.col("stage") == "mine") & pl.col("reason").is_in([MUTE, AGAIN])
                return rows.with_columns(detail=pl.when(has_id).then(pl.lit("")).otherwise("detail"))
            # a cluster has the id of one of its members
            return rows.with_columns(pl.col("cluster").replace(erasure.whole)) if "cluster" in rows.columns else rows

        return change

    return [(table, without(condition)) for table, condition in _conditions(ws, erasure)]


def moved(ws: Workspace, erasure: Erasure) -> tuple[pl.DataFrame, pl.DataFrame]:
    """For conversations of which a text remains: ASSIGNMENTS of an erased text (they hold for all texts of one), and
    REVIEWS of an erased text that hold for the remaining one, too (review_history.standing: not stale). Returns both as
    rows of the remaining text, without notes and quotes that may come from the erased one."""
    old, turns, remaining = _partly(ws, erasure)
    last = remaining.select("subject", now="digest")
    tasks, reviews = (
        workspace.read(ws, table).filter(kind="sensitivity").join(last, on="subject", how="semi", maintain_order="left")
        for table in (tables.ASSIGNMENTS, tables.REVIEWS)
    )
    tasks = tasks.join(old, on=["subject", "digest"], how="semi", maintain_order="left").join(last, on="subject")
    current = pl.col("digest") == pl.col("now")
    texts = turns.join(last, on="subject").with_columns(kind=pl.lit("sensitivity"), current=current)
    judged, _ = review_history.standing(reviews, texts, ws.taxonomy)
    # of a trait that has left the taxonomy nobody says whether its quotes are in the remaining text
    unplaced = (pl.col("out") == review_history.NO_TRAIT) & (pl.col("spans").list.len() > 0)
    is_invalid = (unplaced | pl.col("out").is_in([review_history.STALE, evidence_check.UNFOUNDED])).fill_null(False)
    about_old = reviews.join(old, on=["subject", "digest"], how="semi").select("review")
    staying = judged.filter(~is_invalid).join(about_old, on="review", how="semi", maintain_order="left")
    # what was set aside keeps the owner's reason and loses its quotes, which were not looked up in the remaining text
    is_aside, back = pl.col("verdict").is_null(), pl.lit(tables.HANDED_BACK)
    note = pl.when(review_history.BACK).then(back).when(is_aside).then("note")
    spans = pl.when(is_aside).then(pl.lit([], pl.List(tables.SPAN))).otherwise("spans")
    moved_rows = tasks.with_columns(digest="now").select(list(tables.ASSIGNMENTS.columns))
    return moved_rows, staying.with_columns(note=note, spans=spans).select(list(tables.REVIEWS.columns))


def planted(ws: Workspace, erasure: Erasure) -> pl.DataFrame:
    """DECOYS in conversations of which a text remains, without quotes of the erased one."""
    turns_of = dict(_partly(ws, erasure)[2].select("subject", "turns").iter_rows())
    rows = workspace.read(ws, tables.DECOYS).filter(pl.col("subject").is_in(list(turns_of)))
    spans = [
        [span for span in spans if evidence_check.fault(span, turns_of[subject], "sensitivity") is None]
        for subject, spans in rows.select("subject", "spans").iter_rows()
    ]
    return rows.with_columns(pl.Series("spans", spans, dtype=tables.DECOYS.schema["spans"]))


def _partly(ws: Workspace, erasure: Erasure) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of conversations of which a text remains: (subject and digest of the erased ones, all texts, the last remaining
    text of each); texts as of texts_on_disk.turns."""
    old = _texts(erasure).filter(~pl.col("subject").is_in(list(erasure.whole)))
    turns = texts_on_disk.turns(ws, old["subject"].unique())
    return old, turns, turns.join(old, on=["subject", "digest"], how="anti").unique("subject", keep="last")


def noted(ws: Workspace, erasure: Erasure) -> pl.DataFrame:
    """REVIEWS of other people whose note has an id of theirs, without that id."""
    others = workspace.read(ws, tables.REVIEWS).join(_texts(erasure), on="subject", how="anti", maintain_order="left")
    names = pl.Series(erasure.names, dtype=pl.String)
    named = others.filter(pl.col("note").str.contains_any(names.implode()))
    return named.with_columns(pl.col("note").str.replace_many(dict.fromkeys(names, "[forgotten]")))


def _texts(erasure: Erasure) -> pl.DataFrame:
    return pl.DataFrame(erasure.revisions, schema={"subject": pl.String, "digest": pl.String}, orient="row")


def in_database(ws: Workspace, erasure: Erasure) -> list[tuple[tables.Table, pl.DataFrame]]:
    """Rows of the database to delete, given by the values of some columns. A reply without a note of the text it is
    about is deleted, too: an older program, or one that was killed, asked for it."""
    whole = pl.DataFrame({"subject": list(erasure.whole)}, schema={"subject": pl.String})
    texts = _texts(erasure).join(whole, on="subject", how="anti")
    kind = pl.lit("sensitivity").alias("kind")
    sent = workspace.read(ws, tables.REQUESTS)
    about = pl.concat([sent.join(texts, ["subject", "digest"], "semi"), sent.join(whole, "subject", "semi")])
    orphans = database.orphans(ws.database, tables.REPLIES, tables.REQUESTS, "request")
    requests = pl.DataFrame({"request": [*about["request"], *orphans]}, schema={"request": pl.String}).unique()
    deletions = [(table, whole.select(kind, "subject")) for table in _BY_SUBJECT]
    deletions.append((tables.LABELS, texts.select(kind, "subject", "digest")))
    reviews = workspace.read(ws, tables.REVIEWS).filter(kind="sensitivity").join(texts, ["subject", "digest"], "semi")
    deletions.append((tables.REVIEWS, reviews.join(moved(ws, erasure)[1], on="review", how="anti").select("review")))
    tasks = set(erasure.tasks)
    for table in (tables.SENT, tables.KEYED, tables.TASK_PAGES, tables.REJECTED):
        keys = workspace.read(ws, table)["task"].unique()
        is_theirs = pl.Series([base_id(key) in tasks for key in keys], dtype=pl.Boolean)
        deletions.append((table, keys.filter(is_theirs).to_frame("task")))
    return [*deletions, (tables.REPLIES, requests), (tables.REQUESTS, requests)]


def had_keys(ws: Workspace, erasure: Erasure) -> pl.DataFrame:
    """A row of KEYED in place of erased keys of sheets: without any row, sheets would seem to have no keys, and whoever
    makes up the id of a remaining task could answer it."""
    keys, tasks = workspace.read(ws, tables.KEYED)["task"], set(erasure.tasks)
    any_erased = any(key.endswith(SHEET) and base_id(key) in tasks for key in keys)
    return tables.KEYED.frame([(_ERASED_KEY, [], [], "", "")] if any_erased else [])


def counted(ws: Workspace, erasure: Erasure) -> dict[str, int]:
    """Table -> how many of its rows would be deleted."""
    counts = {
        table.name: sum(part.filter(condition).height for part in workspace.parts(ws, table))
        for table, condition in _conditions(ws, erasure)
    }
    return counts | database.erase(ws.database, in_database(ws, erasure), [], dry=True)


def _conditions(ws: Workspace, erasure: Erasure) -> list[tuple[tables.Table, pl.Expr]]:
    """(bulk table, condition of the rows to delete); conversations come last: their texts are needed to find notes."""
    pairs = [conversation + digest for conversation, digest in erasure.revisions]
    conditions: list[tuple[tables.Table, pl.Expr]] = []
    for table in (*_BULK, tables.CONVERSATIONS):
        name = "subject" if "subject" in table.columns else "conversation"
        if table is tables.DROPS:
            texts = pl.concat_str("place", "detail", separator="\n", ignore_nulls=True)
            condition = texts.str.contains_any(pl.Series(erasure.names, dtype=pl.String).implode())
            quotes_them = words_of(pl.col("detail")).str.contains_any(_phrases(ws, erasure).implode())
            condition |= (pl.col("stage") == "review") & quotes_them
            subjects = [conversation for conversation, _ in erasure.revisions]  # their details quote answers of models
            condition |= (pl.col("stage") == "propose") & pl.col("place").is_in(subjects)
        else:
            condition = pl.col(name).is_in(list(erasure.whole))
            condition |= pl.concat_str(name, "digest").is_in(pairs) if "digest" in table.columns else pl.lit(False)
        conditions.append((table, condition.fill_null(False)))
    return conditions


def _phrases(ws: Workspace, erasure: Erasure) -> pl.Series:
    """Every sequence of _WORDS words in the erased texts."""
    erased = _texts(erasure)
    turns = texts_on_disk.turns(ws, erased["subject"].unique()).join(erased, on=["subject", "digest"], how="semi")
    texts = turns.explode("turns").select(words_of(pl.col("turns").struct.field("text"))).drop_nulls().to_series()
    words = [text.split(" ") for text in texts]
    phrases = {" ".join(row[n : n + _WORDS]) for row in words for n in range(len(row) - _WORDS + 1)}
    return pl.Series(sorted(phrases), dtype=pl.String)
