"""Decides which answers become new rows of the append-only table of reviews, and which rows still count.

reads  answers that came back, reviews (append-only), texts (kind, subject, digest, turns, current), the taxonomy
gives  REVIEWS rows to append; each reviewer's last answer per unit, with the reason if it does not count

`*` is a reviewer's answer to all traits that they did not answer one by one: absent. It counts for conversations,
which they read as a whole; of an item they read only a plot, which cannot show that a film has no needles.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from difflib import SequenceMatcher

import polars as pl

from annotation.tools.quotes import nearest
from annotation.tools.tasks_and_answers import Answered
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining.conversations import PLACEHOLDER
from saferec_builder.storage import evidence_check as evidence, tables
from saferec_builder.storage.schema import Span
from saferec_builder.storage.tables import ANSWER, HANDED_BACK, HANDED_BACK_WITH, REVIEWS, SPAN, digest, last

STALE = "stale"
OTHER_TAXONOMY = "`*` of another taxonomy"
NO_TRAIT = "trait not in the taxonomy"
NOT_ASSIGNED = "not assigned"
SET_ASIDE = "set aside"
LEFT_TEXT = "You have answered this text since it changed, and that answer stands: change it there."
HAND_BACK = "hand_back"  # the `tool` of rows by `review hand-back`
# what a `*` says of a trait that it covers
ABSENT = {"verdict": pl.lit("absent"), "form": pl.lit(None, pl.String), "note": pl.lit(None, pl.String)}
ABSENT |= {"spans": pl.lit([], pl.List(SPAN))}

_WORD = re.compile(rf"{PLACEHOLDER}|\w+")
_LONG = 1_000  # words of a text that is compared without those that make up over 1 % of it
_NAME = 3  # words that one placeholder may replace
_TAKEN_BACK = pl.col("verdict").is_null()
# the `*` of a task that was handed back, with its note for the team, and the traits answered before
BACK = _TAKEN_BACK & (pl.col("note").eq_missing(HANDED_BACK) | pl.col("note").str.starts_with(HANDED_BACK_WITH))

# ---- what is new


def record(answers: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str | None = None) -> pl.DataFrame:
    """REVIEWS rows for the new answers; an answer equal to its reviewer's last one adds no row.

    `taxonomy` is the digest of the current one, if the answers come from files or a server: a `*` under it is then new
    if the last equal one was under another, since it covers other traits; an `_older` answer adds no row.
    The id includes how many rows the reviewer had on the unit, so changing one's mind twice gives three rows, while
    pulling the same file twice gives the same rows.
    """
    facts = ["digest", "verdict", "form", "spans", "note", "seconds", "taxonomy"]
    time = pl.col("time").max()
    last_facts = {f"last_{c}": pl.col(c).last() for c in [*facts, "tool"]}
    history = (
        reviews.with_columns(latest=pl.coalesce(time.over(ANSWER), time.over(tables.ASSIGNMENTS.key)))
        .group_by(ANSWER)
        .agg(pl.col("latest").first(), times=pl.len(), texts=pl.col("digest").unique(), **last_facts)
    )
    changed = {c: pl.col(c).ne_missing(pl.col(f"last_{c}")) for c in facts}
    in_force = pl.lit(taxonomy, pl.String)
    changed["taxonomy"] &= (pl.col("trait") == "*") & (pl.col("taxonomy") == in_force)
    new = (
        last(answers, *ANSWER)
        .join(history, on=ANSWER, how="left", maintain_order="left")
        .filter(pl.col("times").is_null() | pl.any_horizontal(changed.values()))
        .filter(in_force.is_null() | ~_older(in_force))
        .with_columns(pl.col("times").fill_null(0))
    )
    if taxonomy is not None:  # a file has no times: an exact repeat, after an answer by another tool, is older
        both = new.filter(pl.col("tool") != pl.col("last_tool")).join(reviews, on=[*ANSWER, "tool"], suffix="_had")
        parts = [pl.element().struct.field(part) for part in ("turn", "quote")]  # older versions place some elsewhere
        alike = both.with_columns(pl.col(c).list.eval(pl.struct(parts)) for c in ("spans", "spans_had"))
        repeated = pl.any_horizontal(pl.col("time", "time_had").is_null(), pl.col("time") == pl.col("time_had"))
        same = alike.filter(repeated, *(pl.col(c).eq_missing(pl.col(f"{c}_had")) for c in facts))
        new = new.join(same, on=ANSWER, how="anti", maintain_order="left")
    names = ["tool", "reviewer", "kind", "subject", "trait", "digest", "verdict", "form", "spans", "role", "times"]
    ids = [digest(*row) for row in new.select(names).iter_rows()]
    return new.with_columns(pl.Series("review", ids, dtype=pl.String)).select(REVIEWS.columns.keys())


def _older(in_force: pl.Expr) -> pl.Expr:
    """Whether an answer is older than its reviewer's last one on the unit (`last_*`): by its taxonomy, by a text that
    the reviewer had left by then, or by its time (`latest` is the time of the latest answer so far)."""
    current, last_current = (pl.col(c).eq_missing(in_force) for c in ("taxonomy", "last_taxonomy"))
    left_text = (pl.col("digest") != pl.col("last_digest")) & pl.col("digest").is_in(pl.col("texts"))
    earlier = left_text | (pl.col("time") <= pl.col("latest"))
    revived = (pl.col("trait") == "*") & current & ~last_current  # its taxonomy is in force again
    return ((~current & last_current) | (earlier & ~revived)).fill_null(False)


def set_aside(reviews: pl.DataFrame, reviewer: str, reason: str) -> pl.DataFrame:
    """REVIEWS rows that take back all answers of this person; no row is deleted."""
    answers = last_words(reviews.filter(reviewer=reviewer)).filter(pl.col("verdict").is_not_null())
    note = f"set aside: {reason}" if reason.startswith(HANDED_BACK) else reason  # not a hand-back by the reviewer
    return record(answers.with_columns(verdict=pl.lit(None, pl.String), note=pl.lit(note)), reviews)


def hand_back(units: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str) -> pl.DataFrame:
    """REVIEWS rows that hand back the tasks of these units (review_state.open_units).

    They have no time, so that earlier answers that are pulled later do not count as older than these.
    """
    tasks = units.select(*tables.ASSIGNMENTS.key, "digest").unique(maintain_order=True)
    fixed = {"trait": "*", "note": HANDED_BACK, "guideline": "", "taxonomy": taxonomy, "simulated": False}
    rows = [row | fixed | {"tool": HAND_BACK} for row in tasks.to_dicts()]
    return record(REVIEWS.frame(rows), reviews)


def bring_back(reviews: pl.DataFrame, reviewer: str) -> pl.DataFrame:
    """REVIEWS rows that restore what was set aside: the last answers, and then the hand-backs that followed them; a
    `*` before a hand-back may still count."""
    rows = reviews.filter(reviewer=reviewer)
    affected = last(rows, *ANSWER).filter(_TAKEN_BACK & ~BACK).select(*ANSWER)
    rows = rows.join(affected, on=ANSWER, how="semi", maintain_order="left")
    restored = record(last(rows.filter(pl.col("verdict").is_not_null()), *ANSWER), reviews)
    hand_backs = last(rows.filter(pl.col("verdict").is_not_null() | BACK), *ANSWER).filter(BACK)
    return pl.concat([restored, record(hand_backs, pl.concat([reviews, restored]))])


def texts_answered(reviews: pl.DataFrame) -> dict[tuple[str, ...], dict[str, datetime | None]]:
    """(kind, subject, trait, reviewer, role) -> the digests of the texts that they answered or handed back, the last
    one last, with the times."""
    texts: dict[tuple[str, ...], dict[str, datetime | None]] = {}
    for *who, text, time in reviews.select(*ANSWER, "digest", "time").iter_rows():
        times = texts.setdefault(tuple(who), {})
        times.pop(text, None)
        times[text] = time
    return texts


def answered(reviews: pl.DataFrame) -> Answered:
    """(kind, subject, reviewer, role) -> the traits answered one by one, with the taxonomies of those answers."""
    traits: Answered = {}
    rows = reviews.filter(pl.col("trait") != "*").select("kind", "subject", "reviewer", "role", "trait", "taxonomy")
    for kind, subject, reviewer, role, trait, taxonomy in rows.iter_rows():
        traits.setdefault((kind, subject, reviewer, role), {}).setdefault(trait, set()).add(taxonomy)
    return traits


def last_words(reviews: pl.DataFrame) -> pl.DataFrame:
    """Each person's last answer per unit; for a task that was handed back, also the `*` before it if that still counts.

    Handing back a task that is open again does not affect what its reader answered under another taxonomy. And
    `review hand-back` takes back no answer, while readers who hand back a task themselves take back their `*` under
    the same taxonomy: it stays taken back, however the task is handed back later.
    """
    latest, rows = last(reviews, *ANSWER), reviews.with_row_index("at")
    handed_back = latest.filter(BACK, trait="*").select(*ANSWER)
    stars = last(rows.filter(~BACK, trait="*"), *ANSWER).join(handed_back, on=ANSWER, how="semi", maintain_order="left")
    own_hand_backs = rows.filter(BACK & (pl.col("tool") != HAND_BACK)).select(*ANSWER, "taxonomy", later="at")
    taken_back = stars.join(own_hand_backs, on=[*ANSWER, "taxonomy"]).filter(pl.col("later") > pl.col("at"))
    counting = stars.filter(pl.col("verdict").is_not_null())
    counting = counting.join(taken_back, on=ANSWER, how="anti", maintain_order="left")
    return pl.concat([latest, counting.select(reviews.columns)])


def aside(reviews: pl.DataFrame) -> set[str]:
    """The people whose work is currently set aside."""
    return set(last(reviews, *ANSWER).filter(_TAKEN_BACK & ~BACK)["reviewer"])


def compared(reviews: pl.DataFrame, current: pl.DataFrame) -> pl.Series:
    """The conversations whose turns `standing` reads: those with a changed text and those with evidence. For all others
    the digest of the text (`current`: kind, subject, digest) is enough."""
    changed = reviews.join(current, on=["kind", "subject", "digest"], how="anti")
    return pl.concat([changed, reviews.filter(claims(), kind="sensitivity")])["subject"].unique()


def standing(reviews: pl.DataFrame, texts: pl.DataFrame, taxonomy: Taxonomy) -> tuple[pl.DataFrame, dict[str, int]]:
    """(`last_words` with their spans in the current text, number of rows that do not count by reason).

    Column `out` is null or the reason why a row does not count: it was set aside, the task was handed back, its
    trait is not in the taxonomy, its evidence is no longer in the text (`stale`) or never was (evidence.UNFOUNDED), it
    is a `*` under another taxonomy, which cannot cover traits that this did not list (`spelled` returns those that it
    covers), or the task was assigned to somebody else (`not assigned`).
    """
    current = texts.filter("current").select("kind", "subject", now="digest")
    frame = last_words(reviews).join(current, on=["kind", "subject"], how="left", maintain_order="left")
    frame = frame.with_row_index("row")
    moved = pl.col("digest").ne_missing(pl.col("now"))
    checked = frame.with_columns(changed=moved).filter(pl.col("changed") | claims())
    schema = pl.Schema({"row": pl.UInt32(), "again": pl.List(SPAN), "fault": pl.String()})
    placed = pl.DataFrame(list(_check_evidence(checked, texts)), schema=schema, orient="row")
    in_taxonomy = pl.col("trait").is_in([*taxonomy.slugs, "*"])
    frame = (
        frame.join(placed, on="row", how="left", maintain_order="left")
        .with_columns(changed=moved)
        .with_columns(
            out=pl.coalesce(
                pl.when(BACK).then(pl.lit(HANDED_BACK)),
                pl.when(_TAKEN_BACK).then(pl.lit(SET_ASIDE)),
                pl.when(~in_taxonomy).then(pl.lit(NO_TRAIT)),  # before `fault`: nobody is asked about it again
                "fault",
                pl.when(old_star(taxonomy)).then(pl.lit(OTHER_TAXONOMY)),
                pl.when(pl.col("role") == "other").then(pl.lit(NOT_ASSIGNED)),
            ),
            spans=pl.when("changed").then(pl.coalesce("again", "spans")).otherwise("spans"),
            digest=pl.coalesce("now", "digest"),
        )
    )
    counts = frame.filter(pl.col("out").is_not_null()).group_by("out").len().sort("out")
    return frame.select(*REVIEWS.columns, "out"), dict(counts.iter_rows())


def old_star(taxonomy: Taxonomy) -> pl.Expr:
    """Whether a review is a `*` under another taxonomy."""
    return ((pl.col("trait") == "*") & (pl.col("taxonomy") != taxonomy.digest)).fill_null(False)


def with_implied_absent(standing: pl.DataFrame, asked: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """`standing`, and `absent` for each trait that a `*` of another taxonomy showed in its current wording.

    So only a trait that is added or reworded is open again. The `*` itself stays out: its reader is asked again.
    `asked`: tables.ASKED.
    """
    current = pl.DataFrame([(t.slug, t.wording) for t in taxonomy.traits], schema=["trait", "wording"], orient="row")
    same_wording = asked.join(current, on=["trait", "wording"]).select("taxonomy", "trait").unique()
    stars = standing.filter(out=OTHER_TAXONOMY, role="reviewer", kind="sensitivity").drop("trait")
    implied = (
        stars.join(same_wording, on="taxonomy", maintain_order="left_right")
        .join(standing.filter(pl.col("trait") != "*"), on=ANSWER, how="anti", maintain_order="left")
        .with_columns(**ABSENT, seconds=pl.lit(None, standing.schema["seconds"]), out=pl.lit(None, pl.String))
    )
    return pl.concat([standing, implied.select(standing.columns)])


def claims() -> pl.Expr:
    """Whether a review claims evidence: it has spans and a verdict."""
    return pl.col("verdict").is_not_null() & (pl.col("spans").list.len() > 0).fill_null(False)


def _check_evidence(reviews: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[int, list[Span] | None, str | None]]:
    """(row, its spans in the current text, why the review does not count there)."""
    has_new: dict[tuple[str, str, str], bool] = {}  # a cache: many reviews share a text
    for part, turns_of in evidence.with_texts(reviews, texts):
        columns = part.select("row", "spans", "changed", "now", "kind", "subject", "digest")
        for row, spans, is_changed, now, kind, subject, shown in columns.iter_rows():
            text, turns = (kind, subject, shown), turns_of.get((kind, subject, now))
            if not is_changed:
                yield row, None, evidence.UNFOUNDED if evidence.first_fault(spans, turns, kind) else None
                continue
            if not spans and text not in has_new:
                has_new[text] = _has_new_words(turns_of.get(text), turns, kind)
            moved = _move_all(spans, turns, kind) if spans else None if has_new[text] else []
            yield row, moved, STALE if moved is None else None


def _move_all(spans: list[Span], turns: evidence.Turns | None, kind: str) -> list[Span] | None:
    """The spans at their places in `turns`; None if any is not there."""
    placed = [place for span in spans if turns and (place := _move(span, turns, kind))]
    return placed if len(placed) == len(spans) else None


def _has_new_words(was: evidence.Turns | None, now: evidence.Turns | None, kind: str) -> bool:
    """Whether `now` has words that a reader of `was` did not see, except words that a placeholder hides or hid: nobody
    has judged whether these show a trait."""
    if now is None or kind == "item_flag":  # for plots only present traits are known
        return now is None
    if was is None:
        return True
    texts = [[turn["text"] or "" for turn in turns if turn["role"] == evidence.SPEAKER[kind]] for turns in (was, now)]
    old, new = (_WORD.findall("\n".join(lines).lower()) for lines in texts)
    # without the heuristic a text of one word, ten thousand times, would take minutes; with it more is asked again
    changes = SequenceMatcher(None, old, new, autojunk=len(new) > _LONG).get_opcodes()
    return any(
        tag in ("insert", "replace") and not _hidden(new[c:d]) and not (_hidden(old[a:b]) and d - c <= _NAME * (b - a))
        for tag, a, b, c, d in changes
    )


def _hidden(words: list[str]) -> bool:
    return bool(words) and all(word[0] == "[" for word in words)


def _move(span: Span, turns: evidence.Turns, kind: str) -> Span | None:
    """The span at the place where its quote is evidence now: the same place, else the nearest place in the nearest
    turn; None if there is none."""
    if evidence.fault(span, turns, kind) is None:
        return span
    quote, turn = span["quote"] or "", span["turn"] or 0
    for n in sorted(range(len(turns)), key=lambda n: abs(n - turn)):
        if place := nearest(quote, turns[n]["text"], span["start"] or 0):
            moved: Span = {"turn": n, "start": place[0], "end": place[1], "quote": quote}
            if evidence.fault(moved, turns, kind) is None:
                return moved
    return None
