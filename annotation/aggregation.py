"""Two people who agree make a label; disputes go to an adjudicator; nobody's word outlives the text it was about.

reads  reviews (append-only), texts (kind, subject, digest, turns, current), the taxonomy, labels so far
gives  standing reviews -> votes (one verdict per unit and reviewer) -> labels; and item labels as warnings

`*` is a reviewer's word on every trait that they did not answer one by one: absent. It speaks for conversations,
which they read whole; of an item they read a plot, and nobody can tell from a plot that a film holds no needle.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import evidence
from saferec_builder.storage.tables import HANDED_BACK, LABELS, REVIEWS, SPAN, WARNINGS, digest, last

UNIT = ("kind", "subject", "trait")
Span = dict[str, Any]
WHO = ("reviewer", "role")
STALE = "stale"
OTHER_TAXONOMY = "`*` of another taxonomy"
NO_TRAIT = "trait not in the taxonomy"
NOT_ASSIGNED = "not assigned"
SET_ASIDE = "set aside"

_AWAY = pl.col("verdict").is_null()
_BACK = _AWAY & (pl.col("trait") == "*") & pl.col("note").eq_missing(HANDED_BACK)

# ---- reviews: what is new, what still stands


def record(answers: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str | None = None) -> pl.DataFrame:
    """REVIEWS rows for the answers that say something new; an answer equal to its reviewer's last word is no row.

    `taxonomy` is the digest of the one in force, where answers come from files or a server: under it the same `*` is
    new, since it speaks for other traits, and what is `_older`, in a place that is pulled again, is no row.
    The id covers how many rows the reviewer had on the unit, so a mind changed twice is three rows, while the same
    file pulled twice is the same rows.
    """
    key = [*UNIT, *WHO]
    said = ["digest", "verdict", "form", "spans", "note", "seconds", "taxonomy"]
    time = pl.col("time").max()
    known = (
        reviews.with_columns(told=pl.coalesce(time.over(key), time.over("kind", "subject", *WHO)))
        .group_by(key)
        .agg(
            pl.len().alias("times"),
            pl.col("told").first(),
            pl.col("digest").unique().alias("texts"),
            *(pl.col(c).last().alias(f"last_{c}") for c in [*said, "tool"]),
        )
    )
    other = {c: pl.col(c).ne_missing(pl.col(f"last_{c}")) for c in said}
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
        same = had.filter(pl.all_horizontal(pl.col(c).eq_missing(pl.col(f"{c}_had")) for c in said))
        new = new.join(same, on=key, how="anti", maintain_order="left")
    names = ["tool", "reviewer", *UNIT, "digest", "verdict", "form", "spans", "role", "times"]
    ids = [digest(*row) for row in new.select(names).iter_rows()]
    return new.with_columns(pl.Series("review", ids, dtype=pl.String)).select(REVIEWS.columns.keys())


def _older(in_force: pl.Expr) -> pl.Expr:
    """Whether an answer was given before its reviewer's last word on the unit (`last_*`): of an earlier taxonomy than
    that, of a text that they had left by then, or known by its time: `told` is that of the latest answer so far."""
    now, then = (pl.col(c).eq_missing(in_force) for c in ("taxonomy", "last_taxonomy"))
    left = (pl.col("digest") != pl.col("last_digest")) & pl.col("digest").is_in(pl.col("texts"))
    had = left | (pl.col("time") <= pl.col("told"))
    again = (pl.col("trait") == "*") & now & ~then  # the taxonomy of before is in force again, and so is this word
    return ((~now & then) | (had & ~again)).fill_null(False)


def set_aside(reviews: pl.DataFrame, reviewer: str, reason: str) -> pl.DataFrame:
    """REVIEWS rows that take back everything this person said; nothing of it is deleted."""
    mine = last(reviews.filter(reviewer=reviewer), *UNIT, *WHO).filter(pl.col("verdict").is_not_null())
    return record(mine.with_columns(verdict=pl.lit(None, pl.String), note=pl.lit(reason)), reviews)


def hand_back(tasks: pl.DataFrame, reviews: pl.DataFrame, taxonomy: str) -> pl.DataFrame:
    """REVIEWS rows that give back those tasks (of ASSIGNMENTS) that their reader has not finished.

    Without a time: what they answered before, and is pulled only later, is no older than these.
    """
    ends = last(reviews, *UNIT, *WHO).filter(trait="*")
    left = tasks.join(ends, on=["kind", "subject", *WHO], how="anti")
    said = {
        "trait": "*",
        "note": HANDED_BACK,
        "tool": "files",
        "guideline": "",
        "taxonomy": taxonomy,
        "simulated": False,
    }
    rows = [row | said for row in left.select("kind", "subject", "digest", *WHO).to_dicts()]
    return record(pl.DataFrame(rows, schema=REVIEWS.schema), reviews)


def bring_back(reviews: pl.DataFrame, reviewer: str) -> pl.DataFrame:
    """REVIEWS rows that say again what was set aside."""
    mine = reviews.filter(reviewer=reviewer)
    taken = last(mine, *UNIT, *WHO).filter(_AWAY & ~_BACK).select(*UNIT, *WHO)
    before = last(mine.filter(pl.col("verdict").is_not_null()), *UNIT, *WHO)
    return record(before.join(taken, on=[*UNIT, *WHO], how="semi", maintain_order="left"), reviews)


def aside(reviews: pl.DataFrame) -> set[str]:
    """The people whose work is set aside now."""
    return set(last(reviews, *UNIT, *WHO).filter(_AWAY & ~_BACK)["reviewer"])


def standing(reviews: pl.DataFrame, texts: pl.DataFrame, taxonomy: Taxonomy) -> tuple[pl.DataFrame, dict[str, int]]:
    """(each reviewer's last word per unit, with its spans where they are in the current text; left out by reason).

    Column `out` is null or the reason why a row does not count: it was set aside, the task was handed back, its
    evidence is gone (`stale`) or never was in the text (evidence.UNFOUNDED), its trait is not in the taxonomy, it is a
    `*` given under another taxonomy, which cannot speak for traits it did not list, or the task was given to somebody
    else (`not assigned`).
    """
    now = texts.filter("current").select("kind", "subject", now="digest")
    frame = last(reviews, *UNIT, *WHO).join(now, on=["kind", "subject"], how="left", maintain_order="left")
    frame = frame.with_row_index("row")
    moved = pl.col("digest").ne_missing(pl.col("now"))
    looked = frame.with_columns(changed=moved).filter(pl.col("changed") | claims())
    schema: dict[str, Any] = {"row": pl.UInt32, "again": pl.List(SPAN), "fault": pl.String}
    found = pl.DataFrame(list(_found(looked, texts)), schema=schema, orient="row")
    known = pl.col("trait").is_in([*taxonomy.slugs, "*"])
    old_star = (pl.col("trait") == "*") & (pl.col("taxonomy") != taxonomy.digest)
    frame = (
        frame.join(found, on="row", how="left", maintain_order="left")
        .with_columns(changed=moved)
        .with_columns(
            out=pl.when(_BACK)
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


def claims() -> pl.Expr:
    """Whether a review says that some words are evidence."""
    return pl.col("verdict").is_not_null() & (pl.col("spans").list.len() > 0).fill_null(False)


def _found(reviews: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[int, list[Span] | None, str | None]]:
    """(row, its spans in the current text, why the review does not stand in it)."""
    judged = texts.select("kind", "subject", "digest", was=pl.col("turns").list.len())
    now = texts.filter("current").select("kind", "subject", "turns")
    rows = reviews.join(judged, on=["kind", "subject", "digest"], how="left").join(
        now, on=["kind", "subject"], how="left"
    )
    for row in rows.iter_rows(named=True):
        spans, turns, kind = row["spans"] or [], row["turns"], row["kind"]
        if row["changed"]:
            again = _again(spans, turns, row["was"], kind)
            yield row["row"], again, STALE if again is None else None
        else:
            yield row["row"], None, evidence.UNFOUNDED if evidence.first_fault(spans, turns, kind) else None


def _again(spans: list[Span], turns: list[dict[str, Any]] | None, was: int | None, kind: str) -> list[Span] | None:
    """Every span at its place in `turns`, or None. Words without evidence (absent) stand until a turn is added."""
    if turns is None:
        return None
    if not spans:
        return [] if kind == "item_flag" or (was is not None and len(turns) <= was) else None
    placed = [place for span in spans if (place := _place(span, turns, kind))]
    return placed if len(placed) == len(spans) else None


def _place(span: Span, turns: list[dict[str, Any]], kind: str) -> Span | None:
    """The span where its quote is evidence now: same place, same turn, else the nearest turn."""
    if evidence.fault(span, turns, kind) is None:
        return span
    quote, turn = span["quote"] or "", span["turn"] or 0
    for n in sorted(range(len(turns)), key=lambda n: abs(n - turn)):
        start = turns[n]["text"].find(quote)
        again = {"turn": n, "start": start, "end": start + len(quote), "quote": quote}
        if evidence.fault(again, turns, kind) is None:
            return again
    return None


# ---- votes and labels


def votes(standing: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """One row per unit and person: answers that stand, and `*` spelled out.

    A trait that a reviewer did answer is never filled from their `*`, also where that answer no longer stands.
    """
    answers = standing.filter(pl.col("trait") != "*")
    stars = standing.filter(
        (pl.col("trait") == "*")
        & pl.col("out").is_null()
        & (pl.col("kind") == "sensitivity")
        & (pl.col("role") == "reviewer")
    )
    rest = (
        stars.drop("trait")
        .join(pl.DataFrame({"trait": taxonomy.slugs}), how="cross")
        .join(answers, on=[*UNIT, *WHO], how="anti", maintain_order="left")
        .with_columns(
            verdict=pl.lit("absent"),
            form=pl.lit(None, pl.String),
            spans=pl.lit([], pl.List(SPAN)),
            note=pl.lit(None, pl.String),
        )
    )
    return pl.concat([answers.filter(pl.col("out").is_null()), rest.select(answers.columns)]).drop("out")


def by_reviewers(votes: pl.DataFrame) -> pl.DataFrame:
    """The votes that say something about agreement: an adjudicator has seen what the others said."""
    return votes.filter(pl.col("role") == "reviewer")


def adjudicate(votes: pl.DataFrame, labels: pl.DataFrame, auto: pl.DataFrame | None = None) -> pl.DataFrame:
    """LABELS rows of every unit with a vote, and of every labelled unit that has lost its votes (unresolved again).

    `auto` are rows for units without a vote: sure proposals under a certificate.

    method is `adjudicated` where an adjudicator spoke, `agreed` where at least two reviewers gave one verdict and
    nobody another, else `unresolved` with a null verdict. Ids are left empty: `changed` gives them.
    """
    by_reviewer = pl.col("verdict").filter(pl.col("role") == "reviewer")
    ruling = pl.col("verdict").filter(pl.col("role") == "adjudicator").last()
    judged = (
        votes.group_by(*UNIT, maintain_order=True)
        .agg(
            ruling.alias("ruling"),
            by_reviewer.first().alias("common"),
            ((by_reviewer.n_unique() == 1) & (by_reviewer.len() >= 2)).alias("agree"),
            pl.col("review").alias("reviews"),
            pl.col("simulated").any(),
            pl.col("digest").last(),
        )
        .with_columns(
            method=pl.when(pl.col("ruling").is_not_null())
            .then(pl.lit("adjudicated"))
            .when("agree")
            .then(pl.lit("agreed"))
            .otherwise(pl.lit("unresolved")),
            verdict=pl.coalesce("ruling", pl.when("agree").then("common")),
        )
    )
    judged = judged.join(_evidence(votes, judged), on=UNIT, how="left").with_columns(pl.col("spans").fill_null([]))
    columns = [c for c in LABELS.columns if c != "label"]
    judged = judged.select(columns)
    if auto is not None:
        judged = pl.concat([judged, auto.select(columns).join(judged, on=UNIT, how="anti")])
    lost = (
        last(labels, *UNIT)
        .join(judged, on=UNIT, how="anti")
        .with_columns(
            verdict=pl.lit(None, pl.String),
            form=pl.lit(None, pl.String),
            spans=pl.lit([], pl.List(SPAN)),
            method=pl.lit("unresolved"),
            reviews=pl.lit([], pl.List(pl.String)),
        )
    )
    return pl.concat([judged, lost.select(columns)]).sort(UNIT)


def _evidence(votes: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
    """Form and spans from the votes that agree with the label; a tie of forms, or no word on it, is implicit."""
    alike = votes.join(judged.select(*UNIT, label="verdict"), on=UNIT).filter(
        (pl.col("verdict") == pl.col("label")) & (pl.col("verdict") != "absent")
    )
    explicit, implicit = ((pl.col("form") == form).sum() for form in ("explicit", "implicit"))
    forms = (
        alike.filter(pl.col("verdict") == "present")
        .group_by(UNIT)
        .agg(form=pl.when(explicit > implicit).then(pl.lit("explicit")).otherwise(pl.lit("implicit")))
    )
    spans = (
        alike.select(*UNIT, pl.col("spans"))
        .explode("spans", empty_as_null=False, keep_nulls=False)
        .unique()
        .sort(*UNIT, *(pl.col("spans").struct.field(f) for f in ("turn", "start", "end")))
        .group_by(UNIT, maintain_order=True)
        .agg("spans")
    )
    units = alike.select(UNIT).unique()
    return units.join(forms, on=UNIT, how="left").join(spans, on=UNIT, how="left")


def changed(judged: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Those of `judged` that differ from the unit's last label, with ids.

    An id covers the unit, verdict, method, reviews and the label before it, so a label that comes back is a new row.
    """
    before = last(labels, *UNIT)
    facts = ["digest", "verdict", "form", "spans", "method", "reviews"]
    had = before.select(*UNIT, had="label", **{f"had_{c}": c for c in facts})
    new = judged.join(had, on=UNIT, how="left", maintain_order="left").filter(
        pl.col("had").is_null() | pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"had_{c}")) for c in facts)
    )
    ids = [
        digest(*row) for row in new.select(*UNIT, "verdict", "method", "reviews", "digest", "spans", "had").iter_rows()
    ]
    return new.with_columns(pl.Series("label", ids, dtype=pl.String)).select(LABELS.columns.keys())


def disputed(judged: pl.DataFrame) -> pl.DataFrame:
    """Units on which two people spoke and did not say the same, with nobody's ruling yet."""
    return judged.filter((pl.col("method") == "unresolved") & (pl.col("reviews").list.len() >= 2)).select(UNIT)


def opinions(votes: pl.DataFrame, disputed: pl.DataFrame) -> pl.DataFrame:
    """The disputed units with `said`: what each reviewer said, without names, sorted so that no order tells who.

    Nothing is said of a label that nobody gave (`auto`).
    """
    rows = by_reviewers(votes).join(disputed, on=UNIT, how="semi")
    said = rows.select(*UNIT).with_columns(
        pl.Series("said", [_opinion(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    )
    told = disputed.join(said.group_by(UNIT).agg(pl.col("said").sort()), on=UNIT, how="left")
    return told.with_columns(pl.col("said").fill_null([])).sort(UNIT)


def _opinion(vote: dict[str, Any]) -> str:
    parts = [", ".join(part for part in (vote["verdict"], vote["form"]) if part)]
    parts += [f"“{span['quote']}”" for span in vote["spans"] or []]
    return ": ".join(parts[:1] + [" | ".join(parts[1:])] * bool(parts[1:])) + (
        f" ({vote['note']})" if vote["note"] else ""
    )


def warnings(labels: pl.DataFrame) -> pl.DataFrame:
    """Item labels as WARNINGS of kind `review`: yes or no; a later row without an answer takes the earlier back."""
    answer = pl.col("verdict").replace_strict({"present": "yes", "absent": "no"}, default=None, return_dtype=pl.String)
    flags = labels.filter(pl.col("kind") == "item_flag").with_columns(answer=answer)
    once = pl.col("answer").is_not_null().cum_sum().over("subject", "trait") > 0
    return (
        flags.filter(once)
        .select(
            pl.col("label")
            .map_elements(lambda label: digest("review", label), return_dtype=pl.String)
            .alias("warning"),
            ("item:" + pl.col("subject")).alias("ref"),
            pl.lit(None, pl.String).alias("domain"),
            pl.lit("review").alias("kind"),
            pl.col("trait").alias("topic"),
            pl.lit(None, pl.Int32).alias("yes"),
            pl.lit(None, pl.Int32).alias("no"),
            "answer",
            pl.lit(None, pl.Int32).alias("severity"),
            pl.lit("review").alias("source"),
            pl.lit(None, pl.String).alias("url"),
            pl.lit(None, pl.String).alias("retrieved"),
        )
        .match_to_schema(WARNINGS.schema)
    )
