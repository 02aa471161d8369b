"""catalog check, show, gaps and merges: what the oracle says, why, and what it does not know."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.core.counts import Counts

SEVERITIES = ("none", "mild", "moderate", "severe")


class Domain(StrEnum):
    film = "film"
    series = "series"
    game = "game"


Of = Annotated[Domain | None, typer.Option("--domain", help="Where a film and a game share a title.")]


def check(
    title: Annotated[str, typer.Argument(help='An item: "Title (Year)".')],
    trait: Annotated[str, typer.Option(help="Slug of the sensitivity.", show_default=False)],
    domain: Of = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Does this item break this trait: violated, clear or unknown; with the risk and every source of it.

    A title that the catalog does not hold, or holds twice, is unknown.
    """
    from saferec_builder import catalog
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    asked = ws.taxonomy[trait]
    items, links = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    warnings = store.read(ws, tables.WARNINGS)
    found = catalog.judged(title, domain and domain.value, asked, items, links, warnings, rule=ws.config.rule)
    if as_json:
        say(Counts("catalog check", skipped=1, figures=found), as_json)
        return
    for told in _told(found):
        typer.echo(line(told))


def _told(found: dict[str, Any]) -> list[str]:
    """The answer for a person who reads: one line each for item, match, trait, risk, verdict and every source."""
    names = [f"  candidate  {c['title']} [{c['domain']}]" for c in found["candidates"]]
    near = "" if found["exact"] else ", but not exactly: it may be another work, and is never clear"
    lines = [f"match    {found['match']}{near}", f"trait    {found['trait']}"]
    return [
        f"item     {found['title'] or 'none'}",
        *lines,
        *names,
        f"risk     {_risk(found['risk'])}",
        f"verdict  {found['verdict']}",
        *(f"  source   {_statement(s)}" for s in found["sources"]),
    ]


def _risk(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _statement(said: dict[str, Any]) -> str:
    votes = f"{said['yes'] or 0} yes, {said['no'] or 0} no" if said["yes"] is not None or said["no"] is not None else ""
    severity = None if said["severity"] is None else SEVERITIES[said["severity"]]
    near = None if said["exact"] else "names it, but not exactly: clears nothing"
    parts = [votes, said["answer"], severity, said["source"], said["url"], said["retrieved"], near]
    return f"{said['topic']}: " + " · ".join(p for p in parts if p)


def show(
    item: Annotated[str, typer.Argument(help='An item: "Title (Year)", an id such as imdb:tt0078748, or its item id.')],
    domain: Of = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """All that is known of one item: its sources, every warning, and the arithmetic of each risk."""
    from saferec_builder import catalog
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    items, links = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    match = catalog.resolved(item, domain and domain.value, items, links)
    if match.item is None:
        which = [catalog.name(row) + f" [{row['domain']}]" for row in _of(items, match.candidates)]
        more = f": {'; '.join(which)}; say which by its id" if which else ": the catalog does not hold it"
        raise UsageError(f"{item!r} is {match.match.replace('_', ' ')}{more}")
    warnings = store.read(ws, tables.WARNINGS)
    found = catalog.explained(match.item, items, links, warnings, ws.taxonomy, ws.config.rule)
    if as_json:
        say(Counts("catalog show", skipped=1, figures=found), as_json)
        return
    for told in _shown(found, catalog.name(found)):
        typer.echo(line(told))


def _of(items: Any, wanted: Any) -> list[dict[str, Any]]:
    return [row for row in items.to_dicts() if row["item"] in wanted]


def _shown(found: dict[str, Any], name: str) -> list[str]:
    lines = [f"{name} [{found['domain']}] {found['item']}", f"  known as  {', '.join(found['refs'])}"]
    lines += [f"  alias     {alias}" for alias in found["aliases"]]
    lines += [f"  warning   {_statement(said)}" for said in found["warnings"]]
    for trait in found["traits"]:
        lines.append(f"{trait['trait']}: risk {_risk(trait['risk'])}, {trait['verdict']}")
        lines += [f"    {step}" for step in trait["steps"]]
    return [*lines, "every other trait: risk not known, unknown"]


def gaps(
    limit: Annotated[int, typer.Option(help="How many items to list.", min=1)] = 20,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Which missing warnings touch the most conversations: what to fetch or to review next."""
    from saferec_builder.storage import workspace as store

    found, lost = _missing(store.Workspace.open(folder))
    names, touched = lost["ref"].unique(maintain_order=True), lost["conversation"].n_unique()
    if as_json:
        figures = {"waiting": int(found["waiting"].sum()), "gaps": found.head(limit).to_dicts()}
        figures |= {"no_item": {"names": len(names), "conversations": touched, "such": names.head(3).to_list()}}
        say(Counts("catalog gaps", skipped=found.height, figures=figures), as_json)
        return
    for row in found.head(limit).to_dicts():
        year = f" ({row['year']})" if row["year"] else ""
        told = f"{row['waiting']:>6} waiting  {row['conversations']:>6} conversations  {row['title']}{year} "
        typer.echo(line(f"{told}[{row['domain']}]: {len(row['unknown'])} traits unknown"))
    if len(names):
        told = f"{len(names):,} names in {touched:,} conversations, such as {', '.join(names.head(3))}"
        typer.echo(line(f"no item, or two of one title and year: {told}"))
    typer.echo(f"catalog gaps: {found.height:,} items that conversations name have unknown traits")


def missing(ws: Any) -> Any:
    """catalog.gaps of a workspace; a seeker is sensitive to what labels say, or proposals where there is none."""
    return _missing(ws)[0]


def _missing(ws: Any) -> tuple[Any, Any]:
    """(catalog.gaps, (conversation, ref) of what conversations name and what is no one item of the catalog)."""
    from functools import partial

    import polars as pl

    from saferec_builder import catalog
    from saferec_builder.storage import tables, workspace as store

    rows, warnings = store.read(ws, tables.CATALOG_ROWS), store.read(ws, tables.WARNINGS)
    items, links = catalog.merge(rows)
    oracle, _ = catalog.risks(items, links, warnings, ws.taxonomy, ws.config.rule)
    conversations = tables.last(store.read(ws, tables.CONVERSATIONS), "conversation")
    named = catalog.refs(conversations)
    index = catalog.index(items)
    linked = catalog.link(named["ref"], links, index)
    said = catalog.said(conversations, partial(catalog.mentions, index=index))
    used = pl.concat([catalog.uses(named, linked), said]).unique(maintain_order=True)
    lost = named.filter(~pl.col("ref").is_in(list(linked)))
    unit = ("kind", "subject", "trait")
    labels = tables.last(store.read(ws, tables.LABELS), *unit)
    proposals = tables.last(store.read(ws, tables.PROPOSALS), *unit).join(labels, list(unit), how="anti")
    told = pl.concat([frame.select(*unit, "verdict") for frame in (labels, proposals)])
    open_or_there = pl.col("verdict").ne_missing("absent")  # null: two people disagree, and nobody has ruled
    wanted = told.filter((pl.col("kind") == "sensitivity") & open_or_there)
    return catalog.gaps(items, oracle, used, wanted.select("trait", conversation="subject").unique()), lost


def merges(
    conflicts: Annotated[bool, typer.Option("--conflicts", help="Only ids that two different items claim.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Every row of a source that became part of another source's item, and by which id or title."""
    from saferec_builder import catalog
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    found = catalog.merges(store.read(ws, tables.CATALOG_ROWS)).to_dicts()
    clashing = sum(row["by"] == catalog.ID_CONFLICT for row in found)
    shown = [row for row in found if row["by"] == catalog.ID_CONFLICT or not conflicts]
    if as_json:
        say(Counts("catalog merges", skipped=len(shown), figures={"id_conflicts": clashing, "merges": shown}), as_json)
        return
    for row in shown:
        typer.echo(line(f"{row['row']}  {row['by']}  {row['other']}  (item {row['item']})"))
    typer.echo(f"catalog merges: {len(found) - clashing:,} merges, {clashing:,} id conflicts")
