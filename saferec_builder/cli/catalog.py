"""catalog: items and warnings into the workspace, and what the oracle says of one item."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say

app = typer.Typer(no_args_is_help=True)


class Source(StrEnum):
    movielens = "movielens"
    redial = "redial"
    csv = "csv"
    demo = "demo"
    warnings = "warnings"
    parent_guide = "parent-guide"


class Domain(StrEnum):
    film = "film"
    series = "series"
    game = "game"


@app.command()
def add(
    source: Annotated[Source, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files; for movielens its folder.", metavar="PATH...")],
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Add items (movielens, redial, csv, demo) or statements about them (warnings, parent-guide).

    Rows that cannot be read are counted and kept with their reason; a row that is there already is left as it is.
    """
    from tqdm import tqdm

    from saferec_builder import sources, store, tables
    from saferec_builder.errors import UsageError

    ws = store.open_workspace(folder)
    if source is Source.demo and not ws.config.demo:
        raise UsageError("source demo has invented items: only a demo workspace takes them (saferec-build demo)")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file")
    table = tables.WARNINGS if source in (Source.warnings, Source.parent_guide) else tables.CATALOG_ROWS
    files = tqdm(list(dict.fromkeys(paths)), "catalog", unit="file", disable=None)
    read = sources.together(map(_reader(source), files), table.schema)
    added = store.append(ws, table, read.rows)
    drops = read.drops.sort("place", "reason")
    store.append(ws, tables.DROPS, drops)
    figures = read.figures | _figures(ws, read.rows if table is tables.WARNINGS else None)
    say(Counts("catalog add", added, read.rows.height - added, sources.reasons(drops), figures), as_json)


def _reader(source: Source) -> Any:
    from saferec_builder.sources import items_csv, items_demo, movielens, parent_guide, redial_items, warnings_csv

    return {
        Source.movielens: movielens.read,
        Source.redial: redial_items.read,
        Source.csv: items_csv.read,
        Source.demo: items_demo.read,
        Source.warnings: warnings_csv.read,
        Source.parent_guide: parent_guide.read,
    }[source]


def _figures(ws: Any, warnings: Any) -> dict[str, int]:
    """How many items the catalog has now and, of warnings just read, how many speak of no item or to no trait."""
    from saferec_builder import catalog, store, tables

    items, links = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    if warnings is None:
        return {"items": items.height}
    unasked = catalog.unasked(warnings, _taxonomy(ws))
    met = catalog.statements(items, links, warnings)["warning"].n_unique()
    return {"items": items.height, "no_item_yet": warnings.height - met, "topic_no_trait_asks_about": unasked}


def _taxonomy(ws: Any) -> Any:
    from saferec_builder import traits

    path = ws.config.taxonomy.path
    return traits.load(ws.root / path if path else None)


@app.command()
def check(
    title: Annotated[str, typer.Argument(help='An item: "Title (Year)".')],
    trait: Annotated[str, typer.Option(help="Slug of the sensitivity.", show_default=False)],
    domain: Annotated[Domain | None, typer.Option(help="Where a film and a game share a title.")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Does this item break this trait: violated, clear or unknown; with the risk and every source of it.

    A title that the catalog does not hold, or holds twice, is unknown.
    """
    from saferec_builder import catalog, store, tables

    ws = store.open_workspace(folder)
    asked = _taxonomy(ws)[trait]
    items, links = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    warnings = store.read(ws, tables.WARNINGS)
    found = catalog.judged(title, domain and domain.value, asked, items, links, warnings, rule=ws.config.rule)
    if as_json:
        say(Counts("catalog check", skipped=1, figures=found), as_json)
        return
    for line in _told(found):
        typer.echo(line)


def _told(found: dict[str, Any]) -> list[str]:
    """The answer for a person who reads: one line each for item, match, trait, risk, verdict and every source."""
    risk = "not known" if found["risk"] is None else f"{found['risk']:.3f}"
    names = [f"  candidate  {c['title']} [{c['domain']}]" for c in found["candidates"]]
    lines = [f"{name:8} {found[name]}" for name in ("match", "trait")]
    return [
        f"item     {found['title'] or 'none'}",
        *lines,
        *names,
        f"risk     {risk}",
        f"verdict  {found['verdict']}",
        *(f"  source   {_statement(s)}" for s in found["sources"]),
    ]


def _statement(said: dict[str, Any]) -> str:
    votes = f"{said['yes'] or 0} yes, {said['no'] or 0} no" if said["yes"] is not None or said["no"] is not None else ""
    severity = None if said["severity"] is None else ("none", "mild", "moderate", "severe")[said["severity"]]
    parts = [votes, said["answer"], severity, said["source"], said["url"], said["retrieved"]]
    return f"{said['topic']}: " + " · ".join(p for p in parts if p)
