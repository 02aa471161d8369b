"""Collects the facts of a release's manifest."""

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from exports import formats
from exports.manifest_types import Facts
from saferec_builder import __version__
from saferec_builder.storage.workspace import Workspace


def facts(ws: Workspace, content: formats.Content, proposals: pl.DataFrame) -> Facts:
    """Returns the facts about the content: no clock, no path, so that the same rows give the same bytes."""
    # two versions may differ by one row: where texts stay with their source, its day would be told here
    newest = content.rows.filter(~pl.col("source").is_in(list(content.silent)))["time"].max()
    repo = ws.config.dataset.repo
    claims = proposals.filter(pl.col("verdict") != "absent")  # an `absent` row of `learned` is only a score
    return {
        "name": content.name,
        "schema": 1,
        "created": newest.date().isoformat() if isinstance(newest, datetime) else None,
        "url": f"https://huggingface.co/datasets/{repo}" if repo else f"urn:saferec:{content.name}",
        "k": content.k,
        "licence": ws.config.dataset.licence,
        "contact": ws.config.release.contact,
        "code_version": __version__,
        "taxonomy_digest": ws.taxonomy.digest,
        "traits": list(ws.taxonomy.slugs),
        "official": dict(content.official),
        "rule": ws.config.oracle.model_dump(),
        "sources": content.rows["source"].unique().sort().to_list(),
        "silent": sorted(content.silent),
        "linkable": linkable(content),
        "min_seekers": ws.config.release.min_seekers,
        "proposers": _by_proposer(claims),
        "item_flags": _by_proposer(claims.filter(kind="item_flag")),
        "short_of_clear": _short(content.rows) + _short(content.more),
    }


def early(ws: Workspace, kept: pl.DataFrame, silent: Sequence[str]) -> Facts:
    """Returns those of the facts that are known of the conversations `kept` before any row is built."""
    return {
        "name": ws.config.dataset.name,
        "k": ws.config.dataset.k,
        "rule": ws.config.oracle.model_dump(),
        "sources": kept["source"].unique().sort().to_list(),
        "silent": sorted(silent),
    }


def _by_proposer(claims: pl.DataFrame) -> dict[str, int]:
    return dict(claims.group_by("proposer").len().sort("proposer").iter_rows())


def linkable(content: formats.Content) -> dict[str, float] | None:
    """Returns features -> share of conversations with released texts that they identify; None without such texts."""
    with_text = content.rows.filter(~pl.col("source").is_in(list(content.silent)))
    lists = pl.col("recommended", "accepted", "seen").cast(pl.List(pl.String)).list.sort().list.join("\n")
    sets = with_text.select(items=pl.concat_str(lists.fill_null(""), separator="\n\n"), day=pl.col("time").dt.date())
    kinds = {"items": pl.col("items"), "items and day": pl.struct("items", "day")}
    shares = sets.select(
        ((pl.col("items").str.strip_chars() != "") & column.is_unique()).mean().round(6).alias(name)
        for name, column in kinds.items()
    )
    return shares.row(0, named=True) if with_text.height else None


def _short(filled: pl.DataFrame) -> int:
    """Returns the number of requests for which no item is clear: they are in `grpo` only."""
    return filled.filter(pl.col("cut").is_not_null() & (pl.col("safe").list.len() == 0)).height


_PATH = r"(?s)^(?:[/~.\\]|[A-Za-z]:[/\\]|file:).*[/\\](.)"


def without_paths(proposals: pl.DataFrame) -> pl.DataFrame:
    """Returns the proposals with only the file name of models that are local files, as folders may name people."""
    return proposals.with_columns(pl.col("proposer").str.replace(_PATH, "$1"))
