"""What reviewers said, as a release tells it: their agreement, what the labels may miss, and nobody's name."""

from math import ceil, floor

import polars as pl

from annotation import aggregation, agreement, certificate, label_bounds, sampling_design as design
from annotation.certificate import Certificate, Prevalence
from annotation.confidence_bounds import ALPHA
from annotation.tools.tasks_and_answers import VERDICTS
from exports import checks
from exports.formats import VOTES
from exports.manifest_types import Agreement, RecallBound, Statement
from exports.snapshot import Snapshot
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace


def agreement_by_trait(reviews: pl.DataFrame, taxonomy: Taxonomy, small: list[str]) -> dict[str, Agreement]:
    """Of the sensitivity labels; traits of too few people (`small`) are left out. `reviews`: snapshot.standing_reviews,
    those too that do not count: a `*` is no word on what its reader answered."""
    judged = reviews.filter(kind="sensitivity", role="reviewer")
    alphas = agreement.alphas(aggregation.votes(judged, taxonomy)).sort("trait")
    short = alphas.filter(~pl.col("trait").is_in(small)).select("trait", pl.col("alpha").round(4), "units")
    return {trait: {"alpha": alpha, "units": units} for trait, alpha, units in short.iter_rows()}


def certified(
    snapshot: Snapshot,
    known: pl.DataFrame,
    reviews: pl.DataFrame,
    out: dict[str, str],
    taxonomy: Taxonomy,
    *,
    small: list[str],
    readers: int,
    items: pl.Series,
) -> Certificate | None:
    """What is stated of the labels, without the traits in `small`; None where nobody has reviewed. Stops where a label
    claims more than its bounds carry.

    By the labels that are released (`known`): of what was pulled since there are none yet. `out`: withheld
    conversations and why; `reviews` (snapshot.standing_reviews) has none of them. `items`: ids of the catalog.
    """
    if reviews.filter(pl.col("out").is_null()).is_empty():
        checks.check_certificates(known, [])
        return None
    labels = withheld.without(known.with_columns(kind=pl.lit("sensitivity")), out)
    shown = [*tables.UNIT, "verdict", "method"]
    found = label_bounds.bounds(
        label_bounds.Reviewed(
            taxonomy=taxonomy,
            readers=readers,
            current=_current(snapshot, out).to_list(),
            plots=snapshot.plots.filter(snapshot.plots.is_in(items.implode())).to_list(),
            judged=pl.concat([labels.select(shown), snapshot.labels.filter(kind="item_flag").select(shown)]),
            standing=reviews,
            votes=aggregation.votes(reviews, taxonomy),
            auto=frozenset(labels.filter(method="auto").select("subject", "trait").iter_rows()),
            labels=snapshot.verdicts,
            reviews=snapshot.reviews,
            assignments=snapshot.assignments,
            design=snapshot.design,
            proposals=snapshot.proposals,
            gold=snapshot.gold,
            decoys=snapshot.decoys,
            erased=snapshot.erased,
        )
    )
    checks.check_certificates(known, [slug for slug, bound in found.traits.items() if bound.within])
    return certificate.of(found, small)


def _current(snapshot: Snapshot, out: dict[str, str]) -> pl.Series:
    return snapshot.conversations.filter(~pl.col("conversation").is_in(list(out)))["conversation"].unique()


def weights(snapshot: Snapshot, known: pl.DataFrame, out: dict[str, str]) -> pl.DataFrame:
    """conversation, weight: how many conversations each one that people labelled stands for, by how it was drawn."""
    strata = design.strata(snapshot.design, _current(snapshot, out), snapshot.assignments, "sensitivity")
    judged = known.filter(pl.col("verdict").is_not_null() & (pl.col("method") != "auto"))
    rows = list(design.weights(strata, judged["subject"].unique()).items())
    return pl.DataFrame(rows, {"conversation": pl.String, "weight": pl.Float64}, orient="row")


def missed(stated: Certificate | None) -> dict[str, RecallBound]:
    """trait -> what its labels still miss at most, as the manifest says it."""
    of = stated.missed if stated else {}
    return {
        slug: {
            "share": bound.share,
            "certified": bound.certified,
            "words": bound.words,
            "of_all": of_all(bound.prevalence),
        }
        for slug, bound in of.items()
    }


def of_all(has: Prevalence) -> str:
    """`7.1 % (6.2 to 9.0 %)`: which share of all has it, and its bounds, rounded outwards."""
    low, high = floor(1000 * has.low + 1e-9) / 10, ceil(1000 * has.high - 1e-9) / 10
    return f"{low:.1f} to {high:.1f} %" if has.all is None else f"{100 * has.all:.1f} % ({low:.1f} to {high:.1f} %)"


def statement(stated: Certificate) -> Statement:
    """What the card says of the whole."""
    people = stated.population
    items: Statement = {}
    if stated.items:
        whole, of = stated.items.population, stated.items.missed_of_all
        items = {"plots": whole.subjects, "plots_zone": whole.zone, "plots_audited": of.audited, "any_flag": of.words}
    return {
        "subjects": people.subjects,
        "claimed": people.claimed + people.unplaced,
        "zone": people.zone,
        "audited": stated.missed_of_all.audited,
        "open": stated.missed_of_all.open + stated.missed_of_all.holes,
        "confidence": stated.confidence,
        "any": stated.missed_of_all.words,
        "together": stated.together,
        "truth": stated.of_the_truth.words,
        "of_all": of_all(stated.missed_of_all.prevalence),
        **items,
    }


def labels(
    released: pl.DataFrame,
    reviews: pl.DataFrame,
    agreement: dict[str, Agreement],
    missed: dict[str, RecallBound],
    secret: bytes,
) -> pl.DataFrame:
    """Labels as released: `basis` names the set of reviews behind one, and tells nothing else about them."""
    who, key = dict(reviews.select("review", "reviewer").iter_rows()), tables.keyed_digest
    lists = released["reviews"].to_list()
    alphas = {trait: facts["alpha"] for trait, facts in agreement.items()}
    shares = [(trait, facts["share"], facts["words"]) for trait, facts in missed.items()]
    within = {trait: words for trait, share, words in shares if share is not None and share <= ALPHA}
    shown = ("place", "trait", "verdict", "form", "method", "spans", "simulated")
    counted = with_votes(released.with_columns(kind=pl.lit("sensitivity")), reviews)
    return counted.select(*shown, *VOTES, subject="released").with_columns(
        agreement=pl.col("trait").replace_strict(alphas, default=None, return_dtype=pl.Float64),
        certificate=pl.col("trait").replace_strict(within, default=None, return_dtype=pl.String),
        reviewers=pl.Series([len({who[r] for r in ids or () if r in who}) for ids in lists], dtype=pl.Int32),
        basis=pl.Series([key(secret, "basis", *sorted(ids)) if ids else None for ids in lists], dtype=pl.String),
    )


def of_items(rows: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Labels or reviews, each on the item that its item is a part of by now (merging.merge)."""
    now = links.select("item", subject=pl.col("ref").str.strip_prefix("item:")).filter(
        links["ref"] != pl.col("subject")
    )
    flags = rows.filter(kind="item_flag").join(now, "subject", "left", maintain_order="left")
    flags = flags.with_columns(subject=pl.coalesce("item", "subject")).drop("item")
    return pl.concat([rows.filter(pl.col("kind") != "item_flag"), flags])


def item_labels(labels: pl.DataFrame) -> pl.DataFrame:
    """The labels of items, one per unit: of two items that have become one the worse, as verdicts count them."""
    worse = pl.col("verdict").replace_strict({"present": 2, "absent": 1}, default=0)
    flags = labels.filter(kind="item_flag").sort(worse, maintain_order=True)
    return tables.last(flags, *tables.UNIT)


def with_votes(labels: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    """`labels` with VOTES: how many reviewers said what, and the share of them that said present (null without one)."""
    # a `*` of a taxonomy before is there once per trait: it is one reviewer's word all the same
    said = reviews.select("review", "role", "verdict").unique()
    each = labels.select(*tables.UNIT, review="reviews").explode("review", empty_as_null=False)
    votes = aggregation.tallies(each.join(said, on="review"), readers=1)
    votes = votes.rename({v: f"votes_{v}" for v in VERDICTS} | {"soft": "soft_label"})
    joined = labels.join(votes.select(*tables.UNIT, *VOTES), on=tables.UNIT, how="left", maintain_order="left")
    return joined.with_columns(pl.col(VOTES[:3]).fill_null(0))


def reviews(
    standing: pl.DataFrame, places: pl.DataFrame, small: list[str], ws: Workspace, version: str
) -> pl.DataFrame:
    """Reviews of those who agreed to it (programs need not), under a pseudonym of this release."""
    agreed = pl.col("reviewer").is_in(ws.config.release.consent) | pl.col("simulated")
    placed = standing.filter(agreed & ~pl.col("trait").is_in(small)).join(places, on="subject", how="left")
    shown = placed.filter(pl.col("place").is_not_null() | (pl.col("kind") == "item_flag"))
    names = {who: tables.keyed_digest(ws.secret, "reviewer", version, who) for who in shown["reviewer"].unique()}
    return shown.select(
        "place",
        *("kind", "trait", "verdict", "form", "spans", "role", "guideline", "simulated"),
        subject=pl.coalesce("released", "subject"),
        reviewer=pl.col("reviewer").replace_strict(names, return_dtype=pl.String),
    ).sort("place", "trait", "reviewer", "role")
