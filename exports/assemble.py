"""What a release is made of, gathered from the workspace: every table read once, every check passed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from exports import formats as rows
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.storage import evidence, spool as spilled, tables, workspace as store
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Wanted:
    """What the command asked for."""

    version: str
    inject: str | None = None
    unreviewed: bool = False
    allow: frozenset[str] = frozenset()
    with_text: bool = False
    resplit: bool = False


@dataclass(frozen=True)
class Made:
    content: rows.Content
    drops: pl.DataFrame
    facts: dict[str, Any]  # of the manifest, but for what only the written files tell
    parent: Path | None  # the release before this one
    provenance: dict[str, Any]
    taxonomy: bytes


@dataclass(frozen=True)
class Base:
    """The workspace as a release sees it, before anything is chosen."""

    kept: pl.DataFrame  # last revision of what is in the release, in its order, without what was said
    left_out: pl.DataFrame
    reviews: pl.DataFrame  # each person's last word that counts
    past: pl.Series  # ids of the other reviews
    known: pl.DataFrame  # labels of conversations, as build_rows.current gives them
    item_labels: pl.DataFrame
    items: pl.DataFrame
    links: pl.DataFrame
    oracle: Any
    risks: Any
    out: dict[str, str]  # conversations that nobody may be given -> why
    told: dict[str, Any]  # facts on all of it
    provenance: dict[str, Any]


def gather(ws: Workspace, wanted: Wanted) -> Made:
    """Everything of the release but its files; every check on it has passed."""
    from exports import (
        build_rows as release,
        checks,
        injection as inject,
        manifest_facts as told,
        target_lists as targets,
    )
    from saferec_builder.core import taxonomy as traits

    taxonomy = ws.taxonomy
    parent = _parent(ws, wanted.version)
    base = _base(ws, wanted, taxonomy, parent)
    withheld = checks.small_groups(base.known, base.kept, taxonomy.slugs, ws.config.release.min_seekers)
    terms = release.Terms(frozenset(withheld), wanted.unreviewed, base.out)
    said, refs = spilled.spill(ws, base.kept)
    reading = release.Reading(said.rows, *_finders(refs, base.items, base.links))
    built = release.build(base.kept, base.known, reading, base.items["item"].sort(), terms)
    drops = release.drops(base.left_out, built)
    chosen, banks = _chosen(wanted.inject, taxonomy)
    injected = inject.rows(built, chosen, banks) if chosen else None
    shelf, k = targets.shelf(built, base.items, base.oracle), ws.config.dataset.k
    filled = targets.fill(built, shelf, k)
    silent = _silent(built["source"], wanted)
    _check(filled, said.turns, base.out, silent, base.items)
    placed = base.known.filter(~pl.col("trait").is_in(withheld)).join(_places(filled), on="subject")
    released = placed.sort("place", "trait")
    checks.check_behind(released, base.past)
    checks.check_behind(base.item_labels, base.past)
    agreement = _agreement(base.reviews, taxonomy, withheld)
    missed = _missed(ws, base, withheld)
    injected = None if injected is None else targets.fill(injected, shelf, k)
    safety = _safety(filled, injected, base.oracle, wanted)
    content = rows.Content(
        name=ws.config.dataset.name,
        k=k,
        rows=filled,
        turns=said.turns,
        labels=_labels(released, base.reviews, agreement, missed, ws.secret),
        reviews=_reviews(base.reviews, filled, withheld, ws, wanted.version),
        item_labels=base.item_labels,
        items=base.items,
        oracle=base.oracle,
        risks=base.risks,
        official={t.slug: t.safecrs for t in taxonomy.traits},
        injected=injected,
        silent=silent,
    )
    facts = told.facts(ws, content, taxonomy) | base.told | release.figures(filled, released, base.oracle)
    facts["conditions"] |= {"injected": 0 if content.injected is None else content.injected.height}
    facts["dropped"] = dict(drops.group_by("reason").len().sort("reason").iter_rows())
    read = base.known.filter("read").select(conversation="subject")
    facts["unreviewed"] = filled.join(read, on="conversation", how="anti").height
    facts |= {"version": wanted.version, "keeps_unreviewed": wanted.unreviewed, "injected_traits": chosen}
    facts |= {"agreement": agreement, "missed": missed, "withheld": withheld, "no_safety": not safety}
    text = (ws.root / path if (path := ws.config.taxonomy.path) else traits.EMBEDDED).read_bytes()
    return Made(content, drops, facts, parent, base.provenance, text)


def _places(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("place", subject="conversation")


# ---- what the workspace holds


def _base(ws: Workspace, wanted: Wanted, taxonomy: Taxonomy, parent: Path | None) -> Base:
    from exports import build_rows as release, checks, folder as write, manifest_facts as telling
    from exports.withdraw import reasons
    from saferec_builder import catalog
    from saferec_builder.mining import splits

    conversations, reviews, past = _conversations(ws, taxonomy)
    labels = tables.last(store.read(ws, tables.LABELS), "kind", "subject", "trait")
    catalog_rows = store.read(ws, tables.CATALOG_ROWS)
    items, links = catalog.merge(catalog_rows)
    sources = {*conversations["source"].unique(), *catalog_rows["source"].unique()}
    demo = ws.config.demo or "demo" in sources
    checks.check_labels(labels, conversations, items, taxonomy.slugs)
    checks.check_evidence(labels, conversations, store.evidenced(ws, labels))
    checks.check_licences(sources, wanted.allow)
    checks.check_simulated(labels, reviews, demo, wanted.allow)
    oracle, risks = catalog.risks(items, links, store.read(ws, tables.WARNINGS), taxonomy, ws.config.rule)
    before = write.read_manifest(parent).model_dump() if parent else {}
    shares = splits.Shares(**ws.config.splits.model_dump(), earlier=None if wanted.resplit else _starts(before))
    split = splits.assign(conversations, shares)
    told = {
        "demo": demo,
        "simulated": bool(labels["simulated"].any() or reviews["simulated"].any()),
        "licences": checks.licences(sources),
        "split_rule": splits.rule(conversations),
        "split_starts": [t.isoformat() if t else None for t in shares.starts(conversations["time"])],
        "parent": before.get("version"),
        "withdrawn": {v: r for v, r in reasons(ws.releases).items() if v != wanted.version},
    }
    provenance = telling.provenance(ws, conversations, catalog_rows, reviews)
    conversations = conversations.join(split, on="conversation", maintain_order="left")
    out = withheld.reasons(ws, conversations)
    voiced = reviews.filter(pl.col("verdict").is_in(["present", "unsure"]))["review"]
    known = release.current(labels, conversations, voiced).drop("kind", "label", "digest")
    item_labels = labels.filter(kind="item_flag")
    ordered = release.ordered(conversations, out)
    return Base(*ordered, reviews, past, known, item_labels, items, links, oracle, risks, out, told, provenance)


def _conversations(ws: Workspace, taxonomy: Taxonomy) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series]:
    """(last revisions with its cluster, each reviewer's last word per unit that counts, ids of other reviews)."""
    from annotation import review_history

    history, given = spilled.narrow(ws), store.read(ws, tables.REVIEWS)
    newest = pl.col("digest") == pl.col("digest").last().over("conversation")
    judged = given.filter(kind="sensitivity")
    texts = history.join(judged, left_on="conversation", right_on="subject", how="semi", maintain_order="left").select(
        "digest", kind=pl.lit("sensitivity"), subject="conversation", current=newest
    )
    moved = judged.join(texts.filter("current"), on=["subject", "digest"], how="anti")["subject"]
    quoted = judged.filter(review_history.claims())["subject"]
    said = spilled.turns(ws, pl.concat([moved, quoted]).unique())  # of all others the digest says enough
    texts = texts.join(said, on=["subject", "digest"], how="left", maintain_order="left")
    standing, _ = review_history.standing(judged, texts, taxonomy)
    of_items = tables.last(given.filter(kind="item_flag"), "kind", "subject", "trait", "reviewer", "role")
    # set aside, handed back, somebody else's task, or of a trait that is none: as `standing` has it, but for the texts
    of_items = of_items.filter(
        pl.col("verdict").is_not_null() & (pl.col("role") != "other") & pl.col("trait").is_in([*taxonomy.slugs, "*"])
    )
    of_items, _ = evidence.split(of_items, store.evidenced(ws, of_items))
    reviews = pl.concat([standing.filter(pl.col("out").is_null()).drop("out"), of_items])
    clusters = tables.last(store.read(ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    found = tables.last(history, "conversation")
    past = given.join(reviews, on="review", how="anti")["review"]
    return found.join(clusters, on="conversation", how="left", maintain_order="left"), reviews, past


def _missed(ws: Workspace, base: Base, withheld: list[str]) -> dict[str, dict[str, Any]]:
    """trait -> what its labels still miss at most, by blind audits; stops where a label claims more than they carry."""
    from annotation import desk, recall_bounds as bounds
    from exports import checks

    told = {}
    if not base.reviews.is_empty():  # by the labels that are released: of what was pulled since there are none yet
        labels = base.known.with_columns(kind=pl.lit("sensitivity"))
        unread = frozenset(labels.filter(method="auto").select("subject", "trait").iter_rows())
        told = desk.label_bounds(replace(desk.gather(ws), judged=labels, auto=unread)).traits
    checks.check_certificates(base.known, [slug for slug, bound in told.items() if bound.certified])
    return {
        slug: {"share": bound.share, "certified": bound.certified, "words": bounds.words(bound)}
        for slug, bound in told.items()
        if slug not in withheld
    }


def _parent(ws: Workspace, version: str) -> Path | None:
    """The newest release below this version."""
    from exports import folder as write
    from exports.checks import check_version

    older = [v for v in write.versions(ws.releases) if check_version(v) < check_version(version)]
    return ws.releases / max(older, key=check_version) if older else None


def _starts(before: dict[str, Any]) -> tuple[datetime | None, datetime | None] | None:
    told = before.get("split_starts")
    if not told or not any(told):
        return None
    first, second = (datetime.fromisoformat(t) if t else None for t in told)
    return first, second


def _finders(refs: list[str], items: pl.DataFrame, links: pl.DataFrame) -> tuple[Any, Any]:
    """(ref -> item, text -> mentions), both by the catalog."""
    from functools import partial

    from saferec_builder import catalog

    index = catalog.index(items)
    return catalog.link(refs, links, index), partial(catalog.mentions, index=index)


def _chosen(words: str | None, taxonomy: Taxonomy) -> tuple[list[str], Any]:
    """(the traits of --inject, the sentences there are)."""
    from exports import injection as inject

    banks = inject.banks()
    return [] if words is None else inject.chosen(words, taxonomy.slugs, banks), banks


def _silent(sources: pl.Series, wanted: Wanted) -> frozenset[str]:
    """Sources whose text stays with them."""
    from exports import checks

    if wanted.with_text:
        return frozenset()
    return frozenset(s for s in sources.unique() if checks.shares(s) == "ids" and s not in wanted.allow)


def _check(filled: pl.DataFrame, turns: Any, out: dict[str, str], silent: frozenset[str], items: pl.DataFrame) -> None:
    from functools import cache, partial

    from exports import checks
    from saferec_builder import catalog
    from saferec_builder.mining import privacy
    from saferec_builder.mining.handles import AT_SIGN

    checks.check_removed(filled, out)
    checks.check_leaks(filled)
    checks.check_answers(filled, turns)
    told = filled.filter(~pl.col("source").is_in(list(silent)))
    finder = cache(partial(catalog.finder, items))  # made where a text holds something like a title
    # as in mine: what stands there as a title of the catalog would stop every release
    find = partial(privacy.find, titles=lambda text: [(m.start, m.end) for m in catalog.in_text(finder(), text)])
    leave = {str(source): kinds for source, kinds in AT_SIGN.items()}
    checks.check_personal(told, turns, find, privacy.suspect, leave)


def _safety(filled: pl.DataFrame, injected: pl.DataFrame | None, oracle: Any, wanted: Wanted) -> bool:
    """Whether any row, of people's own words or injected, has an answer that is clear for its sensitivities."""
    from exports import checks

    frames = [
        frame.select("truth", "safe_truth", "traits", "late_traits")
        for frame in (filled, injected)
        if frame is not None
    ]
    return checks.check_safety(pl.concat(frames), oracle, wanted.allow)


# ---- people


def _agreement(reviews: pl.DataFrame, taxonomy: Taxonomy, withheld: list[str]) -> dict[str, Any]:
    """trait -> alpha of its sensitivity labels and the units that two reviewers judged."""
    from annotation import aggregation as adjudicate, agreement

    said = reviews.filter(kind="sensitivity", role="reviewer").with_columns(out=pl.lit(None, pl.String))
    told = agreement.alphas(adjudicate.votes(said, taxonomy)).sort("trait")
    short = told.filter(~pl.col("trait").is_in(withheld)).with_columns(pl.col("alpha").round(4))
    return {r["trait"]: {"alpha": r["alpha"], "units": r["units"]} for r in short.iter_rows(named=True)}


def _keyed(secret: bytes, *parts: str) -> str:
    """A name that nobody without the workspace's secret can lead back."""
    import hashlib

    return hashlib.blake2b("\n".join(parts).encode(), key=secret[:64], digest_size=8).hexdigest()


def _labels(
    labels: pl.DataFrame,
    reviews: pl.DataFrame,
    agreement: dict[str, Any],
    missed: dict[str, dict[str, Any]],
    secret: bytes,
) -> pl.DataFrame:
    """Labels as released: `basis` names the set of reviews behind one, and tells nothing else about them."""
    who = dict(reviews.select("review", "reviewer").iter_rows())
    lists = labels["reviews"].to_list()
    alphas = {trait: facts["alpha"] for trait, facts in agreement.items()}
    certified = {trait: facts["words"] for trait, facts in missed.items() if facts["certified"]}
    return labels.select("place", "subject", "trait", "verdict", "form", "method", "spans", "simulated").with_columns(
        agreement=pl.col("trait").replace_strict(alphas, default=None, return_dtype=pl.Float64),
        certificate=pl.col("trait").replace_strict(certified, default=None, return_dtype=pl.String),
        reviewers=pl.Series([len({who[r] for r in ids or () if r in who}) for ids in lists], dtype=pl.Int32),
        basis=pl.Series([_keyed(secret, "basis", *sorted(ids)) if ids else None for ids in lists], dtype=pl.String),
    )


def _reviews(
    reviews: pl.DataFrame, filled: pl.DataFrame, withheld: list[str], ws: Workspace, version: str
) -> pl.DataFrame:
    """Reviews of those who agreed to it (programs need not), under a pseudonym of this release."""
    agreed = pl.col("reviewer").is_in(ws.config.release.consent) | pl.col("simulated")
    placed = reviews.filter(agreed & ~pl.col("trait").is_in(withheld)).join(_places(filled), on="subject", how="left")
    told = placed.filter(pl.col("place").is_not_null() | (pl.col("kind") == "item_flag"))
    names = {who: _keyed(ws.secret, "reviewer", version, who) for who in told["reviewer"].unique()}
    return told.select(
        "place",
        "kind",
        "subject",
        "trait",
        "verdict",
        "form",
        "spans",
        "role",
        "guideline",
        "simulated",
        reviewer=pl.col("reviewer").replace_strict(names, return_dtype=pl.String),
    ).sort("place", "trait", "reviewer", "role")


# ---- files


def build(ws: Workspace, made: Made) -> tuple[bool, dict[str, Any]]:
    """(is it new, the manifest): writes releases/VERSION, where its version is large enough for what changed."""
    from exports import card, croissant, folder as write, provenance, versioning as versions
    from exports.checks import check_version
    from exports.report import charts

    facts = dict(made.facts)

    def finish(draft: Path, written: write.Written) -> tuple[dict[str, Any], dict[str, bytes]]:
        (draft / "traits.toml").write_bytes(made.taxonomy)
        facts.update(counts=written.counts, row_digests=written.digests)
        found: list[versions.Change] = []
        before, log, proof = None, "", None
        if made.parent:
            found = versions.check(made.parent, draft, facts, check_version(facts["version"]))
            before = write.read_manifest(made.parent).model_dump()
            log = (made.parent / "CHANGELOG.md").read_text(encoding="utf-8")
            proof = {"version": before["version"], "sha256": write.sha256(made.parent / write.SUMS)}
        facts["changes"] = [f"{change.size}: {change.what}" for change in found]
        schemas = rows.schemas(made.content.official)
        plot = charts.draw(facts)
        facts["plot"] = charts.PLOT if plot else None
        texts = {charts.PLOT: plot} if plot else {}
        texts |= {
            "README.md": card.render(facts).encode(),
            "CHANGELOG.md": card.changelog(facts, before, log).encode(),
            "croissant.json": croissant.render(facts, written.files, schemas),
            "provenance.json": provenance.render(facts, made.provenance, proof),
            "traits.toml": made.taxonomy,
        }
        return facts, texts

    new = write.build(ws.releases, facts["version"], _parts(made.content), rows.CONFIGS, finish)
    return new, facts


def _parts(content: rows.Content) -> Iterator[tuple[str, str, Any]]:
    for split in rows.SPLITS:
        for tables_ in rows.chunks(content, split):
            yield from ((config, split, table) for config, table in tables_.items())
    yield from ((config, "catalog", table) for config, table in rows.catalog(content).items())
