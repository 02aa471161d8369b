"""Assembles the content of a release from one snapshot of the workspace, and runs all checks on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from annotation import aggregation, controls, reported_texts
from annotation.certificate import Certificate
from exports import (
    build_rows,
    canary,
    checks,
    claims,
    folder,
    formats,
    injection,
    licences,
    manifest_facts,
    provenance,
    rare_combinations,
    released_ids,
    required_version_bump as versioning,
    review_facts,
    target_lists,
    withdraw,
)
from exports.manifest_types import Agreement, Facts
from exports.snapshot import Snapshot, standing_reviews, take
from saferec_builder import catalog
from saferec_builder.catalog import known_works
from saferec_builder.catalog.known_works import Judged
from saferec_builder.core import taxonomy as traits
from saferec_builder.mining import privacy, splits, withheld
from saferec_builder.mining.conversations import AT_SIGN
from saferec_builder.storage import config, tables, texts_on_disk
from saferec_builder.storage.texts_on_disk import Spool
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Options:
    """The options of release.release."""

    version: str
    inject: str | None = None
    unreviewed: bool = False
    allow: frozenset[str] = frozenset()
    with_text: bool = False
    resplit: bool = False


@dataclass(frozen=True)
class Assembled:
    """All of a release but its files."""

    content: formats.Content
    drops: pl.DataFrame
    facts: Facts  # of the manifest, without those that depend on the written files
    parent: Path | None  # the release before this one
    origins: provenance.Origins
    taxonomy: bytes
    starts: released_ids.Starts  # exact: the manifest states only days
    certificate: Certificate | None
    too_few: dict[str, int]  # withheld traits -> people who have them


@dataclass(frozen=True)
class Base:
    """The data of the workspace, before the content of the release is chosen."""

    kept: pl.DataFrame  # conversations in the release (last revision), in its order, without their texts
    left_out: pl.DataFrame
    standing: pl.DataFrame  # each reviewer's last review per unit (standing_reviews)
    reviews: pl.DataFrame  # those of them that count
    past: pl.Series  # ids of the other reviews
    current_labels: pl.DataFrame  # labels of conversations, as build_rows.current gives them
    item_labels: pl.DataFrame
    items: pl.DataFrame
    links: pl.DataFrame
    judged: Judged
    out: dict[str, str]  # withheld conversations -> reason
    reported: list[str]  # conversations in which a reader reported personal data
    keep: frozenset[str]  # sources that keep their texts; also with --with-text, so that their rows are the same
    facts: Facts  # of the manifest, about all of the data
    starts: released_ids.Starts


@dataclass(frozen=True)
class Chosen:
    """The part of the base that is released, with what each row teaches."""

    base: Base
    released_texts: Spool  # the texts in the order of the release
    too_few: dict[str, int]  # withheld traits -> people who have them
    released_traits: list[str]  # all other traits
    silent: frozenset[str]  # sources whose texts stay with them
    rare: rare_combinations.Hidden
    filled: pl.DataFrame  # the request of each conversation, with its lists
    more: pl.DataFrame  # further requests of conversations, then rows with sentences of ours
    injected_traits: list[str]
    drops: pl.DataFrame
    labels: pl.DataFrame


Stated = tuple[dict[str, Agreement], Certificate | None]  # agreement per trait, and what the labels miss at most


def assemble(ws: Workspace, options: Options) -> Assembled:
    """Returns all of the release except its files; raises ReleaseError if a check fails."""
    snapshot, parent = take(ws), versioning.before(ws.releases, options.version)
    base = _base(ws, snapshot, options, parent)
    chosen = _chosen(ws, snapshot, base, options, parent)
    _check(chosen, options.allow)
    stated = _reviewed(ws, snapshot, chosen)
    content = _content(ws, snapshot, chosen, options, stated)
    proposals, base = manifest_facts.without_paths(snapshot.proposals), chosen.base
    facts = manifest_facts.facts(ws, content, proposals) | base.facts
    facts |= _facts(chosen, options, canary.guid(ws, content.name), stated)
    origins = provenance.origins(proposals, base.kept, snapshot.catalog_rows, base.reviews)
    taxonomy, few = _taxonomy(ws).read_bytes(), chosen.too_few
    return Assembled(content, chosen.drops, facts, parent, origins, taxonomy, base.starts, stated[1], few)


def _taxonomy(ws: Workspace) -> Path:
    return ws.root / path if (path := ws.config.taxonomy.path) else traits.EMBEDDED


def _chosen(ws: Workspace, snapshot: Snapshot, base: Base, options: Options, parent: Path | None) -> Chosen:
    slugs, fewest = ws.taxonomy.slugs, ws.config.release.min_seekers
    silent = [] if options.with_text else licences.silent(base.kept["source"].unique(), options.allow)
    too_few, rare = rare_combinations.withheld(base.current_labels, base.kept, silent, slugs, fewest)
    small, released_traits = list(too_few), [slug for slug in slugs if slug not in too_few]
    kept, left_out = rare_combinations.without(base.kept, base.left_out, rare)
    base = replace(base, kept=kept, left_out=left_out)
    if parent and (parent / "data").is_dir():
        known = manifest_facts.early(ws, kept, silent) | {"version": options.version}
        known |= {"keeps_unreviewed": options.unreviewed, "conditions": {"injected": int(options.inject is not None)}}
        placed = kept.select(pl.col("split").cast(pl.String), conversation="released")
        versioning.check_early(parent, known, _taxonomy(ws), placed)
    texts, rows = _built(ws, snapshot, base, frozenset(small), options)
    rows = rare_combinations.released_rows(rows, rare, base.keep, texts.turns)
    first = rows.filter(further=0)
    drops = build_rows.drops(base.left_out, rows)
    fill = _filler(first, base, ws.config.dataset.k)
    others, injected = _more(rows, options.inject, ws, texts.turns, base, _disclosed(base, released_traits))
    more = claims.add(fill(others), snapshot.claims, released_traits, slugs)
    current = review_facts.current(snapshot, base.out)
    weights = review_facts.weights(
        snapshot.design, current, snapshot.assignments, base.current_labels, snapshot.verdicts
    )
    filled = fill(first).join(weights, on="conversation", how="left", maintain_order="left")
    places = filled.select("place", "released", subject="conversation")
    labels = base.current_labels.filter(~pl.col("trait").is_in(small)).join(places, on="subject").sort("place", "trait")
    labels = rare_combinations.labels(labels, rare, released_traits)
    return Chosen(base, texts, too_few, released_traits, frozenset(silent), rare, filled, more, injected, drops, labels)


def _filler(first: pl.DataFrame, base: Base, k: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Returns target_lists.fill, learned from the requests `first`. Rows of sources that keep their texts learn from
    all of these; the other rows do not learn from them, as their lists would disclose items of a text that stays out.
    """
    keeps, oracle = pl.col("source").is_in(list(base.keep)), base.judged.oracle
    of_all = target_lists.candidates(first, base.items, oracle)
    if (open_first := first.filter(~keeps)).height == first.height:
        return partial(target_lists.fill, candidates=of_all, k=k)
    of_open = target_lists.candidates(open_first, base.items, oracle)

    def fill(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.with_row_index("row")
        parts = [target_lists.fill(rows.filter(part), c, k) for part, c in ((keeps, of_all), (~keeps, of_open))]
        return pl.concat(parts).sort("row").drop("row")

    return fill


def _content(ws: Workspace, snapshot: Snapshot, chosen: Chosen, options: Options, stated: Stated) -> formats.Content:
    """Returns the content that the files of the release are written from."""
    agreement, certified = stated
    base, name, missed, small = chosen.base, ws.config.dataset.name, review_facts.missed(certified), [*chosen.too_few]
    places = chosen.filled.select("place", "released", subject="conversation")
    open_ = places.filter(~pl.col("subject").is_in(list(chosen.rare.reduced)))
    kept = frozenset(base.kept.filter(pl.col("source").is_in(list(base.keep)))["conversation"])
    is_kept = pl.col("subject").is_in(list(kept))
    # a `*` would show which traits were asked about one by one: those that the rules find in a text that stays out
    expanded = aggregation.votes(base.standing.filter(is_kept), ws.taxonomy)
    reviews = pl.concat([review_facts.of_items(base.reviews, base.links).filter(~is_kept), expanded])
    return formats.Content(
        name=name,
        k=ws.config.dataset.k,
        rows=claims.add(released_ids.renamed(chosen.filled), snapshot.claims, chosen.released_traits),
        turns=chosen.released_texts.turns,
        labels=review_facts.labels(chosen.labels, base.reviews, agreement, missed, ws.secret, kept),
        reviews=review_facts.reviews(reviews, open_, small, ws, options.version),
        item_labels=review_facts.with_votes(base.item_labels, base.reviews),
        items=base.items,
        oracle=base.judged.oracle,
        risks=base.judged.risks,
        pulls={item: work.pull for item, work in base.judged.works.items()},
        official={t.slug: t.safecrs for t in ws.taxonomy.traits},
        more=chosen.more.with_columns(weight=pl.lit(None, pl.Float64)),
        silent=chosen.silent,
        canary=canary.sentence(canary.guid(ws, name)),
    )


def _facts(chosen: Chosen, options: Options, guid: str, stated: Stated) -> Facts:
    """Returns the manifest's facts about the released part, in the order of the file."""
    base, more, filled, (agreement, certified) = chosen.base, chosen.more, chosen.filled, stated
    injected = more["added"].count()
    reviewed = base.current_labels.filter("read").select(conversation="subject")
    names = ["truth", "safe_truth", "traits", "late_traits"]
    taught = pl.concat([filled.select(names), more.select(*names, "added")], how="diagonal")
    advice = checks.no_trait(chosen.too_few, chosen.rare.facts["k"]), checks.unread(chosen.drops)
    safety_rows = checks.check_safety(taught, base.judged.oracle, base.items, options.allow, *advice)
    facts = build_rows.figures(filled, chosen.labels, base.judged.oracle)
    facts["conditions"] |= {"injected": injected} | ({"further": n} if (n := more.height - injected) else {})
    return facts | {
        "dropped": dict(chosen.drops.group_by("reason").len().sort("reason").iter_rows()),
        "unreviewed": filled.join(reviewed, on="conversation", how="anti").height,
        "sentences": injection.banks().digest if chosen.injected_traits else None,
        "version": options.version,
        "canary": guid,
        "keeps_unreviewed": options.unreviewed,
        "injected_traits": chosen.injected_traits,
        "injected_unclear": injection.unclear(more, base.judged.oracle),
        "agreement": agreement,
        "missed": review_facts.missed(certified),
        "certificate": None if certified is None else review_facts.statement(certified),
        "withheld": list(chosen.too_few),
        "combinations": chosen.rare.facts if chosen.silent else None,
        "no_safety": not any(safety_rows.values()),
        "safety_rows": safety_rows,
    }


def _built(
    ws: Workspace, snapshot: Snapshot, base: Base, small: frozenset[str], options: Options
) -> tuple[Spool, pl.DataFrame]:
    """Returns the texts in the order of the release, and the rows of build_rows.build."""
    texts, refs = snapshot.arranged(ws, base.kept)
    settings = ws.config.release
    finders = catalog.finders(refs, base.items, base.links, base.judged.works, undated=settings.titles == "any")
    terms = build_rows.Terms(small, options.unreviewed, settings.requests == "turn", settings.truth == "any")
    reader = build_rows.Reading(texts.rows, *finders)
    return texts, build_rows.build(base.kept.drop("row"), base.current_labels, reader, base.items["item"].sort(), terms)


def _reviewed(ws: Workspace, snapshot: Snapshot, chosen: Chosen) -> Stated:
    base, small = chosen.base, list(chosen.too_few)
    reviews = withheld.without(base.standing, base.out)  # withheld conversations do not count, not even in numbers
    voting = controls.label_votes(reviews, snapshot.assignments)
    checks.check_uncounted(snapshot.labels, voting.filter(pl.col("out").is_null()), base.out)
    certified = review_facts.certified(
        snapshot, base.current_labels, reviews, base.out, ws, small=small, items=base.items["item"]
    )
    return review_facts.agreement_by_trait(voting, ws.taxonomy, small), certified


def _base(ws: Workspace, snapshot: Snapshot, options: Options, parent: Path | None) -> Base:
    conversations = tables.last(snapshot.conversations, "conversation")
    conversations = conversations.join(snapshot.clusters, on="conversation", how="left", maintain_order="left")
    taxonomy, standing = ws.taxonomy, standing_reviews(snapshot, ws.taxonomy)
    reviews = standing.filter(pl.col("out").is_null()).drop("out")
    of_taxonomy = pl.col("trait").is_in(taxonomy.slugs)  # labels of a trait that was removed have lost their verdicts
    labels = snapshot.labels.filter(of_taxonomy | pl.col("verdict").is_not_null())
    items, links = catalog.merge(snapshot.catalog_rows)
    sources = {*conversations["source"].unique(), *snapshot.catalog_rows["source"].unique()}
    demo = ws.config.demo or "demo" in sources
    if not (labels.is_empty() and options.inject and options.unreviewed):  # sentences of ours need no label
        checks.check_labels(review_facts.of_items(labels, links), conversations, items, taxonomy.slugs)
    checks.check_evidence(labels, conversations, snapshot.evidenced(labels))
    reported = reported_texts.reported(snapshot.reviews, conversations.select("digest", subject="conversation"))
    checks.check_allowed(options.allow, sources | licences.LICENCES.keys(), reported)
    licences.check_licences(sources, options.allow)
    checks.check_simulated(labels, reviews, demo, options.allow)
    judged = known_works.judged(items, links, snapshot.warnings, taxonomy, ws.config.rule)
    parent_facts = folder.facts_of(parent) if parent else Facts()
    stated = None if options.resplit else parent_facts.get("split_starts")
    boundaries = released_ids.starts(parent, stated) if parent and stated and any(stated) else None
    if ws.config.splits.by_item:
        conversations = _seeded(snapshot, conversations, items, links, ws.config.release.titles == "any")
    names = {c: ws.released_id(c) for c in conversations["conversation"]}
    conversations = conversations.with_columns(released=pl.col("conversation").replace_strict(names))
    earlier = _earlier(None if options.resplit else parent, parent_facts)
    out = withheld.reasons(ws, conversations)
    permitted = conversations.filter(~pl.col("conversation").is_in(list(out)))
    split, starts = _split(permitted, earlier, ws.config.splits, boundaries)
    facts: Facts = {
        "demo": demo,
        "simulated": bool(labels["simulated"].any() or reviews["simulated"].any()),
        "licences": {s: licences.of(s) for s in sorted(sources | {*snapshot.warnings["source"].unique()})},
        "split_rule": splits.rule(conversations),
        "split_starts": [t.date().isoformat() if t else None for t in starts],
        "parent": parent_facts.get("version"),
        "withdrawn": _withdrawn(ws, options.version),
    }
    conversations = conversations.join(split, on="conversation", how="left", maintain_order="left")
    voiced = reviews.filter(pl.col("verdict").is_in(["present", "unsure"]))["review"]
    current_labels = build_rows.current(labels, conversations, voiced).drop("kind", "label", "digest")
    keep = frozenset(licences.silent(sources))
    kept, left_out = build_rows.ordered(conversations, out, keep)
    return Base(
        kept=kept,
        left_out=left_out,
        standing=standing,
        reviews=reviews,
        past=snapshot.reviews.join(reviews, on="review", how="anti")["review"],
        current_labels=current_labels,
        item_labels=review_facts.item_labels(review_facts.of_items(labels, links)),
        items=items,
        links=links,
        judged=judged,
        out=out,
        reported=reported,
        keep=keep,
        facts=facts,
        starts=starts,
    )


def _split(
    conversations: pl.DataFrame, earlier: pl.Series, section: config.Splits, before: splits.Starts | None
) -> tuple[pl.DataFrame, released_ids.Starts]:
    """Returns splits.assign, and the first instants of validation and test, of the conversations that may be released:
    withheld ones must not push others out of their split."""
    marked = conversations.with_columns(earlier=pl.col("released").is_in(earlier.implode()))
    return splits.assign(marked, section, before), splits.starts(conversations["time"], section, before)


def _withdrawn(ws: Workspace, version: str) -> dict[str, str]:
    """Returns the other withdrawn versions -> reason; an existing version keeps what it stated when it was made."""
    release = ws.releases / version
    if (release / folder.MANIFEST).exists():
        return folder.facts_of(release)["withdrawn"]
    return {other: reason for other, reason in withdraw.reasons(ws.releases).items() if other != version}


def _earlier(parent: Path | None, parent_facts: Facts) -> pl.Series:
    """Returns the conversations of the previous release; if `forget` deleted its rows, from its key file, if any."""
    if parent and (parent / "data").is_dir():
        return versioning.table((parent, parent_facts), "conversations", ["conversation"])["conversation"]
    if parent and released_ids.path_of(parent).exists():
        return released_ids.read(released_ids.path_of(parent))["conversation"]
    return pl.Series([], dtype=pl.String)


def _seeded(
    snapshot: Snapshot, conversations: pl.DataFrame, items: pl.DataFrame, links: pl.DataFrame, undated: bool
) -> pl.DataFrame:
    """Adds `seed`: the first work that a conversation without time and seeker names; null for all others."""
    unplaced = conversations.filter(pl.col("time").is_null() & pl.col("seeker").is_null())
    texts = snapshot.turns(unplaced)
    refs = texts_on_disk.refs(texts.with_columns(recommended=[], accepted=[], seen=[]))["ref"]
    by_ref, mentions = catalog.finders(refs, items, links, {}, undated=undated)  # splits do not depend on warnings
    seeds = [
        next((item for turn in turns for item in build_rows.named(turn["text"], turn["items"], by_ref, mentions)), None)
        for turns in texts["turns"].to_list()
    ]
    seeded = texts.select(conversation="subject", seed=pl.Series(seeds, dtype=pl.String))
    return conversations.join(seeded, on="conversation", how="left", maintain_order="left")


def _more(
    rows: pl.DataFrame, inject: str | None, ws: Workspace, turns: checks.TurnsAt, base: Base, disclosed: pl.Series
) -> tuple[pl.DataFrame, list[str]]:
    """Returns further requests, then rows with sentences of ours; and the traits of --inject."""
    requests = released_ids.renamed(rows.filter(pl.col("cut").is_not_null()))
    further = requests.filter(pl.col("further") > 0)
    if inject is None:
        return further, []
    banks = injection.banks()
    slugs = injection.chosen(inject, ws.taxonomy.slugs, banks)
    choice = injection.Choice(slugs, banks, ws.config.release.disclosed == "both", base.keep, ws.secret)
    eligible = requests.filter(~pl.col("seeker").is_in(disclosed.implode()).fill_null(False))
    return pl.concat([further, injection.rows(eligible, choice, turns, base.judged.oracle)]), slugs


def _disclosed(base: Base, slugs: Sequence[str]) -> pl.Series:
    """Returns the seekers with a known or possible sensitivity in conversations whose seeker the release names: in any
    other one, a missing injected row would disclose the seeker."""
    risky = base.current_labels.filter("at_risk", pl.col("trait").is_in(list(slugs))).select(conversation="subject")
    named = base.kept.filter(~pl.col("source").is_in(list(base.keep)))
    return named.join(risky, on="conversation", how="semi")["seeker"].drop_nulls().unique()


def _check(chosen: Chosen, allow: frozenset[str]) -> None:
    base, filled = chosen.base, chosen.filled
    checks.check_removed(filled, base.out)
    checks.check_leaks(filled)
    released = filled.filter(~pl.col("source").is_in(list(chosen.silent)))
    # as in mine: titles of the catalog would look like personal data and stop every release
    find = partial(privacy.find, titles=catalog.spans(partial(catalog.finder, base.items)))
    leave = {str(source): kinds for source, kinds in AT_SIGN.items()}
    checks.check_personal(released, chosen.released_texts.turns, find, privacy.suspect, leave)
    checks.check_reported(released, base.reported, allow)
    checks.check_outdated(chosen.labels, base.past)
    checks.check_outdated(base.item_labels, base.past)
