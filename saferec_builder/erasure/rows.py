"""Rows of a workspace's tables in which people stand who are erased: which they are, and each table without them."""

from collections.abc import Callable

import polars as pl

from annotation import review_history
from annotation.tools.tasks_and_answers import SHEET, base_id
from saferec_builder.erasure.people import Gone
from saferec_builder.mining.conversations import AGAIN, MUTE
from saferec_builder.storage import database, evidence_check, tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace

Change = Callable[[pl.DataFrame], pl.DataFrame]
_BULK = (tables.DROPS, tables.STATED, tables.MARKS, tables.CLUSTERS, tables.PROPOSALS, tables.READINGS, tables.ORIGINS)
_BY_SUBJECT = (tables.ASSIGNMENTS, tables.DESIGN, tables.GOLD, tables.DECOYS, tables.REVIEWS, tables.LABELS)
_ERASED = f"task-erased{SHEET}"  # in KEYED: sheets had keys
_WORDS = 3  # in a row: a note on an answer that has so many of theirs goes too, whomever it is about


def changes(ws: Workspace, gone: Gone) -> list[tuple[tables.Table, Change]]:
    """Bulk table -> what makes of its shards those without them, in the order in which it has to be done."""

    def without(theirs: pl.Expr) -> Change:
        def change(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.filter(~theirs)
            if "detail" in rows.columns:  # of an older program: whose these ids are nobody has noted
                named = (pl.col("stage") == "mine") & pl.col("reason").is_in([MUTE, AGAIN])
                return rows.with_columns(detail=pl.when(named).then(pl.lit("")).otherwise("detail"))
            # a cluster has the id of one of its members
            return rows.with_columns(pl.col("cluster").replace(gone.whole)) if "cluster" in rows.columns else rows

        return change

    return [(table, without(theirs)) for table, theirs in _theirs(ws, gone)]


def moved(ws: Workspace, gone: Gone) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of conversations that stay, ASSIGNMENTS on a text that goes, which are for all texts of one, and REVIEWS that
    stand in the text that is left: both as they are on that, without notes and quotes, which may be of the other."""
    old = _texts(gone).filter(~pl.col("subject").is_in(list(gone.whole)))
    said = texts_on_disk.turns(ws, old["subject"].unique())
    left = said.join(old, on=["subject", "digest"], how="anti").unique("subject", keep="last")
    now = left.select("subject", now="digest")
    given, reviews = (
        workspace.read(ws, table).filter(kind="sensitivity").join(now, on="subject", how="semi", maintain_order="left")
        for table in (tables.ASSIGNMENTS, tables.REVIEWS)
    )
    given = given.join(old, on=["subject", "digest"], how="semi", maintain_order="left").join(now, on="subject")
    current = pl.col("digest") == pl.col("now")
    texts = said.join(now, on="subject").with_columns(kind=pl.lit("sensitivity"), current=current)
    judged, _ = review_history.standing(reviews, texts, ws.taxonomy)
    fallen = pl.col("out").is_in([review_history.STALE, evidence_check.UNFOUNDED]).fill_null(False)
    theirs = reviews.join(old, on=["subject", "digest"], how="semi").select("review")
    stay = judged.filter(~fallen).join(theirs, on="review", how="semi", maintain_order="left")
    # of what was set aside the owner's reason stays, and its quotes, which nobody looked for in the text of today, go
    aside, back = pl.col("verdict").is_null(), pl.lit(tables.HANDED_BACK)
    note = pl.when(review_history.BACK).then(back).when(aside).then("note")
    spans = pl.when(aside).then(pl.lit([], pl.List(tables.SPAN))).otherwise("spans")
    moved_ones = given.with_columns(digest="now").select(list(tables.ASSIGNMENTS.columns))
    return moved_ones, stay.with_columns(note=note, spans=spans).select(list(tables.REVIEWS.columns))


def _texts(gone: Gone) -> pl.DataFrame:
    return pl.DataFrame(gone.revisions, schema={"subject": pl.String, "digest": pl.String}, orient="row")


def in_database(ws: Workspace, gone: Gone) -> list[tuple[tables.Table, pl.DataFrame]]:
    """Rows of the database that go, named by some of their columns. A reply of which nobody has noted whose it is
    goes, too: an older program, or one that was killed, has asked for it."""
    whole = pl.DataFrame({"subject": list(gone.whole)}, schema={"subject": pl.String})
    texts = _texts(gone).join(whole, on="subject", how="anti")
    kind = pl.lit("sensitivity").alias("kind")
    asked = workspace.read(ws, tables.REQUESTS)
    about = pl.concat([asked.join(texts, ["subject", "digest"], "semi"), asked.join(whole, "subject", "semi")])
    unknown = database.orphans(ws.database, tables.REPLIES, tables.REQUESTS, "request")
    requests = pl.DataFrame({"request": [*about["request"], *unknown]}, schema={"request": pl.String}).unique()
    named = [(table, whole.select(kind, "subject")) for table in _BY_SUBJECT]
    named.append((tables.LABELS, texts.select(kind, "subject", "digest")))
    fallen = workspace.read(ws, tables.REVIEWS).filter(kind="sensitivity").join(texts, ["subject", "digest"], "semi")
    named.append((tables.REVIEWS, fallen.join(moved(ws, gone)[1], on="review", how="anti").select("review")))
    tasks = set(gone.tasks)
    for table in (tables.SENT, tables.KEYED, tables.TASK_PAGES, tables.REJECTED):
        keys = workspace.read(ws, table)["task"].unique()
        theirs = pl.Series([base_id(key) in tasks for key in keys], dtype=pl.Boolean)
        named.append((table, keys.filter(theirs).to_frame("task")))
    return [*named, (tables.REPLIES, requests), (tables.REQUESTS, requests)]


def had_keys(ws: Workspace, gone: Gone) -> pl.DataFrame:
    """A row of KEYED in place of the keys of sheets that go: else nobody knows with the last that sheets have keys, and
    a task that stays would be answered by whoever makes its id."""
    keys, tasks = workspace.read(ws, tables.KEYED)["task"], set(gone.tasks)
    go = any(key.endswith(SHEET) and base_id(key) in tasks for key in keys)
    return tables.KEYED.frame([(_ERASED, [], [], "", "")] if go else [])


def counted(ws: Workspace, gone: Gone) -> dict[str, int]:
    """Table -> how many of its rows would go."""
    counts = {
        table.name: sum(part.filter(theirs).height for part in workspace.parts(ws, table))
        for table, theirs in _theirs(ws, gone)
    }
    return counts | database.erase(ws.database, in_database(ws, gone), [], dry=True)


def _theirs(ws: Workspace, gone: Gone) -> list[tuple[tables.Table, pl.Expr]]:
    """Bulk table -> which of its rows go; conversations are the last, as what they said finds notes on it."""
    pairs = [one + digest for one, digest in gone.revisions]
    found: list[tuple[tables.Table, pl.Expr]] = []
    for table in (*_BULK, tables.CONVERSATIONS):
        name = "subject" if "subject" in table.columns else "conversation"
        if table is tables.DROPS:
            texts = pl.concat_str("place", "detail", separator="\n", ignore_nulls=True)
            theirs = texts.str.contains_any(pl.Series(gone.names, dtype=pl.String).implode())
            said = _plain(pl.col("detail")).str.contains_any(_phrases(ws, gone).implode())
            theirs |= (pl.col("stage") == "review") & said
        else:
            theirs = pl.col(name).is_in(list(gone.whole))
            theirs |= pl.concat_str(name, "digest").is_in(pairs) if "digest" in table.columns else pl.lit(False)
        found.append((table, theirs.fill_null(False)))
    return found


def _plain(text: pl.Expr) -> pl.Expr:
    return text.str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars()


def _phrases(ws: Workspace, gone: Gone) -> pl.Series:
    """Some words in a row of all that was said there."""
    theirs = _texts(gone)
    said = texts_on_disk.turns(ws, theirs["subject"].unique()).join(theirs, on=["subject", "digest"], how="semi")
    texts = said.explode("turns").select(_plain(pl.col("turns").struct.field("text"))).drop_nulls().to_series()
    words = [text.split(" ") for text in texts]
    phrases = {" ".join(of[n : n + _WORDS]) for of in words for n in range(len(of) - _WORDS + 1)}
    return pl.Series(sorted(phrases), dtype=pl.String)
