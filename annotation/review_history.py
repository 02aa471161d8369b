"""Reviews are only ever appended: which answers are new rows, and which rows still count.

reads  answers that came back, reviews (append-only), texts (kind, subject, digest, turns, current), the taxonomy
gives  REVIEWS rows to append; each reviewer's last word per unit, with the reason where it does not count

`*` is a reviewer's word on every trait that they did not answer one by one: absent. It speaks for conversations,
which they read whole; of an item they read a plot, and nobody can tell from a plot that a film holds no needle.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import polars as pl

from annotation.tools.quotes import nearest
from annotation.tools.tasks_and_answers import Answered, Turns
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining.conversations import PLACEHOLDER
from saferec_builder.storage import evidence_check as evidence
from saferec_builder.storage.schema import Span
from saferec_builder.storage.tables import HANDED_BACK, HANDED_BACK_WITH, REVIEWS, SPAN, UNIT, digest, last

WHO = ("reviewer", "role")
STALE = "stale"
OTHER_TAXONOMY = "`*` of another taxonomy"
NO_TRAIT = "trait not in the taxonomy"
NOT_ASSIGNED = "not assigned"
SET_ASIDE = "set aside"
HAND_BACK = "hand_back"  # in place of a tool: by `review hand-back`

_WORD = re.compile(rf"{PLACEHOLDER}|\w+")
_NAME = 3  # words that a placeholder may have stood for
_AWAY = pl.col("verdict").is_null()
# `*`, with what its reader wrote for the team, and beside it what they had answered one by one
BACK = _AWAY & (pl.col("note").eq_missing(HANDED_BACK) | pl.col("note").str.starts_with(HANDED_BACK_WITH))

# ---- what is new


def record(answers: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str | None = None) -> pl.DataFrame:
    """REVIEWS rows for the answers that say something new; an answer equal to its reviewer's last word is no row.

    `taxonomy` is the digest of the one in force, where answers come from files or a server: under it the same `*` is
    new, since it speaks for other traits, and what is `_older`, in a place that is pulled again, is no row.
    The id covers how many rows the reviewer had on the unit, so a mind changed twice is three rows, while the same
    file pulled twice is the same rows.
    """
    key = [*UNIT, *WHO]
    facts = ["digest", "verdict", "form", "spans", "note", "seconds", "taxonomy"]
    time = pl.col("time").max()
    known = (
        reviews.with_columns(latest=pl.coalesce(time.over(key), time.over("kind", "subject", *WHO)))
        .group_by(key)
        .agg(
            pl.len().alias("times"),
            pl.col("latest").first(),
            pl.col("digest").unique().alias("texts"),
            *(pl.col(c).last().alias(f"last_{c}") for c in [*facts, "tool"]),
        )
    )
    other = {c: pl.col(c).ne_missing(pl.col(f"last_{c}")) for c in facts}
    in_force = pl.lit(taxonomy, pl.String)
    other["taxonomy"] &= (pl.col("trait") == "*") & (pl.col("taxonomy") == in_force)
    new = (
        last(answers, *key)
        .join(known, on=key, how="left", maintain_order="left")
        .filter(pl.col("times").is_null() | pl.any_horizontal(other.values()))
        .filter(in_force.is_null() | ~_older(in_force))
        .with_columns(pl.col("times").fill_null(0))
    )
    if taxonomy is not None:  # a file has no times: what it says word for word once more, after another tool, is older
        had = new.filter(pl.col("tool") != pl.col("last_tool")).join(reviews, on=[*key, "tool"], suffix="_had")
        words = [pl.element().struct.field(part) for part in ("turn", "quote")]  # found elsewhere by a former version
        alike = had.with_columns(pl.col(c).list.eval(pl.struct(words)) for c in ("spans", "spans_had"))
        same = alike.filter(pl.all_horizontal(pl.col(c).eq_missing(pl.col(f"{c}_had")) for c in facts))
        new = new.join(same, on=key, how="anti", maintain_order="left")
    names = ["tool", "reviewer", *UNIT, "digest", "verdict", "form", "spans", "role", "times"]
    ids = [digest(*row) for row in new.select(names).iter_rows()]
    return new.with_columns(pl.Series("review", ids, dtype=pl.String)).select(REVIEWS.columns.keys())


def _older(in_force: pl.Expr) -> pl.Expr:
    """Whether an answer was given before its reviewer's last word on the unit (`last_*`): of an earlier taxonomy than
    that, of a text that they had left by then, or known by its time: `latest` is that of the latest answer so far."""
    now, then = (pl.col(c).eq_missing(in_force) for c in ("taxonomy", "last_taxonomy"))
    left = (pl.col("digest") != pl.col("last_digest")) & pl.col("digest").is_in(pl.col("texts"))
    had = left | (pl.col("time") <= pl.col("latest"))
    again = (pl.col("trait") == "*") & now & ~then  # the taxonomy of before is in force again, and so is this word
    return ((~now & then) | (had & ~again)).fill_null(False)


def set_aside(reviews: pl.DataFrame, reviewer: str, reason: str) -> pl.DataFrame:
    """REVIEWS rows that take back all answers of this person; nothing of it is deleted."""
    mine = last_words(reviews.filter(reviewer=reviewer)).filter(pl.col("verdict").is_not_null())
    note = f"set aside: {reason}" if reason.startswith(HANDED_BACK) else reason  # it is no hand-back of theirs
    return record(mine.with_columns(verdict=pl.lit(None, pl.String), note=pl.lit(note)), reviews)


def hand_back(units: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str) -> pl.DataFrame:
    """REVIEWS rows that give back the tasks of these units (review_state.open_units).

    Without a time: what they answered before, and is pulled only later, is no older than these.
    """
    tasks = units.select("kind", "subject", "digest", *WHO).unique(maintain_order=True)
    fixed = {"trait": "*", "note": HANDED_BACK, "guideline": "", "taxonomy": taxonomy, "simulated": False}
    rows = [row | fixed | {"tool": HAND_BACK} for row in tasks.to_dicts()]
    return record(REVIEWS.frame(rows), reviews)


def bring_back(reviews: pl.DataFrame, reviewer: str) -> pl.DataFrame:
    """REVIEWS rows that say again what was set aside; and that a task was handed back where it was by then, though a
    `*` of before still spoke."""
    mine, key = reviews.filter(reviewer=reviewer), [*UNIT, *WHO]
    taken = last(mine, *key).filter(_AWAY & ~BACK).select(*key)
    mine = mine.join(taken, on=key, how="semi", maintain_order="left")
    said = record(last(mine.filter(pl.col("verdict").is_not_null()), *key), reviews)
    back = last(mine.filter(pl.col("verdict").is_not_null() | BACK), *key).filter(BACK)
    return pl.concat([said, record(back, pl.concat([reviews, said]))])


def answered(reviews: pl.DataFrame) -> Answered:
    """Who on what -> the traits that were answered, with the taxonomies of those answers."""
    found: Answered = {}
    rows = reviews.filter(pl.col("trait") != "*").select("kind", "subject", "reviewer", "role", "trait", "taxonomy")
    for kind, subject, reviewer, role, trait, taxonomy in rows.iter_rows():
        found.setdefault((kind, subject, reviewer, role), {}).setdefault(trait, set()).add(taxonomy)
    return found


def last_words(reviews: pl.DataFrame) -> pl.DataFrame:
    """Each person's last word per unit; and, beside a task handed back, the `*` before it where that still speaks.

    A task that is open again is handed back as what it is now: what its reader said under another taxonomy stays. And
    `review hand-back` takes nothing away at all, while who hands back an answer themselves has changed their mind: it
    is gone for good, however the task is handed back later.
    """
    key = [*UNIT, *WHO]
    now, rows = last(reviews, *key), reviews.with_row_index("at")
    back = now.filter(BACK, trait="*").select(*key)
    before = last(rows.filter(~BACK, trait="*"), *key).join(back, on=key, how="semi", maintain_order="left")
    theirs = rows.filter(BACK & (pl.col("tool") != HAND_BACK)).select(*key, "taxonomy", later="at")
    taken_back = before.join(theirs, on=[*key, "taxonomy"]).filter(pl.col("later") > pl.col("at")).select(*key)
    stays = before.filter(pl.col("verdict").is_not_null()).join(taken_back, on=key, how="anti", maintain_order="left")
    return pl.concat([now, stays.select(reviews.columns)])


def aside(reviews: pl.DataFrame) -> set[str]:
    """The people whose work is set aside now."""
    return set(last(reviews, *UNIT, *WHO).filter(_AWAY & ~BACK)["reviewer"])


def standing(reviews: pl.DataFrame, texts: pl.DataFrame, taxonomy: Taxonomy) -> tuple[pl.DataFrame, dict[str, int]]:
    """(`last_words`, each with its spans where they are in the current text; left out by reason).

    Column `out` is null or the reason why a row does not count: it was set aside, the task was handed back, its
    evidence is gone (`stale`) or never was in the text (evidence.UNFOUNDED), its trait is not in the taxonomy, it is a
    `*` given under another taxonomy, which cannot speak for traits it did not list (`spelled`: what it speaks for), or
    the task was given to somebody else (`not assigned`).
    """
    now = texts.filter("current").select("kind", "subject", now="digest")
    frame = last_words(reviews).join(now, on=["kind", "subject"], how="left", maintain_order="left")
    frame = frame.with_row_index("row")
    moved = pl.col("digest").ne_missing(pl.col("now"))
    looked = frame.with_columns(changed=moved).filter(pl.col("changed") | claims())
    schema = pl.Schema({"row": pl.UInt32(), "again": pl.List(SPAN), "fault": pl.String()})
    found = pl.DataFrame(list(_found(looked, texts)), schema=schema, orient="row")
    known = pl.col("trait").is_in([*taxonomy.slugs, "*"])
    old_star = (pl.col("trait") == "*") & (pl.col("taxonomy") != taxonomy.digest)
    frame = (
        frame.join(found, on="row", how="left", maintain_order="left")
        .with_columns(changed=moved)
        .with_columns(
            out=pl.when(BACK)
            .then(pl.lit(HANDED_BACK))
            .when(_AWAY)
            .then(pl.lit(SET_ASIDE))
            .when(pl.col("fault").is_not_null())
            .then(pl.col("fault"))
            .when(~known)
            .then(pl.lit(NO_TRAIT))
            .when(old_star)
            .then(pl.lit(OTHER_TAXONOMY))
            .when(pl.col("role") == "other")
            .then(pl.lit(NOT_ASSIGNED)),
            spans=pl.when("changed").then(pl.coalesce("again", "spans")).otherwise("spans"),
            digest=pl.coalesce("now", "digest"),
        )
    )
    counts = frame.filter(pl.col("out").is_not_null()).group_by("out").len().sort("out")
    return frame.select(*REVIEWS.columns, "out"), dict(counts.iter_rows())


def spelled(standing: pl.DataFrame, asked: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """`standing`, and `absent` for each trait that a `*` of another taxonomy showed in the words of today.

    So a trait that is added or put in other words is open again, and no other. The `*` itself stays out: its reader is
    asked anew. `asked`: tables.ASKED.
    """
    now = pl.DataFrame([(t.slug, t.wording) for t in taxonomy.traits], schema=["trait", "wording"], orient="row")
    same = asked.join(now, on=["trait", "wording"]).select("taxonomy", "trait").unique()
    stars = standing.filter(out=OTHER_TAXONOMY, role="reviewer", kind="sensitivity").drop("trait")
    nothing = {"verdict": "absent", "form": None, "note": None, "seconds": None, "out": None}
    rest = (
        stars.join(same, on="taxonomy", maintain_order="left_right")
        .join(standing.filter(pl.col("trait") != "*"), on=[*UNIT, *WHO], how="anti", maintain_order="left")
        .with_columns(pl.lit(value).cast(standing.schema[name]).alias(name) for name, value in nothing.items())
        .with_columns(spans=pl.lit([], pl.List(SPAN)))
    )
    return pl.concat([standing, rest.select(standing.columns)])


def claims() -> pl.Expr:
    """Whether a review says that some words are evidence."""
    return pl.col("verdict").is_not_null() & (pl.col("spans").list.len() > 0).fill_null(False)


def _found(reviews: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[int, list[Span] | None, str | None]]:
    """(row, its spans in the current text, why the review does not stand in it)."""
    judged = texts.select("kind", "subject", "digest", was="turns")
    now = texts.filter("current").select("kind", "subject", "turns")
    rows = reviews.join(judged, on=["kind", "subject", "digest"], how="left").join(
        now, on=["kind", "subject"], how="left"
    )
    more: dict[tuple[str, str, str], bool] = {}  # many reviews are of one text
    for row in rows.iter_rows(named=True):
        spans, turns, kind = row["spans"] or [], row["turns"], row["kind"]
        text = kind, row["subject"], row["digest"]
        if row["changed"]:
            if not spans and text not in more:
                more[text] = _says_more(row["was"], turns, kind)
            again = _placed(spans, turns, kind) if spans else None if more[text] else []
            yield row["row"], again, STALE if again is None else None
        else:
            yield row["row"], None, evidence.UNFOUNDED if evidence.first_fault(spans, turns, kind) else None


def _placed(spans: list[Span], turns: Turns | None, kind: str) -> list[Span] | None:
    """Every span at its place in `turns`, or None."""
    placed = [place for span in spans if turns and (place := _place(span, turns, kind))]
    return placed if len(placed) == len(spans) else None


def _says_more(was: Turns | None, now: Turns | None, kind: str) -> bool:
    """Whether `now` has words that whoever read `was` did not see, but for what a placeholder hides or hid: a trait may
    be in these, that nobody found absent."""
    if now is None or kind == "item_flag":  # of plots only the present ones are known
        return now is None
    if was is None:
        return True
    theirs = [[turn["text"] or "" for turn in turns if turn["role"] == evidence.SPEAKER[kind]] for turns in (was, now)]
    old, new = (_WORD.findall("\n".join(texts).lower()) for texts in theirs)
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return any(
        tag in ("insert", "replace") and not _hidden(new[c:d]) and not (_hidden(old[a:b]) and d - c <= _NAME * (b - a))
        for tag, a, b, c, d in changes
    )


def _hidden(words: list[str]) -> bool:
    return bool(words) and all(word[0] == "[" for word in words)


def _place(span: Span, turns: Turns, kind: str) -> Span | None:
    """The span where its quote is evidence now: same place, same turn, else the nearest turn; in a turn the nearest
    place."""
    if evidence.fault(span, turns, kind) is None:
        return span
    quote, turn = span["quote"] or "", span["turn"] or 0
    for n in sorted(range(len(turns)), key=lambda n: abs(n - turn)):
        if at := nearest(quote, turns[n]["text"], span["start"] or 0):
            again: Span = {"turn": n, "start": at[0], "end": at[1], "quote": quote}
            if evidence.fault(again, turns, kind) is None:
                return again
    return None
