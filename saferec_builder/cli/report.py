"""report: what the workspace, a release and its runs come to, as one page that opens without a network."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts

PAGE = "report.html"


def report(
    release: Annotated[
        str | None, typer.Option("--release", help="Which release; default: the newest.", show_default=False)
    ] = None,
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", help="Folder with a report.json of training; may come twice.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Write report.html: pipeline, labels, agreement, the catalog's coverage, examples and the models' results."""
    from exports.report import page
    from saferec_builder.storage import workspace as store

    given = [page.read_runs(path) for path in runs or []]
    ws = store.Workspace.open(folder)
    figures = gather(folder, release) | {"runs": given}
    html = page.render(figures).encode()
    path = ws.root / PAGE
    new = not path.is_file() or path.read_bytes() != html
    if new:
        with store.replacing(path) as tmp:
            tmp.write_bytes(html)
    shown = {"report": str(path), "release": (figures["release"] or {}).get("version"), "bytes": len(html)}
    say(Counts("report", int(new), int(not new), figures=shown | {"runs": len(given)}), as_json, "pages")
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def gather(folder: Path, version: str | None) -> dict[str, Any]:
    """Everything that the page shows but for the runs: plain values, the same for the same rows."""
    import polars as pl

    from annotation import (
        aggregation as adjudicate,
        agreement,
        desk as desk_of,
        precision_bounds as precision,
        recall_bounds as bounds,
    )
    from exports import build_rows as stage
    from exports.report import examples, figures, workload
    from saferec_builder import __version__, catalog
    from saferec_builder.mining import withheld
    from saferec_builder.storage import tables
    from saferec_builder.storage.workspace import Workspace, read

    ws = Workspace.open(folder)
    desk, taxonomy = desk_of.gather(ws), ws.taxonomy
    conversations = tables.last(read(ws, tables.CONVERSATIONS), "conversation")
    conversations = conversations.filter(~conversations["conversation"].is_in(list(desk.withheld)))
    drops, readings, warnings = (read(ws, t) for t in (tables.DROPS, tables.READINGS, tables.WARNINGS))
    readings, proposals, every = (
        withheld.without(frame, desk.withheld)
        for frame in (readings, desk.proposals, tables.last(desk.labels, "kind", "subject", "trait"))
    )
    labels = stage.current(every, conversations)
    catalog_rows = read(ws, tables.CATALOG_ROWS)
    items, links = catalog.merge(catalog_rows)
    oracle, _ = catalog.risks(items, links, warnings, taxonomy, ws.config.rule)
    manifest, released = _release(ws.releases, version)
    judged = labels.select(every.columns).vstack(every.filter(kind="item_flag"))
    unread = labels.filter(method="auto").select("subject", "trait").iter_rows()
    # by the labels that this page counts: what was pulled since is in none of them, and is missed as long
    missed = desk_of.label_bounds(replace(desk, judged=labels, auto=frozenset(unread)))
    return {
        "name": ws.config.dataset.name,
        "code_version": __version__,
        "k": ws.config.dataset.k,
        "rule": ws.config.oracle.model_dump(),
        "demo": ws.config.demo or "demo" in {*conversations["source"], *catalog_rows["source"]},
        "simulated": bool(desk.votes["simulated"].any() or every["simulated"].any()),
        "release": manifest,
        "headline": figures.headline(conversations, labels, desk.votes, items, warnings),
        "funnel": figures.funnel(
            conversations,
            drops,
            readings,
            desk.assignments,
            desk.votes,
            labels,
            released=released,
            withheld=desk.withheld,
        ),
        "left_out": figures.left_out(drops.filter(pl.col("stage") != "release")) + _dropped(manifest),
        "traits": figures.traits(labels, taxonomy),
        "methods": figures.methods(labels),
        "proposers": figures.proposers(proposals, readings, judged, taxonomy),
        "agreement": figures.agreement(agreement.alphas(adjudicate.by_reviewers(desk.votes)), taxonomy),
        "missed": workload.missed(missed, taxonomy, bounds.words, precision.words),
        "effort": workload.effort(desk.standing, labels),
        "load": workload.load(desk.assignments, desk.standing, taxonomy, _pseudonym(ws)),
        "flips": _flips(ws, manifest, taxonomy),
        "coverage": figures.coverage(oracle, taxonomy),
        "examples": examples.examples(conversations, labels, proposals, taxonomy),
    }


def _pseudonym(ws: Any) -> Callable[[str], str]:
    """A reviewer's name on this page: of no other use, so that nobody finds their reviews in a release by it."""
    from saferec_builder.storage.tables import digest

    return lambda who: "Reviewer " + digest("report", who, ws.secret.hex())[:5]


def _flips(ws: Any, manifest: dict[str, Any] | None, taxonomy: Any) -> dict[str, Any] | None:
    """What changed since the version before the one that is shown; None where there is none."""
    from exports import diff, folder as write
    from exports.report import workload

    older = workload.before(manifest["version"], write.versions(ws.releases)) if manifest else None
    if manifest is None or older is None:
        return None
    names = {t.slug: t.name for t in taxonomy.traits}
    found = diff.diff(ws.releases / older, ws.releases / manifest["version"])
    flips = [(names.get(slug, slug), how, n) for slug, kinds in found["flips"].items() for how, n in kinds.items()]
    mark = "- ALARM: "
    return {
        "from": older,
        "to": manifest["version"],
        "rows": {config: counts for config, counts in found["rows"].items() if any(counts.values())},
        "labels": [dict(zip(("name", "how", "count"), flip, strict=True)) for flip in flips],
        "alarms": [line.removeprefix(mark) for line in diff.as_text(found).splitlines() if line.startswith(mark)],
    }


def _dropped(manifest: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What the release that is shown left out; the table of drops holds what any release ever did."""
    told = (manifest or {}).get("dropped") or {}
    return [
        {"stage": "release", "reason": reason, "count": n} for reason, n in sorted(told.items(), key=lambda x: -x[1])
    ]


def _release(releases: Path, version: str | None) -> tuple[dict[str, Any] | None, dict[str, set[str]] | None]:
    """(the manifest's own words, config -> conversations in it) of that version or the newest; None where none is."""
    import polars as pl

    from exports import folder as write
    from saferec_builder.cli.publish import find
    from saferec_builder.core.errors import ReleaseError

    if version is None and not list(write.versions(releases)):
        return None, None
    home = find(releases, version)
    manifest = write.read_manifest(home).model_dump()
    held = {}
    for config in ("conversations", "sft"):
        path = home / "data" / config
        try:
            frames = [
                pl.read_parquet(file, columns=["conversation"], glob=False) for file in sorted(path.glob("*.parquet"))
            ]
        except (pl.exceptions.PolarsError, OSError) as fault:
            raise ReleaseError(f"{path}: cannot be read ({fault}): run `saferec-build verify {home}`") from None
        held[config] = {c for frame in frames for c in frame["conversation"]}
    wanted = ("name", "version", "created", "licence", "split_rule", "counts", "sources", "dropped")
    return {key: manifest.get(key) for key in wanted}, held
