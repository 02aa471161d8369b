"""Prepares the facts of the reviews for a release: agreement, what the labels may miss, and pseudonymous reviews."""

from collections.abc import Collection
from math import ceil, floor

import polars as pl

from annotation import aggregation, agreement, certificate, label_bounds, sampling_design
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
    """Agreement on the sensitivity labels, without traits of too few people (`small`). `reviews`:
    snapshot.standing_reviews, including those that do not count: a `*` does not cover traits that were answered."""
    judged = reviews.filter(kind="sensitivity", role="reviewer")
    alphas = agreement.alphas(aggregation.votes(judged, taxonomy)).sort("trait")
    rounded = alphas.filter(~pl.col("trait").is_in(small)).select("trait", pl.col("alpha").round(4), "units")
    return {trait: {"alpha": alpha, "units": units} for trait, alpha, units in rounded.iter_rows()}


def certified(
    snapshot: Snapshot,
    released: pl.DataFrame,
    reviews: pl.DataFrame,
    excluded: dict[str, str],
    ws: Workspace,
    *,
    small: list[str],
    items: pl.Series,
) -> Certificate | None:
    """The certificate of the labels, without the traits in `small`; None if there are no reviews. Raises if a label
    claims more than its bounds support.

    It is based on the `released` labels: answers pulled since then have none yet. `excluded`: withheld conversation
    -> reason; `reviews` (snapshot.standing_reviews) contains none of them. `items`: ids of the catalog.
    """
    if reviews.filter(pl.col("out").is_null()).is_empty():
        checks.check_certificates(released, [])
        return None
    labels = withheld.without(released.with_columns(kind=pl.lit("sensitivity")), excluded)
    columns = [*tables.UNIT, "verdict", "method"]
    bounds = label_bounds.bounds(
        label_bounds.Reviewed(
            taxonomy=ws.taxonomy,
            readers=ws.config.review.readers,
            current=current(snapshot, excluded),
            plots=snapshot.plots.filter(snapshot.plots.is_in(items.implode())).to_list(),
            judged=pl.concat([labels.select(columns), snapshot.labels.filter(kind="item_flag").select(columns)]),
            standing=reviews,
            all_votes=aggregation.votes(reviews, ws.taxonomy),
            auto=frozenset(labels.filter(method="auto").select("subject", "trait").iter_rows()),
            labels=snapshot.verdicts,
            reviews=snapshot.reviews,
            assignments=snapshot.assignments,
            design=snapshot.design,
            ever=snapshot.proposals,
            gold=snapshot.gold,
            decoys=snapshot.decoys,
            erased=snapshot.erased,
        )
    )
    checks.check_certificates(released, [slug for slug, bound in bounds.traits.items() if bound.within])
    return certificate.from_bounds(bounds, small)


def current(snapshot: Snapshot, excluded: dict[str, str]) -> list[str]:
    """The conversations in the data, without those `excluded`."""
    kept = snapshot.conversations.filter(~pl.col("conversation").is_in(list(excluded)))
    return kept["conversation"].unique().to_list()


def weights(
    design_rows: pl.DataFrame,
    current: Collection[str],
    assignments: pl.DataFrame,
    labels: pl.DataFrame,
    history: pl.DataFrame,
) -> pl.DataFrame:
    """conversation, weight: the number of `current` conversations that each labelled one represents, by how it was
    drawn. labels: of sensitivities; history: all labels ever."""
    ever_auto = history.filter(method="auto")["subject"]
    strata = sampling_design.strata(design_rows, current, assignments, "sensitivity", ever_auto)
    labelled = labels.filter(pl.col("verdict").is_not_null() & (pl.col("method") != "auto"))
    rows = list(sampling_design.weights(strata, labelled["subject"].unique()).items())
    return pl.DataFrame(rows, {"conversation": pl.String, "weight": pl.Float64}, orient="row")


def missed(stated: Certificate | None) -> dict[str, RecallBound]:
    """trait -> what its labels still miss at most, as in the manifest."""
    bounds = stated.missed if stated else {}
    return {
        slug: RecallBound(share=b.share, certified=b.certified, words=b.words, of_all=of_all(b.prevalence))
        for slug, b in bounds.items()
    }


def of_all(has: Prevalence) -> str:
    """`7.1 % (6.2 to 9.0 %)`: the share of all that have it, and its bounds, rounded outwards."""
    low, high = floor(1000 * has.low + 1e-9) / 10, ceil(1000 * has.high - 1e-9) / 10
    return f"{low:.1f} to {high:.1f} %" if has.all is None else f"{100 * has.all:.1f} % ({low:.1f} to {high:.1f} %)"


def statement(stated: Certificate) -> Statement:
    """The figures of the dataset card for all labels together."""
    people = stated.population
    items: Statement = {}
    if stated.items:
        pop, miss = stated.items.population, stated.items.missed_of_all
        items = {"plots": pop.subjects, "plots_zone": pop.zone, "plots_audited": miss.audited, "any_flag": miss.words}
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
    kept: Collection[str],
) -> pl.DataFrame:
    """Labels as released: `basis` identifies the set of reviews behind a label, and reveals nothing else of them. Of
    the conversations `kept` by their sources it differs from trait to trait: traits that one `*` covers would show
    which others were asked about, and whoever runs the rules on the source knows that."""
    names, key = dict(reviews.select("review", "reviewer").iter_rows()), tables.keyed_digest
    lists = released["reviews"].to_list()
    bases = [
        key(secret, "basis", *[trait] * (subject in kept), *sorted(ids)) if ids else None
        for subject, trait, ids in released.select("subject", "trait", "reviews").iter_rows()
    ]
    alphas = {trait: facts["alpha"] for trait, facts in agreement.items()}
    shares = [(trait, facts["share"], facts["words"]) for trait, facts in missed.items()]
    within = {trait: words for trait, share, words in shares if share is not None and share <= ALPHA}
    columns = ("place", "trait", "verdict", "form", "method", "spans", "simulated")
    voted = with_votes(released.with_columns(kind=pl.lit("sensitivity")), reviews)
    return voted.select(*columns, *VOTES, subject="released").with_columns(
        agreement=pl.col("trait").replace_strict(alphas, default=None, return_dtype=pl.Float64),
        certificate=pl.col("trait").replace_strict(within, default=None, return_dtype=pl.String),
        reviewers=pl.Series([len({names[r] for r in ids or () if r in names}) for ids in lists], dtype=pl.Int32),
        basis=pl.Series(bases, dtype=pl.String),
    )


def of_items(rows: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Labels or reviews, each on the item that its item was merged into (merging.merge)."""
    ids = links.filter(pl.col("ref").str.starts_with("item:"))
    moved = ids.select("item", subject=pl.col("ref").str.strip_prefix("item:"))
    flags = rows.filter(kind="item_flag").join(moved, "subject", "left", maintain_order="left")
    flags = flags.with_columns(subject=pl.coalesce("item", "subject")).drop("item")
    return pl.concat([rows.filter(pl.col("kind") != "item_flag"), flags])


def item_labels(labels: pl.DataFrame) -> pl.DataFrame:
    """The labels of items, one per unit: if two items were merged, the worse verdict counts."""
    worse = pl.col("verdict").replace_strict({"present": 2, "absent": 1}, default=0)
    flags = labels.filter(kind="item_flag").sort(worse, maintain_order=True)
    return tables.last(flags, *tables.UNIT)


def with_votes(labels: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    """`labels` with VOTES: the number of reviewers per verdict, and the share of `present` (null without a vote)."""
    # a `*` of an earlier taxonomy has one row per trait, but is one reviewer's answer
    answers = reviews.select("review", "role", "verdict").unique()
    rows = labels.select(*tables.UNIT, review="reviews").explode("review", empty_as_null=False)
    votes = aggregation.tallies(rows.join(answers, on="review"), readers=1)
    votes = votes.rename({v: f"votes_{v}" for v in VERDICTS} | {"soft": "soft_label"})
    joined = labels.join(votes.select(*tables.UNIT, *VOTES), on=tables.UNIT, how="left", maintain_order="left")
    return joined.with_columns(pl.col(VOTES[:3]).fill_null(0))


def reviews(
    standing: pl.DataFrame, places: pl.DataFrame, small: list[str], ws: Workspace, version: str
) -> pl.DataFrame:
    """Reviews by people who agreed to their release, and by programs, under pseudonyms of this release."""
    agreed = pl.col("reviewer").is_in(ws.config.release.consent) | pl.col("simulated")
    placed = standing.filter(agreed & ~pl.col("trait").is_in(small)).join(places, on="subject", how="left")
    rows = placed.filter(pl.col("place").is_not_null() | (pl.col("kind") == "item_flag"))
    pseudonyms = {name: tables.keyed_digest(ws.secret, "reviewer", version, name) for name in rows["reviewer"].unique()}
    return rows.select(
        "place",
        *("kind", "trait", "verdict", "form", "spans", "role", "guideline", "simulated"),
        subject=pl.coalesce("released", "subject"),
        reviewer=pl.col("reviewer").replace_strict(pseudonyms, return_dtype=pl.String),
    ).sort("place", "trait", "reviewer", "role")
