"""release: labels, conversations and catalog become one frozen folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say


def release(
    version: Annotated[str, typer.Argument(help="MAJOR.MINOR.PATCH, for example 1.0.0.")],
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Freeze the labelled conversations as releases/VERSION: splits, rows to train on, card, checksums."""
    from exports import rows, write
    from saferec_builder import release as stage
    from saferec_builder import store, tables

    stage.check_version(version)
    ws = store.open_workspace(folder)
    content, drops, facts = gather(ws, version)
    made = rows.tables(content)
    facts["counts"] = {config: {s: t.num_rows for s, t in splits.items()} for config, splits in made.items()}
    new = write.build(ws.releases, version, made, facts, _texts(ws, facts))
    store.append(ws, tables.DROPS, drops)
    learned = content.rows["cut"].is_not_null().sum()
    figures: dict[str, Any] = {"release": str(ws.releases / version), "rows": _sums(facts["counts"])}
    figures["unresolved_labels"] = facts["makers"]["unresolved"]
    counts = Counts("release", learned if new else 0, 0 if new else learned, facts["dropped"], figures)
    say(counts, as_json, "conversations")


def gather(ws: Any, version: str) -> tuple[Any, Any, dict[str, Any]]:
    """(content for exports.rows, rows of DROPS, what the manifest says but for counts); every check has passed."""
    from functools import partial

    from exports.rows import Content
    from saferec_builder import catalog, splits, tables, targets, traits
    from saferec_builder import release as stage
    from saferec_builder.store import read

    path = ws.config.taxonomy.path
    taxonomy = traits.load(ws.root / path if path else None)
    history = read(ws, tables.CONVERSATIONS)
    conversations = tables.last(history, "conversation")
    labels = tables.last(read(ws, tables.LABELS), "kind", "subject", "trait")
    catalog_rows = read(ws, tables.CATALOG_ROWS)
    items, links = catalog.merge(catalog_rows)
    stage.check_labels(labels, conversations, items, taxonomy.slugs)
    oracle, risks = catalog.risks(items, links, read(ws, tables.WARNINGS), taxonomy, ws.config.rule)

    index = catalog.index(items)
    split = splits.assign(conversations, splits.Shares(**ws.config.splits.model_dump()))
    known = stage.current(labels, conversations)
    built, drops = stage.build(
        conversations.join(split, on="conversation", maintain_order="left"),
        known,
        catalog.link(stage.refs(conversations), links, index),
        partial(catalog.mentions, index=index),
    )
    splits.check_leaks(built)
    k = ws.config.dataset.k
    built = targets.fill(built, items, oracle, k)
    released = known.join(built.select(subject="conversation"), on="subject", how="semi", maintain_order="left")
    flags = labels.filter(kind="item_flag")
    content = Content(ws.config.dataset.name, k, built, released, flags, items, oracle, risks)
    facts = _facts(ws, version, content, taxonomy) | {
        "demo": ws.config.demo or "demo" in {*conversations["source"], *catalog_rows["source"]},
        "simulated": bool(labels["simulated"].any()),
        "split_rule": splits.rule(conversations),
        "dropped": dict(drops.group_by("reason").len().sort("reason").iter_rows()),
        "agreement": _agreement(ws, history, taxonomy),
    }
    return content, drops, facts


def _facts(ws: Any, version: str, content: Any, taxonomy: Any) -> dict[str, Any]:
    """What the release itself tells: no clock, no path, so that the same rows give the same bytes."""
    from saferec_builder import __version__, tables
    from saferec_builder import release as stage
    from saferec_builder.store import read

    newest = content.rows["time"].max()
    proposals = read(ws, tables.PROPOSALS).group_by("proposer").len().sort("proposer")
    return {
        "name": content.name,
        "version": version,
        "schema": 1,
        "created": newest.date().isoformat() if newest else None,
        "k": content.k,
        "licence": ws.config.dataset.licence,
        "code_version": __version__,
        "taxonomy_digest": taxonomy.digest,
        "traits": list(taxonomy.slugs),
        "rule": ws.config.oracle.model_dump(),
        "sources": content.rows["source"].unique().sort().to_list(),
        "proposers": dict(proposals.iter_rows()),
    } | stage.figures(content.rows, content.labels, content.oracle)


def _agreement(ws: Any, history: Any, taxonomy: Any) -> dict[str, Any]:
    """trait -> alpha of its sensitivity labels and the units that two reviewers judged."""
    import polars as pl

    from saferec_builder import adjudicate, agreement, tables
    from saferec_builder.store import read

    newest = pl.col("digest") == pl.col("digest").last().over("conversation")
    texts = history.select("digest", "turns", kind=pl.lit("sensitivity"), subject="conversation", current=newest)
    reviews = read(ws, tables.REVIEWS).filter(kind="sensitivity", role="reviewer")
    standing, _ = adjudicate.standing(reviews, texts, taxonomy)
    told = agreement.alphas(adjudicate.votes(standing, taxonomy)).sort("trait")
    short = told.with_columns(pl.col("alpha").round(4))
    return {r["trait"]: {"alpha": r["alpha"], "units": r["units"]} for r in short.iter_rows(named=True)}


def _texts(ws: Any, facts: dict[str, Any]) -> dict[str, bytes]:
    """The card, the change log and the taxonomy, as they stand in the folder."""
    from exports import card, write
    from saferec_builder import traits
    from saferec_builder.release import check_version

    path = ws.config.taxonomy.path
    older = [v for v in write.versions(ws.releases) if check_version(v) < check_version(facts["version"])]
    before, log = None, ""
    if older:
        home = ws.releases / max(older, key=check_version)
        before = write.read_manifest(home).model_dump()
        log = (home / "CHANGELOG.md").read_text(encoding="utf-8")
    return {
        "README.md": card.render(facts).encode(),
        "CHANGELOG.md": card.changelog(facts, before, log).encode(),
        "traits.toml": (ws.root / path if path else traits.EMBEDDED).read_bytes(),
    }


def _sums(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {config: sum(splits.values()) for config, splits in counts.items()}
