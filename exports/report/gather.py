"""Gathers the values of the report page from a workspace and one of its releases, as plain values.

All but the runs of training; the same rows give the same values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from annotation import aggregation, agreement, label_bounds, progress, review_state, reviewer_opt_outs as opt_outs
from exports import (
    build_rows,
    diff,
    folder,
    hub,
    released_ids,
    removals_since_release,
    required_version_bump as versioning,
    verify,
    withdraw,
)
from exports.manifest_types import Facts
from exports.report import examples, report_statistics as figures, workload
from saferec_builder import __version__, catalog
from saferec_builder.catalog import verdicts
from saferec_builder.core import release_files
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReleaseError
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.storage import tables
from saferec_builder.storage.tables import digest
from saferec_builder.storage.workspace import Workspace, read

Figures = figures.Row
_FACTS = ("name", "version", "created", "licence", "counts")


def gather(ws: Workspace, version: str | None = None) -> Figures:
    """Returns all values of the page but its runs. version: of the release, by default the newest, if there is one."""
    state = review_state.gather(ws)
    taxonomy = state.taxonomy
    conversations = tables.last(read(ws, tables.CONVERSATIONS), "conversation")
    conversations = conversations.filter(~conversations["conversation"].is_in(list(state.withheld)))
    drops, readings, warnings = (read(ws, t) for t in (tables.DROPS, tables.READINGS, tables.WARNINGS))
    readings, proposals, standing, last_labels = (
        withheld.without(frame, state.withheld)
        for frame in (readings, state.ever, state.standing, tables.last(state.labels, *tables.UNIT))
    )
    last_labels = last_labels.filter(pl.col("trait").is_in(taxonomy.slugs))
    labels = build_rows.current(last_labels, conversations)
    current_readings = readings.join(
        state.known.filter("current"), on=["kind", "subject", "digest"], how="semi", maintain_order="left"
    )
    catalog_rows = read(ws, tables.CATALOG_ROWS)
    items, links = catalog.merge(catalog_rows)
    oracle, _ = catalog.risks(items, links, warnings, taxonomy, ws.config.rule)
    manifest, released = _release(ws, version, [*conversations["conversation"], *state.withheld])
    raw = read_plain(ws.releases / manifest["version"] / "manifest.json") if manifest else b""
    judged = labels.select(last_labels.columns).vstack(last_labels.filter(kind="item_flag"))
    auto = labels.filter(method="auto").select("subject", "trait").iter_rows()
    # by the labels that this page counts: reviews pulled since are not in them, and count as missed until they are
    bounds = label_bounds.bounds(replace(state, judged=labels, auto=frozenset(auto)))
    reviews = aggregation.by_reviewers(state.votes)
    shown = conversations.filter(~conversations["conversation"].is_in(review_state.reported(state)))
    tasks = progress.tasks(state, review_state.open_units(state, opt_outs.avoided(ws)))
    steps = (conversations, drops, readings, state.assignments, state.votes, labels)
    return {
        "name": ws.config.dataset.name,
        "code_version": __version__,
        "rule": ws.config.oracle.model_dump(),
        "demo": ws.config.demo or "demo" in {*conversations["source"], *catalog_rows["source"]},
        "simulated": bool(state.votes["simulated"].any() or last_labels["simulated"].any()),
        "release": manifest and {key: manifest.get(key) for key in _FACTS} | {"digest": release_files.digest(raw)},
        "doubts": _doubts(ws, manifest["version"]) if manifest else [],
        "headline": figures.headline(
            conversations, labels, state.votes, items, verdicts.linked(items, links, warnings), warnings
        ),
        "released": manifest and figures.released(manifest),
        "funnel": figures.funnel(*steps, released=released, withheld=state.withheld),
        "left_out": figures.left_out(drops.filter(pl.col("stage") != "release"), current_readings) + _dropped(manifest),
        "traits": figures.traits(labels, taxonomy),
        "methods": figures.methods(labels),
        "proposers": figures.proposers(proposals, readings, judged, taxonomy),
        "agreement": figures.agreement(agreement.alphas(reviews), taxonomy),
        "missed": workload.missed(bounds, taxonomy),
        "effort": workload.effort(state.assignments, standing, labels),
        # under names for this page only, by which nobody finds reviews in a release
        "load": workload.load(
            tasks, state.standing, taxonomy, lambda who: "Reviewer " + digest("report", who, ws.secret.hex())[:5]
        ),
        "flips": _flips(ws, manifest, taxonomy),
        "coverage": figures.coverage(oracle, taxonomy),
        "examples": examples.examples(shown, labels, review_state.found_units(state), taxonomy),
    }


def _doubts(ws: Workspace, version: str) -> list[str]:
    """Returns reasons not to rely on this release: it was withdrawn, its files have changed, or somebody in it has
    asked to be removed."""
    release, notes = ws.releases / version, []
    if (reason := withdraw.reasons(ws.releases).get(version)) is not None:
        notes.append(f"release {version} was withdrawn: {reason}: do not use it, make or show another version")
    try:
        verify.verify(release, hub.BESIDE)
    except ReleaseError:
        command = f"`saferec-build verify {release.relative_to(ws.root)}` names the first fault"
        notes.append(f"release {version} was changed or damaged after it was made, its figures may be false: {command}")
        return notes
    try:
        removals = removals_since_release.still_in(ws, release)
    except ReleaseError as fault:  # its key file cannot be read
        return [*notes, str(fault)]
    if removals:
        conversations = f"{many(len(removals), 'conversation', 'conversations')} whose removal was asked for since"
        notes.append(f"release {version} holds {conversations}: show nobody its texts, make another version")
    return notes


def _flips(ws: Workspace, manifest: Facts | None, taxonomy: Taxonomy) -> Figures | None:
    """Returns what changed since the previous version; None if there is none."""
    older = versioning.before(ws.releases, manifest["version"]) if manifest else None
    if manifest is None or older is None:
        return None
    if not (older / "data").is_dir():
        return {"from": older.name, "to": manifest["version"], "gone": True}
    names = {t.slug: t.name for t in taxonomy.traits}
    difference = diff.diff(older, ws.releases / manifest["version"])
    return {
        "from": older.name,
        "to": manifest["version"],
        "rows": {config: counts for config, counts in difference.rows.items() if any(counts.values())},
        "labels": [
            {"name": names.get(slug, slug), "how": change, "count": n}
            for slug, kinds in difference.flips.items()
            for change, n in kinds.items()
        ],
        "alarms": [diff.alarm_text(alarm) for alarm in difference.alarms],
    }


def _dropped(manifest: Facts | None) -> list[figures.Row]:
    """Returns what this release left out; the table drops holds what all releases did."""
    left_out, stays = build_rows.apart(manifest["dropped"] if manifest else {})
    rows = [("release", *row) for row in left_out.items()] + [("requests", *row) for row in stays.items()]
    rows.sort(key=lambda row: (row[0], -row[2]))
    return [{"stage": stage, "reason": reason, "count": n} for stage, reason, n in rows]


def _release(
    ws: Workspace, version: str | None, mined: Iterable[str]
) -> tuple[Facts | None, Mapping[str, set[str]] | None]:
    """Returns (manifest; `released` of report_statistics.funnel) of that version, or of the newest with data; (None,
    None) if there is none. `mined`: ids, for a release whose key file is kept elsewhere."""
    if version is None and not any((ws.releases / name / "data").is_dir() for name in folder.versions(ws.releases)):
        return None, None
    release = versioning.find(ws.releases, version)
    manifest, conversations, key = folder.facts_of(release), {}, released_ids.path_of(release)
    if key.exists():
        names = dict(released_ids.read(key).select("conversation", "subject").iter_rows())
    else:
        names = {ws.released_id(conversation, manifest["name"]): conversation for conversation in mined}
    for config in ("conversations", "grpo", "sft"):
        columns = ["conversation", *["made_from", "condition"] * (config == "grpo")]
        rows = versioning.table((release, manifest), config, columns)
        conversations[config] = {names.get(c, c) for c in rows["conversation"]}
        if config == "grpo":
            is_injected = pl.col("condition") == "injected"
            conversations["injected"] = set(rows.filter(is_injected)["conversation"])
            conversations["asked"] = {names.get(c, c) for c in rows.filter(~is_injected)["made_from"]}
    return manifest, conversations
