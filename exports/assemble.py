"""What a release is made of, assembled from one snapshot of the workspace: every check has passed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import polars as pl

from annotation import controls, reported_texts
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
    rare_combinations,
    released_ids,
    required_version_bump as versioning,
    review_facts,
    target_lists,
    withdraw,
)
from exports.manifest_facts import Provenance
from exports.manifest_types import Agreement, Facts
from exports.snapshot import Snapshot, standing_reviews, take
from saferec_builder import catalog
from saferec_builder.catalog import known_works
from saferec_builder.catalog.known_works import Judged
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import privacy, splits, withheld
from saferec_builder.mining.at_sign_exceptions import AT_SIGN
from saferec_builder.storage import tables, texts_on_disk as spool
from saferec_builder.storage.texts_on_disk import Spool
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Options:
    """What release.release was asked for."""

    version: str
    inject: str | None = None
    unreviewed: bool = False
    allow: frozenset[str] = frozenset()
    with_text: bool = False
    resplit: bool = False


@dataclass(frozen=True)
class Assembled:
    content: formats.Content
    drops: pl.DataFrame
    facts: Facts  # of the manifest, but for what only the written files tell
    parent: Path | None  # the release before this one
    provenance: Provenance
    taxonomy: bytes
    starts: released_ids.Starts  # exact: the manifest names days
    certificate: Certificate | None


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
    judged: Judged
    out: dict[str, str]  # conversations that nobody may be given -> why
    reported: list[str]  # conversations whose readers say that they tell who somebody is
    keep: frozenset[str]  # sources that keep their texts, with --with-text, too: their rows are the same then
    facts: Facts  # on all of it
    starts: released_ids.Starts


@dataclass(frozen=True)
class Chosen:
    """What of the base is released, with what each row of it teaches."""

    base: Base
    said: Spool  # the texts in the order of the release
    small: list[str]  # traits of fewer people than may be told of
    shown: list[str]  # the other ones
    silent: frozenset[str]  # sources whose texts stay with them
    rare: rare_combinations.Hidden
    filled: pl.DataFrame  # the request of each conversation, with its lists
    more: pl.DataFrame  # further requests of conversations, then rows with sentences of ours
    injected_traits: list[str]
    drops: pl.DataFrame
    labels: pl.DataFrame


def assemble(ws: Workspace, options: Options) -> Assembled:
    """Everything of the release but its files; every check on it has passed."""
    snapshot, parent = take(ws), versioning.before(ws.releases, options.version)
    base = _base(ws, snapshot, options, ws.taxonomy, parent)
    chosen = _chosen(ws, snapshot, base, options)
    _check(chosen, options.allow)
    agreement, certified = _reviewed(ws, snapshot, chosen)
    content = _content(ws, snapshot, chosen, options, agreement, certified)
    proposals, read = manifest_facts.without_paths(snapshot.proposals), chosen.base
    facts = manifest_facts.facts(ws, content, ws.taxonomy, proposals) | base.facts
    facts |= _facts(chosen, options, canary.guid(ws, content.name), agreement, certified)
    made = manifest_facts.provenance(proposals, read.kept, snapshot.catalog_rows, read.reviews)
    return Assembled(content, chosen.drops, facts, parent, made, _taxonomy(ws), base.starts, certified)


def _chosen(ws: Workspace, snapshot: Snapshot, base: Base, options: Options) -> Chosen:
    slugs, fewest = ws.taxonomy.slugs, ws.config.release.min_seekers
    silent = [] if options.with_text else licences.silent(base.kept["source"].unique(), options.allow)
    few, rare = rare_combinations.withheld(base.known, base.kept, silent, slugs, fewest)
    small, shown = list(few), [slug for slug in slugs if slug not in few]
    kept, left_out = rare_combinations.without(base.kept, base.left_out, rare)
    base = replace(base, kept=kept, left_out=left_out)
    said, every = _built(ws, snapshot, base, frozenset(small), options)
    every = every.filter((pl.col("further") == 0) | ~pl.col("source").is_in(list(base.keep)))  # how many finds a text
    every = checks.without_repeated_answers(rare_combinations.unlearned(every, rare), said.turns)
    built = every.filter(further=0)
    drops = build_rows.drops(base.left_out, built)
    candidates = target_lists.candidates(built, base.items, base.judged.oracle)
    fill = partial(target_lists.fill, candidates=candidates, k=ws.config.dataset.k)
    further, injected = _more(every, options.inject, ws, said.turns, base, _disclosed(base, shown))
    more = claims.add(fill(further), snapshot.claims, shown, slugs)
    drawn = review_facts.weights(snapshot, base.known, base.out)
    filled = fill(built).join(drawn, on="conversation", how="left", maintain_order="left")
    places = filled.select("place", "released", subject="conversation")
    labels = base.known.filter(~pl.col("trait").is_in(small)).join(places, on="subject").sort("place", "trait")
    labels = rare_combinations.labels(labels, rare, shown)
    return Chosen(base, said, small, shown, frozenset(silent), rare, filled, more, injected, drops, labels)


def _content(
    ws: Workspace,
    snapshot: Snapshot,
    chosen: Chosen,
    options: Options,
    agreement: dict[str, Agreement],
    certified: Certificate | None,
) -> formats.Content:
    """What the files of the release are written from."""
    base, name, missed = chosen.base, ws.config.dataset.name, review_facts.missed(certified)
    places = chosen.filled.select("place", "released", subject="conversation")
    open_ = places.filter(~pl.col("subject").is_in(list(chosen.rare.told)))
    reviews = review_facts.of_items(base.reviews, base.links)
    return formats.Content(
        name=name,
        k=ws.config.dataset.k,
        rows=claims.add(released_ids.renamed(chosen.filled), snapshot.claims, chosen.shown),
        turns=chosen.said.turns,
        labels=review_facts.labels(chosen.labels, base.reviews, agreement, missed, ws.secret),
        reviews=review_facts.reviews(reviews, open_, chosen.small, ws, options.version),
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


def _facts(
    chosen: Chosen, options: Options, mark: str, agreement: dict[str, Agreement], certified: Certificate | None
) -> Facts:
    """What the manifest says of the choice, in the order of the file."""
    base, more, filled = chosen.base, chosen.more, chosen.filled
    injected = more["added"].count()
    facts: Facts = build_rows.figures(filled, chosen.labels, base.judged.oracle) | _counted(base, filled, chosen.drops)
    facts["conditions"] |= {"injected": injected} | ({"further": n} if (n := more.height - injected) else {})
    return facts | {
        "sentences": injection.banks().digest if chosen.injected_traits else None,
        "version": options.version,
        "canary": mark,
        "keeps_unreviewed": options.unreviewed,
        "injected_traits": chosen.injected_traits,
        "injected_unclear": injection.unclear(more, base.judged.oracle),
        "agreement": agreement,
        "missed": review_facts.missed(certified),
        "certificate": None if certified is None else review_facts.statement(certified),
        "withheld": chosen.small,
        "combinations": chosen.rare.facts if chosen.silent else None,
        "no_safety": not _safety(filled, more, base, options),
    }


def _counted(base: Base, filled: pl.DataFrame, drops: pl.DataFrame) -> Facts:
    read = base.known.filter("read").select(conversation="subject")
    return {
        "dropped": dict(drops.group_by("reason").len().sort("reason").iter_rows()),
        "unreviewed": filled.join(read, on="conversation", how="anti").height,
    }


def _taxonomy(ws: Workspace) -> bytes:
    return (ws.root / path if (path := ws.config.taxonomy.path) else traits.EMBEDDED).read_bytes()


def _built(
    ws: Workspace, snapshot: Snapshot, base: Base, small: frozenset[str], options: Options
) -> tuple[Spool, pl.DataFrame]:
    """The texts in the order of the release, and build_rows.build of them."""
    said, refs = snapshot.arranged(ws, base.kept)
    how = ws.config.release
    found = catalog.finders(refs, base.items, base.links, base.judged.works, undated=how.titles == "any")
    terms = build_rows.Terms(small, options.unreviewed, base.out, how.requests == "turn", how.truth == "any")
    reading = build_rows.Reading(said.rows, *found)
    return said, build_rows.build(base.kept.drop("row"), base.known, reading, base.items["item"].sort(), terms)


def _reviewed(ws: Workspace, snapshot: Snapshot, chosen: Chosen) -> tuple[dict[str, Agreement], Certificate | None]:
    """What the reviews say of themselves: agreement per trait, and what the labels miss at most."""
    base, taxonomy, readers = chosen.base, ws.taxonomy, ws.config.review.readers
    reviews = withheld.without(base.reviews, base.out)  # of a withheld conversation nothing counts, not even by number
    voting, _ = controls.apart(reviews, snapshot.assignments)
    checks.check_ahead(snapshot.labels, voting, base.out)
    flags = review_facts.flags(snapshot, base.items["item"], reviews, taxonomy.slugs, readers)
    judged = (snapshot, base.known, reviews, base.out, taxonomy)
    stated = review_facts.certified(*judged, small=chosen.small, readers=readers, flags=flags)
    return review_facts.agreement_by_trait(voting, taxonomy, chosen.small), stated


# ---- what the workspace holds


def _base(ws: Workspace, snapshot: Snapshot, options: Options, taxonomy: Taxonomy, parent: Path | None) -> Base:
    conversations = tables.last(snapshot.conversations, "conversation")
    conversations = conversations.join(snapshot.clusters, on="conversation", how="left", maintain_order="left")
    reviews = standing_reviews(snapshot, taxonomy)
    labels, catalog_rows = snapshot.labels, snapshot.catalog_rows
    items, links = catalog.merge(catalog_rows)
    sources = {*conversations["source"].unique(), *catalog_rows["source"].unique()}
    demo = ws.config.demo or "demo" in sources
    if not (labels.is_empty() and options.inject and options.unreviewed):  # sentences of ours need no label
        checks.check_labels(review_facts.of_items(labels, links), conversations, items, taxonomy.slugs)
    checks.check_evidence(labels, conversations, snapshot.evidenced(labels))
    reported = reported_texts.reported(snapshot.reviews, conversations.select("digest", subject="conversation"))
    checks.check_allowed(options.allow, sources | licences.LICENCES.keys(), reported)
    licences.check_licences(sources, options.allow)
    checks.check_simulated(labels, reviews, demo, options.allow)
    judged = known_works.judged(items, links, snapshot.warnings, taxonomy, ws.config.rule)
    before = folder.facts_of(parent) if parent else Facts()
    shares = splits.shares(ws.config.splits, None if options.resplit else _starts(parent, before))
    if ws.config.splits.by_item:
        conversations = _seeded(snapshot, conversations, items, links, ws.config.release.titles == "any")
    named = {c: released_ids.released(ws, ws.config.dataset.name, c) for c in conversations["conversation"]}
    conversations = conversations.with_columns(released=pl.col("conversation").replace_strict(named))
    earlier = _earlier(None if options.resplit else parent, before)
    out = withheld.reasons(ws, conversations)
    split, starts = _split(conversations.filter(~pl.col("conversation").is_in(list(out))), earlier, shares)
    facts: Facts = {
        "demo": demo,
        "simulated": bool(labels["simulated"].any() or reviews["simulated"].any()),
        "licences": licences.terms(sources | {*snapshot.warnings["source"].unique()}),
        "split_rule": splits.rule(conversations),
        "split_starts": [t.date().isoformat() if t else None for t in starts],
        "parent": before.get("version"),
        "withdrawn": _withdrawn(ws, options.version),
    }
    conversations = conversations.join(split, on="conversation", how="left", maintain_order="left")
    voiced = reviews.filter(pl.col("verdict").is_in(["present", "unsure"]))["review"]
    known = build_rows.current(labels, conversations, voiced).drop("kind", "label", "digest")
    keep = frozenset(licences.silent(sources))
    kept, left_out = build_rows.ordered(conversations, out, keep)
    return Base(
        kept=kept,
        left_out=left_out,
        reviews=reviews,
        past=snapshot.reviews.join(reviews, on="review", how="anti")["review"],
        known=known,
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
    conversations: pl.DataFrame, earlier: pl.Series, shares: splits.Shares
) -> tuple[pl.DataFrame, released_ids.Starts]:
    """(splits.assign, the first instants of validation and test) of what may be given to anybody: whoever asked to be
    removed takes no other conversation out by standing in another split."""
    known = conversations.with_columns(earlier=pl.col("released").is_in(earlier.implode()))
    return splits.assign(known, shares), shares.starts(conversations["time"])


def _withdrawn(ws: Workspace, version: str) -> dict[str, str]:
    """The other versions that were withdrawn; a version that is there says what it said when it was made."""
    home = ws.releases / version
    if (home / folder.MANIFEST).exists():
        return folder.facts_of(home).get("withdrawn") or {}
    return {v: r for v, r in withdraw.reasons(ws.releases).items() if v != version}


def _starts(parent: Path | None, before: Facts) -> released_ids.Starts | None:
    starts = before.get("split_starts")
    return released_ids.starts(parent, starts) if parent and starts and any(starts) else None


def _earlier(parent: Path | None, before: Facts) -> pl.Series:
    """The conversations of the release before; where `forget` deleted its rows, by its key file, if that is there."""
    if parent and (parent / "data").is_dir():
        return versioning.table((parent, before), "conversations", ["conversation"])["conversation"]
    if parent and released_ids.path_of(parent).exists():
        return released_ids.read(released_ids.path_of(parent))["conversation"]
    return pl.Series([], dtype=pl.String)


def _seeded(
    snapshot: Snapshot, conversations: pl.DataFrame, items: pl.DataFrame, links: pl.DataFrame, undated: bool
) -> pl.DataFrame:
    """With `seed`: of those without a time and a person, the first work that is named; null where there is none."""
    loose = conversations.filter(pl.col("time").is_null() & pl.col("seeker").is_null())
    said = snapshot.turns(loose)
    refs = spool.refs(said.with_columns(recommended=[], accepted=[], seen=[]))["ref"]
    linked, mentions = catalog.finders(refs, items, links, {}, undated=undated)  # a split changes with no warning
    seeds = [
        next((item for turn in turns for item in build_rows.named(turn["text"], turn["items"], linked, mentions)), None)
        for turns in said["turns"].to_list()
    ]
    found = said.select(conversation="subject", seed=pl.Series(seeds, dtype=pl.String))
    return conversations.join(found, on="conversation", how="left", maintain_order="left")


def _more(
    every: pl.DataFrame,
    inject: str | None,
    ws: Workspace,
    turns: checks.Said,
    base: Base,
    disclosed: pl.Series,
) -> tuple[pl.DataFrame, list[str]]:
    """(further requests of conversations, then rows with sentences of ours; the traits of --inject)."""
    requests = released_ids.renamed(every.filter(pl.col("cut").is_not_null()))
    further = requests.filter(pl.col("further") > 0)
    if inject is None:
        return further, []
    banks = injection.banks()
    chosen = injection.chosen(inject, ws.taxonomy.slugs, banks)
    choice = injection.Choice(chosen, banks, ws.config.release.disclosed == "both", base.keep, ws.secret)
    free = requests.filter(~pl.col("seeker").is_in(disclosed.implode()).fill_null(False))
    return pl.concat([further, injection.rows(free, choice, turns, base.judged.oracle)]), chosen


def _disclosed(base: Base, shown: Sequence[str]) -> pl.Series:
    """Seekers with a sensitivity that is known, or may be, in any conversation of which the release tells whose it is:
    of whom it does not tell, a row that is missing would."""
    risky = base.known.filter("at_risk", pl.col("trait").is_in(list(shown))).select(conversation="subject")
    open_ = base.kept.filter(~pl.col("source").is_in(list(base.keep)))
    return open_.join(risky, on="conversation", how="semi")["seeker"].drop_nulls().unique()


def _check(chosen: Chosen, allow: frozenset[str]) -> None:
    base, filled = chosen.base, chosen.filled
    checks.check_removed(filled, base.out)
    checks.check_leaks(filled)
    released = filled.filter(~pl.col("source").is_in(list(chosen.silent)))
    finder = cache(partial(catalog.finder, base.items))  # made where a text holds something like a title
    # as in mine: what stands there as a title of the catalog would stop every release
    find = partial(privacy.find, titles=lambda text: [(m.start, m.end) for m in catalog.in_text(finder(), text)])
    leave = {str(source): kinds for source, kinds in AT_SIGN.items()}
    checks.check_personal(released, chosen.said.turns, find, privacy.suspect, leave)
    checks.check_reported(released, base.reported, allow)
    checks.check_behind(chosen.labels, base.past)
    checks.check_behind(base.item_labels, base.past)


def _safety(filled: pl.DataFrame, more: pl.DataFrame, base: Base, options: Options) -> bool:
    """Whether any row, of people's own words or injected, has an answer that is clear for its sensitivities."""
    frames = [frame.select("truth", "safe_truth", "traits", "late_traits") for frame in (filled, more)]
    return checks.check_safety(pl.concat(frames), base.judged.oracle, base.items, options.allow)
