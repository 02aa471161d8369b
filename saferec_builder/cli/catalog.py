"""catalog: items and warnings into the workspace; what the oracle says of them is in cli/catalog_check.py."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli import catalog_check as oracle
from saferec_builder.cli.output import PLAIN, Folder, Json, say
from saferec_builder.core.counts import Counts

app = typer.Typer(no_args_is_help=True, **PLAIN)
KEY = "DDD_API_KEY"


class Source(StrEnum):
    movielens = "movielens"
    redial = "redial"
    imdb = "imdb"
    esrb = "esrb"
    ddd = "ddd"
    csv = "csv"
    demo = "demo"
    warnings = "warnings"
    parent_guide = "parent-guide"


class Site(StrEnum):
    ddd = "ddd"


@app.command()
def add(
    source: Annotated[Source, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files; a folder for movielens or ddd.", metavar="PATH...")],
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Add items (movielens, redial, imdb, csv, demo), statements on them (warnings, parent-guide), or both (ddd, esrb).

    Rows that cannot be read are counted and kept with their reason; a row that is there already is left as it is.
    """
    from tqdm import tqdm

    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    if source is Source.demo and not ws.config.demo:
        raise UsageError("source demo has invented items: only a demo workspace takes them (saferec-build demo)")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file")
    files = tqdm(list(dict.fromkeys(paths)), "catalog", unit="file", disable=None)
    read = _reader(source)
    say(_added(ws, "catalog add", [part for path in files for part in read(path)]), as_json)


def _reader(source: Source) -> Any:
    """path -> [(table, what was read for it)]."""
    from saferec_builder.sources import (
        ddd,
        esrb,
        imdb_titles,
        items_csv,
        items_demo,
        movielens,
        parent_guide,
        redial_items,
        warnings_csv,
    )
    from saferec_builder.storage import tables

    items: dict[Source, Any] = {
        Source.movielens: movielens.read,
        Source.redial: redial_items.read,
        Source.imdb: imdb_titles.read,
        Source.csv: items_csv.read,
        Source.demo: items_demo.read,
    }
    warnings: dict[Source, Any] = {Source.warnings: warnings_csv.read, Source.parent_guide: parent_guide.read}
    if source in items:
        return lambda path: [(tables.CATALOG_ROWS, items[source](path))]
    if source in warnings:
        return lambda path: [(tables.WARNINGS, warnings[source](path))]
    both: dict[Source, Any] = {Source.esrb: esrb.read, Source.ddd: ddd.read}

    def read(path: Path) -> list[Any]:
        found = both[source](path)
        return [(tables.CATALOG_ROWS, found.items), (tables.WARNINGS, found.warnings)]

    return read


def _added(ws: Any, command: str, parts: list[Any]) -> Counts:
    """Appends what was read and counts it: rows of both tables together."""
    from collections import Counter

    from saferec_builder import sources
    from saferec_builder.storage import tables, workspace as store

    rows = added = 0
    dropped: Counter[str] = Counter()
    such: dict[str, str] = {}
    figures: dict[str, Any] = {}
    for table in (tables.CATALOG_ROWS, tables.WARNINGS):
        reads = [read for kind, read in parts if kind is table]
        read = sources.together(reads, table.schema)
        rows, added = rows + read.rows.height, added + store.append(ws, table, read.rows)
        store.append(ws, tables.DROPS, read.drops.sort("place", "reason"))
        dropped.update(sources.reasons(read.drops))
        such = sources.examples(read.drops) | such
        figures |= read.figures if reads else {}
        if reads:
            figures |= _figures(ws, read.rows if table is tables.WARNINGS else None)
    return Counts(command, added, rows - added, dict(sorted(dropped.items())), figures, such)


def _figures(ws: Any, warnings: Any) -> dict[str, Any]:
    """How many items the catalog has now and, of warnings just read, how many speak of no item or to no trait.

    Both with the first few of them: another spelling of a title or a question is seen, not guessed.
    """
    from saferec_builder import catalog, sources
    from saferec_builder.storage import tables, workspace as store

    rows = store.read(ws, tables.CATALOG_ROWS)
    items, links = catalog.merge(rows)
    if warnings is None:
        conflicts = (catalog.merges(rows)["by"] == catalog.ID_CONFLICT).sum()
        return {"items": items.height} | ({"id_conflicts": int(conflicts)} if conflicts else {})
    unasked = catalog.unasked(warnings, ws.taxonomy)
    lost = warnings.join(catalog.meant(items, links, warnings), "warning", "anti", maintain_order="left")
    figures: dict[str, Any] = {"items": items.height}
    for name, such, rows, column in (
        ("no_item_yet", "such_items", lost, "ref"),
        ("topic_no_trait_asks_about", "such_topics", unasked, "topic"),
    ):
        first = rows[column].unique(maintain_order=True).head(3)
        figures |= {name: rows.height} | ({such: [sources.readable(f, 80) for f in first]} if rows.height else {})
    return figures


@app.command()
def apart(
    row: Annotated[str, typer.Argument(help="A row as `catalog merges` names it, such as redial:135508.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let the row merge again.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Keep a row of a source out of every merge: the item that it was wrongly part of is told from it."""
    from saferec_builder import catalog
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    rows = store.read(ws, tables.CATALOG_ROWS)
    ruled = catalog.ruling(rows, row, apart=not undo)
    if catalog.is_apart(rows, row) is not undo:
        say(Counts("catalog apart", skipped=1, figures={"row": row}), as_json)
        return
    added = store.append(ws, tables.CATALOG_ROWS, ruled)
    say(Counts("catalog apart", added, figures={"row": row}), as_json)


@app.command()
def fetch(
    site: Annotated[Site, typer.Argument(help="Whose API to ask.")],
    limit: Annotated[int, typer.Option(help="How many items to ask for.", min=1)] = 100,
    pause: Annotated[float, typer.Option(help="Seconds between two requests.", min=0)] = 1.0,
    base: Annotated[str | None, typer.Option(help="Address of the API.", show_default="the site's own")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Ask DoesTheDogDie for the items that matter most (catalog gaps), with your key in DDD_API_KEY.

    Each answer is kept in fetched/ddd before the next is asked, and added to the catalog; run it again to go on.
    """
    import os

    from tqdm import tqdm

    from saferec_builder.core.errors import UsageError
    from saferec_builder.sources import ddd_api as fetch
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    if not os.environ.get(KEY):
        raise UsageError(f"{KEY} is not set: your key stands in your profile on {fetch.SITE}")
    asked = fetch.Site(os.environ[KEY], base or fetch.SITE, pause)
    kept = ws.root / "fetched" / site.value
    kept.mkdir(parents=True, exist_ok=True)
    wanted = oracle.missing(ws)
    todo = [item for item in wanted.to_dicts() if not (kept / f"{item['item']}.json").exists()][:limit]
    absent = 0
    try:
        for item in tqdm(todo, "fetch", unit="item", disable=None):
            absent += not _kept(kept / f"{item['item']}.json", fetch.media(asked, item), item["refs"])
    finally:  # what came before a failure counts
        counts = _added(ws, "catalog fetch", _reader(Source.ddd)(kept))
        figures = {"asked": len(todo), "not_on_the_site": absent, "requests": asked.asked}
        say(replace(counts, figures={**counts.figures, **figures}), as_json)


def _kept(path: Path, media: dict[str, Any] | None, refs: list[str]) -> bool:
    """Writes an answer, or that there is none, so that the item is not asked for again.

    An answer that may be another work's is kept under its own name, without the ids of the item that was asked for.
    """
    import json
    from datetime import UTC, datetime

    from saferec_builder.storage import workspace as store

    today = datetime.now(UTC).date().isoformat()
    ids = [ref for ref in refs if ref.startswith(("imdb:", "tmdb:"))] if media and media["exact"] else []
    saved = {"retrieved": today, "ids": ids, "media": media} if media else {"retrieved": today, "absent": True}
    with store.replacing(path) as tmp:
        tmp.write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")
    return media is not None


for command in (oracle.check, oracle.show, oracle.gaps, oracle.merges):
    app.command()(command)
