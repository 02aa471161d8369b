"""Collects what a release's manifest says: its facts, and where all of it came from."""

from datetime import datetime
from typing import TypedDict

import polars as pl

from exports import formats
from exports.manifest_types import Facts
from saferec_builder import __version__
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.workspace import Workspace


class Proposed(TypedDict):
    proposer: str
    version: str
    taxonomy: str
    count: int


class Provenance(TypedDict):
    files: dict[str, list[str]]  # source -> names of the files that it was read from
    proposals: list[Proposed]
    guidelines: list[str]
    tools: list[str]
    reviewers: int


def facts(ws: Workspace, content: formats.Content, taxonomy: Taxonomy, proposals: pl.DataFrame) -> Facts:
    """What the release itself tells: no clock, no path, so that the same rows give the same bytes."""
    newest = content.rows["time"].max()
    repo = ws.config.dataset.repo
    claims = proposals.filter(pl.col("verdict") != "absent")  # a score of `learned` proposes nothing
    return {
        "name": content.name,
        "schema": 1,
        "created": newest.date().isoformat() if isinstance(newest, datetime) else None,
        "url": f"https://huggingface.co/datasets/{repo}" if repo else f"urn:saferec:{content.name}",
        "k": content.k,
        "licence": ws.config.dataset.licence,
        "contact": ws.config.release.contact,
        "code_version": __version__,
        "taxonomy_digest": taxonomy.digest,
        "traits": list(taxonomy.slugs),
        "official": dict(content.official),
        "rule": ws.config.oracle.model_dump(),
        "sources": content.rows["source"].unique().sort().to_list(),
        "silent": sorted(content.silent),
        "linkable": _linkable(content),
        "min_seekers": ws.config.release.min_seekers,
        "proposers": dict(claims.group_by("proposer").len().sort("proposer").iter_rows()),
        "short_of_clear": _short(content.rows) + _short(content.more),
    }


def _linkable(content: formats.Content) -> dict[str, float] | None:
    """What finds a conversation whose text is released in its source -> of so many alone; None where no text is."""
    shown = content.rows.filter(~pl.col("source").is_in(list(content.silent)))
    lists = pl.col("recommended", "accepted", "seen").cast(pl.List(pl.String)).list.sort().list.join("\n")
    sets = shown.select(items=pl.concat_str(lists.fill_null(""), separator="\n\n"), day=pl.col("time").dt.date())
    unique = {"items": pl.col("items"), "items and day": pl.struct("items", "day")}
    alone = sets.select(
        ((pl.col("items").str.strip_chars() != "") & of.is_unique()).mean().round(3).alias(name)
        for name, of in unique.items()
    )
    return alone.row(0, named=True) if shown.height else None


def _short(filled: pl.DataFrame) -> int:
    """Requests for which no item is clear: they stand in `grpo` only."""
    return filled.filter(pl.col("cut").is_not_null() & (pl.col("safe").list.len() == 0)).height


_PATH = r"(?s)^(?:[/~.\\]|[A-Za-z]:[/\\]|file:).*[/\\](.)"


def without_paths(proposals: pl.DataFrame) -> pl.DataFrame:
    """The proposals, with the file's name alone where a model is a file of this machine: folders name people."""
    return proposals.with_columns(pl.col("proposer").str.replace(_PATH, "$1"))


def provenance(
    proposals: pl.DataFrame, conversations: pl.DataFrame, catalog_rows: pl.DataFrame, reviews: pl.DataFrame
) -> Provenance:
    """What the release rests on. conversations: those in it, since a file may be called after who is in it."""
    files = conversations.group_by("source").agg(pl.col("source_file").unique().sort()).sort("source")
    by_proposer = proposals.group_by("proposer", "version", "taxonomy").len("count")
    others = [s for s in catalog_rows["source"].unique().sort() if s not in files["source"]]
    return {
        "files": dict(files.iter_rows()) | {source: [] for source in others},
        "proposals": [
            {"proposer": proposer, "version": version, "taxonomy": taxonomy, "count": count}
            for proposer, version, taxonomy, count in by_proposer.sort("proposer", "version", "taxonomy").iter_rows()
        ],
        "guidelines": reviews["guideline"].drop_nulls().unique().sort().to_list(),
        "tools": reviews["tool"].unique().sort().to_list(),
        "reviewers": reviews["reviewer"].n_unique(),
    }
