"""Combines reviewers' votes into labels: most of the readers make a label, a dispute goes to an adjudicator.

reads  each reviewer's last word per unit (review_history.standing), the taxonomy, labels so far
gives  votes (one verdict per unit and reviewer) -> labels; and item labels as warnings
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from annotation.review_history import WHO
from annotation.tools.tasks_and_answers import VERDICTS
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import LABELS, SPAN, UNIT, WARNINGS, digest, last


def votes(standing: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """One row per unit and person: answers that stand, and `*` spelled out.

    A trait that a reviewer did answer is never filled from their `*`, also where that answer no longer stands. Of an
    item `*` is a word on what somebody else marked in its plot, and on no other trait: a plot leaves out much.
    """
    answers = standing.filter(pl.col("trait") != "*")
    stars = _ends(standing).drop("trait")
    marked = answers.filter(pl.col("out").is_null(), pl.col("verdict").is_in(["present", "unsure"]), kind="item_flag")
    of_items = stars.filter(kind="item_flag").join(marked.select(UNIT).unique(), on=["kind", "subject"])
    rest = (
        stars.filter(kind="sensitivity")
        .join(pl.DataFrame({"trait": taxonomy.slugs}), how="cross")
        .pipe(lambda every: pl.concat([every, of_items.select(every.columns)]))
        .join(answers, on=[*UNIT, *WHO], how="anti", maintain_order="left")
        .with_columns(
            verdict=pl.lit("absent"),
            form=pl.lit(None, pl.String),
            spans=pl.lit([], pl.List(SPAN)),
            note=pl.lit(None, pl.String),
        )
    )
    return pl.concat([answers.filter(pl.col("out").is_null()), rest.select(answers.columns)]).drop("out")


def _ends(standing: pl.DataFrame) -> pl.DataFrame:
    """The `*` of reviewers that stand."""
    return standing.filter(pl.col("out").is_null(), trait="*", role="reviewer")


def plots(judged: pl.DataFrame, standing: pl.DataFrame, slugs: Sequence[str], readers: int = 2) -> pl.DataFrame:
    """kind, subject, trait, verdict of items: their labels, and `absent` of what nobody marked in a plot that more than
    half of its readers, and two, have read to its end. Such a row is a word on the plot, for bounds on what its readers
    miss, and no label."""
    columns, item = [*UNIT, "verdict"], ["kind", "subject"]
    ended = _ends(standing).filter(kind="item_flag").group_by(item).agg(pl.col("reviewer").n_unique())
    enough = ended.filter(pl.col("reviewer") >= majority(readers)).select(item)
    every = enough.join(pl.DataFrame({"trait": list(slugs)}), how="cross").with_columns(verdict=pl.lit("absent"))
    labels = judged.filter(kind="item_flag").select(columns)
    return pl.concat([labels, every.join(labels, on=UNIT, how="anti").select(columns)])


def by_reviewers(votes: pl.DataFrame) -> pl.DataFrame:
    """The votes that say something about agreement: an adjudicator has seen what the others said."""
    return votes.filter(pl.col("role") == "reviewer")


def majority(readers: int) -> int:
    """How many of the readers alike make a label."""
    return max(2, readers // 2 + 1)


def tallies(votes: pl.DataFrame, readers: int) -> pl.DataFrame:
    """UNIT with the reviewers' votes: how many for each of VERDICTS, `soft`, the share of them for `present`, `common`,
    the verdict of more than half of `readers` (of all who voted, where these are more) and of two people at least, and
    `open`: whether a vote that is still to come may make one.

    Units that only an adjudicator spoke on have no row.
    """
    counts = [(pl.col("verdict") == verdict).sum().cast(pl.Int32).alias(verdict) for verdict in VERDICTS]
    cast = pl.sum_horizontal(VERDICTS)
    most, of = pl.max_horizontal(VERDICTS), pl.max_horizontal(cast, pl.lit(readers))
    first = pl.coalesce(pl.when(pl.col(v) == pl.col("most")).then(pl.lit(v)) for v in VERDICTS)
    return (
        by_reviewers(votes)
        .group_by(*UNIT, maintain_order=True)
        .agg(counts)
        .with_columns(soft=pl.col("present") / cast, most=most, open=2 * (most + of - cast) > of)
        .with_columns(common=pl.when((2 * pl.col("most") > of) & (pl.col("most") >= 2)).then(first))
        .drop("most")
    )


def adjudicate(
    votes: pl.DataFrame, labels: pl.DataFrame, auto: pl.DataFrame | None = None, *, readers: int = 2
) -> pl.DataFrame:
    """LABELS rows of every unit with a vote, and of every labelled unit that has lost its votes (unresolved again).

    `auto` are rows for units without a vote: sure proposals under a certificate.

    method is `adjudicated` where an adjudicator spoke, `agreed` where most of the readers gave one verdict (`tallies`),
    else `unresolved` with a null verdict. Ids are left empty: `changed` gives them.
    """
    ruling = pl.col("verdict").filter(pl.col("role") == "adjudicator").last()
    judged = (
        votes.group_by(*UNIT, maintain_order=True)
        .agg(
            ruling.alias("ruling"),
            pl.col("review").alias("reviews"),
            pl.col("simulated").any(),
            pl.col("digest").last(),
        )
        .join(tallies(votes, readers).select(*UNIT, "common"), on=UNIT, how="left", maintain_order="left")
        .with_columns(
            method=pl.when(pl.col("ruling").is_not_null())
            .then(pl.lit("adjudicated"))
            .when(pl.col("common").is_not_null())
            .then(pl.lit("agreed"))
            .otherwise(pl.lit("unresolved")),
            verdict=pl.coalesce("ruling", "common"),
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


def disputed(votes: pl.DataFrame, readers: int = 2) -> pl.DataFrame:
    """Units on which people differ so that no further reader can make a label, with nobody's ruling yet."""
    apart = tallies(votes, readers).filter(pl.col("common").is_null() & ~pl.col("open")).select(UNIT)
    return apart.join(votes.filter(role="adjudicator"), on=UNIT, how="anti", maintain_order="left")


ALARM = 0.05  # share of a trait's labels


def undone(before: pl.DataFrame, judged: pl.DataFrame) -> list[str]:
    """A line for each trait of which more than ALARM of the labels that had a verdict have none in `judged`. `before`
    are all LABELS so far: somebody was set aside, a trait was put in other words, a text has changed."""
    had, now = (frame.filter(pl.col("verdict").is_not_null()) for frame in (last(before, *UNIT), judged))
    return [f"{trait}: {n:,} of {of:,} labels lose their verdict" for trait, n, of in lost(had, now, UNIT)]


def lost(had: pl.DataFrame, now: pl.DataFrame, unit: Sequence[str]) -> list[tuple[str, int, int]]:
    """(trait, how many, of how many) of each trait of which more than ALARM of the units `had` are not in `now`."""
    gone = had.join(now, on=unit, how="anti")["trait"].value_counts(name="n")
    counts = had.group_by("trait").len().join(gone, on="trait").filter(pl.col("n") > ALARM * pl.col("len"))
    return list(counts.sort("trait").select("trait", "n", "len").iter_rows())


def opinions(votes: pl.DataFrame, disputed: pl.DataFrame) -> pl.DataFrame:
    """The disputed units with `said`: what each reviewer said, without names, sorted so that no order tells who.

    It is empty for a label that nobody gave (`auto`).
    """
    rows = by_reviewers(votes).join(disputed, on=UNIT, how="semi")
    texts = rows.select(*UNIT).with_columns(
        pl.Series("said", [_opinion(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    )
    each = disputed.join(texts.group_by(UNIT).agg(pl.col("said").sort()), on=UNIT, how="left")
    return each.with_columns(pl.col("said").fill_null([])).sort(UNIT)


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
            "answer",
            topic="trait",
            kind=pl.lit("review"),
            source=pl.lit("review"),
        )
        .match_to_schema(WARNINGS.schema, missing_columns="insert")
    )
