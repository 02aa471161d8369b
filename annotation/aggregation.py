"""Combines reviewers' votes into labels: a majority of the readers makes a label, a dispute goes to an adjudicator.

reads  each reviewer's last review per unit (review_history.standing), the taxonomy, labels so far
gives  votes (one verdict per unit and reviewer), labels, and warnings from the labels of items
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from annotation.review_history import ABSENT
from annotation.tools.quotes import merged
from annotation.tools.tasks_and_answers import VERDICTS
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import ANSWER, LABELS, SPAN, SUBJECT, UNIT, WARNINGS, digest, last


def votes(standing: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """One row per unit and person: the reviews that count, with each `*` expanded to the traits that it covers.

    A trait that the reviewer has answered is never filled from their `*`, even if that answer no longer counts. In an
    item, `*` covers only the traits that somebody else marked in its plot: a plot leaves out a lot.
    """
    answers = standing.filter(pl.col("trait") != "*")
    stars = _read_to_end(standing).drop("trait")
    marked = answers.filter(pl.col("out").is_null(), pl.col("verdict").is_in(["present", "unsure"]), kind="item_flag")
    of_items = stars.filter(kind="item_flag").join(marked.select(UNIT).unique(), on=SUBJECT)
    filled = (
        stars.filter(kind="sensitivity")
        .join(pl.DataFrame({"trait": taxonomy.slugs}), how="cross")
        .pipe(lambda rows: pl.concat([rows, of_items.select(rows.columns)]))
        .join(answers, on=ANSWER, how="anti", maintain_order="left")
        .with_columns(**ABSENT)
    )
    return pl.concat([answers.filter(pl.col("out").is_null()), filled.select(answers.columns)]).drop("out")


def _read_to_end(standing: pl.DataFrame) -> pl.DataFrame:
    """The `*` reviews of reviewers that count."""
    return standing.filter(pl.col("out").is_null(), trait="*", role="reviewer")


def plots(judged: pl.DataFrame, standing: pl.DataFrame, slugs: Sequence[str], readers: int = 2) -> pl.DataFrame:
    """kind, subject, trait, verdict of items: their labels, and `absent` for each trait that nobody marked in a plot
    which more than half of its readers, and at least two, have read to its end. These rows are no labels; they serve
    the bounds on what readers of plots miss."""
    columns = [*UNIT, "verdict"]
    ended = _read_to_end(standing).filter(kind="item_flag").group_by(SUBJECT).agg(pl.col("reviewer").n_unique())
    enough = ended.filter(pl.col("reviewer") >= majority(readers)).select(SUBJECT)
    unmarked = enough.join(pl.DataFrame({"trait": list(slugs)}), how="cross").with_columns(verdict=pl.lit("absent"))
    labels = judged.filter(kind="item_flag").select(columns)
    return pl.concat([labels, unmarked.join(labels, on=UNIT, how="anti").select(columns)])


def by_reviewers(votes: pl.DataFrame) -> pl.DataFrame:
    """The votes that count for agreement: an adjudicator has seen what the others answered, so theirs do not."""
    return votes.filter(pl.col("role") == "reviewer")


def majority(readers: int) -> int:
    """How many readers with the same verdict make a label."""
    return max(2, readers // 2 + 1)


def tallies(votes: pl.DataFrame, readers: int) -> pl.DataFrame:
    """UNIT with the reviewers' votes: a count for each of VERDICTS; `soft`, the share of `present`; `common`, the
    verdict that more than half of `readers` (or of all voters, if there are more) and at least two people gave; and
    `open`: whether votes that are still to come may produce such a verdict.

    Units on which only an adjudicator voted have no row.
    """
    counts = [(pl.col("verdict") == verdict).sum().cast(pl.Int32).alias(verdict) for verdict in VERDICTS]
    cast = pl.sum_horizontal(VERDICTS)
    most, total = pl.max_horizontal(VERDICTS), pl.max_horizontal(cast, pl.lit(readers))
    first = pl.coalesce(pl.when(pl.col(v) == pl.col("most")).then(pl.lit(v)) for v in VERDICTS)
    return (
        by_reviewers(votes)
        .group_by(*UNIT, maintain_order=True)
        .agg(counts)
        .with_columns(soft=pl.col("present") / cast, most=most, open=2 * (most + total - cast) > total)
        .with_columns(common=pl.when((2 * pl.col("most") > total) & (pl.col("most") >= 2)).then(first))
        .drop("most")
    )


def adjudicate(
    votes: pl.DataFrame, labels: pl.DataFrame, auto: pl.DataFrame | None = None, *, readers: int = 2
) -> pl.DataFrame:
    """LABELS rows of every unit with a vote, and of every labelled unit that has lost its votes (unresolved again).

    `auto` are rows for units without a vote: sure proposals under a certificate.

    method is `adjudicated` if an adjudicator ruled, `agreed` if a majority of the readers gave one verdict (`tallies`),
    else `unresolved` with a null verdict. The ids are left out: `changed` adds them.
    """
    ruling = pl.col("verdict").filter(pl.col("role") == "adjudicator").last()
    judged = (
        votes.group_by(*UNIT, maintain_order=True)
        .agg(pl.col("simulated").any(), pl.col("digest").last(), ruling=ruling, reviews="review")
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
    """Form and spans from the votes that agree with the label; if the forms tie, it is implicit; null if
    nobody gave one."""
    alike = votes.join(judged.select(*UNIT, label="verdict"), on=UNIT).filter(
        (pl.col("verdict") == pl.col("label")) & (pl.col("verdict") != "absent")
    )
    explicit, implicit = ((pl.col("form") == form).sum() for form in ("explicit", "implicit"))
    form = pl.when(explicit > implicit).then(pl.lit("explicit")).when(implicit > 0).then(pl.lit("implicit"))
    forms = alike.filter(pl.col("verdict") == "present").group_by(UNIT).agg(form=form)
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


def differing(judged: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """The rows of `judged` that differ from the unit's last label, with its id as `had`."""
    previous = last(labels, *UNIT)
    facts = ["digest", "verdict", "form", "spans", "method", "reviews"]
    matched = previous.select(*UNIT, had="label", **{f"had_{c}": c for c in facts})
    return judged.join(matched, on=UNIT, how="left", maintain_order="left").filter(
        pl.col("had").is_null() | pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"had_{c}")) for c in facts)
    )


def changed(judged: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """`differing`, with ids.

    An id covers the unit, verdict, method, reviews and the previous label, so a label that returns is a new row.
    """
    new = differing(judged, labels)
    facts = new.select(*UNIT, "verdict", "method", "reviews", "digest", "spans", "had")
    ids = [digest(*row) for row in facts.iter_rows()]
    return new.with_columns(pl.Series("label", ids, dtype=pl.String)).select(LABELS.columns.keys())


def disputed(votes: pl.DataFrame, readers: int = 2) -> pl.DataFrame:
    """Units whose readers differ so that no further one can make a label, and that no adjudicator has ruled on."""
    split = tallies(votes, readers).filter(pl.col("common").is_null() & ~pl.col("open")).select(UNIT)
    return split.join(votes.filter(role="adjudicator"), on=UNIT, how="anti", maintain_order="left")


ALARM = 0.05  # share of a trait's labels


def lost(had: pl.DataFrame, now: pl.DataFrame, unit: Sequence[str]) -> list[tuple[str, int, int]]:
    """(trait, lost, total) of each trait for which more than ALARM of the units in `had` are missing from `now`."""
    missing = had.join(now, on=unit, how="anti")["trait"].value_counts(name="n")
    counts = had.group_by("trait").len().join(missing, on="trait").filter(pl.col("n") > ALARM * pl.col("len"))
    return list(counts.sort("trait").select("trait", "n", "len").iter_rows())


def opinions(votes: pl.DataFrame, disputed: pl.DataFrame) -> pl.DataFrame:
    """The disputed units with `said`: each reviewer's answer, without names, sorted so that the order reveals nobody.

    `said` is empty for a label that nobody gave (`auto`).
    """
    rows = by_reviewers(votes).join(disputed, on=UNIT, how="semi")
    answers = pl.Series("said", [_opinion(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    texts = rows.select(*UNIT, answers)
    units = disputed.join(texts.group_by(UNIT).agg(pl.col("said").sort()), on=UNIT, how="left")
    return units.with_columns(pl.col("said").fill_null([])).sort(UNIT)


def _opinion(vote: dict[str, Any]) -> str:
    parts = [", ".join(part for part in (vote["verdict"], vote["form"]) if part)]
    parts += [f"“{quote}”" for quote in merged(vote["spans"] or [])]
    note = f" ({vote['note']})" if vote["note"] else ""
    return ": ".join(parts[:1] + [" | ".join(parts[1:])] * bool(parts[1:])) + note


def warnings(labels: pl.DataFrame) -> pl.DataFrame:
    """Labels of items as WARNINGS of kind `review`, yes or no; a later row without an answer revokes earlier ones."""
    answer = pl.col("verdict").replace_strict({"present": "yes", "absent": "no"}, default=None, return_dtype=pl.String)
    flags = labels.filter(pl.col("kind") == "item_flag").with_columns(answer=answer)
    flags = flags.filter(pl.col("answer").is_not_null().cum_sum().over("subject", "trait") > 0)
    name = pl.col("label").map_elements(lambda label: digest("review", label), return_dtype=pl.String)
    review = pl.lit("review")
    rows = flags.select(
        "answer", warning=name, ref="item:" + pl.col("subject"), topic="trait", kind=review, source=review
    )
    return rows.match_to_schema(WARNINGS.schema, missing_columns="insert")
