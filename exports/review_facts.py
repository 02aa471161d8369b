"""What reviewers said, as a release tells it: their agreement, what the labels may miss, and nobody's name."""

import polars as pl

from annotation import aggregation, agreement, design, recall_bounds
from annotation.confidence_bounds import Bound
from exports import checks
from exports.facts import Agreement, RecallBound
from exports.snapshot import Snapshot
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace


def agreement_by_trait(reviews: pl.DataFrame, taxonomy: Taxonomy, small: list[str]) -> dict[str, Agreement]:
    """Of the sensitivity labels; traits of too few people (`small`) are left out."""
    said = reviews.filter(kind="sensitivity", role="reviewer").with_columns(out=pl.lit(None, pl.String))
    alphas = agreement.alphas(aggregation.votes(said, taxonomy)).sort("trait")
    short = alphas.filter(~pl.col("trait").is_in(small)).select("trait", pl.col("alpha").round(4), "units")
    return {trait: {"alpha": alpha, "units": units} for trait, alpha, units in short.iter_rows()}


def missed(
    snapshot: Snapshot,
    known: pl.DataFrame,
    reviews: pl.DataFrame,
    out: dict[str, str],
    taxonomy: Taxonomy,
    small: list[str],
) -> dict[str, RecallBound]:
    """trait -> what its labels still miss at most, by blind audits; stops where a label claims more than they carry.

    By the labels that are released (`known`): of what was pulled since there are none yet. `out`: withheld
    conversations and why.
    """
    bounds: dict[str, Bound] = {}
    if not reviews.is_empty():
        judged = known.with_columns(kind=pl.lit("sensitivity"))
        auto = frozenset(judged.filter(method="auto").select("subject", "trait").iter_rows())
        current = snapshot.conversations.filter(~pl.col("conversation").is_in(list(out)))["conversation"].unique()
        said = design.said(judged, snapshot.verdicts, snapshot.reviews, current)
        bounds = recall_bounds.bounds(
            snapshot.design, current, snapshot.assignments, said, snapshot.gold, taxonomy.slugs, auto=auto
        ).traits
    checks.check_certificates(known, [slug for slug, bound in bounds.items() if bound.certified])
    return {
        slug: {"share": bound.share, "certified": bound.certified, "words": recall_bounds.words(bound)}
        for slug, bound in bounds.items()
        if slug not in small
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
    certified = {trait: facts["words"] for trait, facts in missed.items() if facts["certified"]}
    return released.select("place", "subject", "trait", "verdict", "form", "method", "spans", "simulated").with_columns(
        agreement=pl.col("trait").replace_strict(alphas, default=None, return_dtype=pl.Float64),
        certificate=pl.col("trait").replace_strict(certified, default=None, return_dtype=pl.String),
        reviewers=pl.Series([len({who[r] for r in ids or () if r in who}) for ids in lists], dtype=pl.Int32),
        basis=pl.Series([key(secret, "basis", *sorted(ids)) if ids else None for ids in lists], dtype=pl.String),
    )


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
        *("kind", "subject", "trait", "verdict", "form", "spans", "role", "guideline", "simulated"),
        reviewer=pl.col("reviewer").replace_strict(names, return_dtype=pl.String),
    ).sort("place", "trait", "reviewer", "role")
