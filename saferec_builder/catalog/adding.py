"""Adds items and warnings from files and DoesTheDogDie's API to the workspace.

gives  new rows of catalog_rows, warnings and drops; the API's answers in fetched/ddd
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from saferec_builder import sources
from saferec_builder.catalog import consequences, merging, same_work
from saferec_builder.core.counts import Counts, many
from saferec_builder.core.errors import SafeRecError, SourceError, UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Bar, Progress, counted, shown
from saferec_builder.sources import (
    Read,
    doesthedogdie as ddd,
    doesthedogdie_api as ddd_api,
    esrb,
    headers,
    imdb_titles,
    input_files,
    item_rows,
    items_csv,
    items_demo,
    keywords,
    movielens,
    parent_guide,
    rating_reasons,
    redial_items,
    warnings_csv,
)
from saferec_builder.sources.item_rows import Both, Source
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

ITEMS: dict[Source, Callable[[Path], Read]] = {
    Source.movielens: movielens.read,
    Source.redial: redial_items.read,
    Source.imdb: imdb_titles.read,
    Source.csv: items_csv.read,
    Source.demo: items_demo.read,
}
WARNINGS: dict[Source, Callable[[Path], Read]] = {
    Source.warnings: warnings_csv.read,
    Source.parent_guide: parent_guide.read,
    Source.rating_reasons: rating_reasons.read,
    Source.keywords: keywords.read,
}
BOTH: dict[Source, Callable[[Path], Both]] = {Source.esrb: esrb.read, Source.ddd: ddd.read}
SILENT = ("no rule", "no clear answer", "no votes", "same id", item_rows.AGAIN)  # reasons of drops that are no fault
MANY = 5  # reasons that an error lists per file
# reasons of remarks: no row was dropped
REMARKS = (sources.NOT_READ, item_rows.NO_DATE, rating_reasons.SEVERAL, items_csv.SHARED)
_STEPS = ("tables", "items")  # of `catalog add` after reading the files: write the tables, merge
Parts = list[tuple[tables.Table, Read]]  # (table, what was read for it)


def add_catalog(
    ws: Workspace, source: str, paths: Sequence[Path | str] | Path | str, *, progress: Progress | None = None
) -> Counts:
    """Appends the rows of files (a folder for movielens or ddd) of a `Source`; existing rows stay as they are.

    Raises UsageError for an unknown source or missing file; SourceError for a file of another kind (it names the source
    that fits, if any), or for one that gives no rows (the other files are added). Unusable rows become drops.
    """
    if source not in list(Source):
        raise UsageError(f"catalog add {source}: no such source: {near(source, Source)}")
    if source == Source.demo and not ws.config.demo:
        raise UsageError("source demo has invented items: only a demo workspace takes them (saferec-build demo)")
    files = list(dict.fromkeys(map(Path, [paths] if isinstance(paths, Path | str) else paths)))
    if missing := [path for path in files if not path.exists()]:
        raise UsageError(f"{missing[0]}: no such file")
    was_empty = not workspace.count(ws, tables.CATALOG_ROWS)
    with shown(len(files) + len(_STEPS), progress) as bar:
        read = {}
        for path, place in input_files.places(files):
            parts = _read_checked(Source(source), path)
            read[path] = [(table, input_files.placed(part, place)) for table, part in parts]
            bar.update()
        if source == Source.csv:
            read = _with_distinct_ids(ws, read)
        refused = {path: reason for path, parts in read.items() if (reason := _why_no_rows(source, parts))}
        counts = _append(ws, "catalog add", [part for path in read if path not in refused for part in read[path]], bar)
    if source == Source.ddd and (folders := [path for path in files if path.is_dir()]):
        taken = [file for folder in folders for file in ddd.files_of(folder)]
        files_read = {"files_read": len(taken), **input_files.passed_by(folders, taken)}
        counts = replace(counts, figures={**files_read, **counts.figures})
    mined, remedy = workspace.count(ws, tables.CONVERSATIONS) if was_empty and counts.added else 0, ""
    if mined:
        mined_texts = many(mined, "conversation was", "conversations were")
        remedy = f"{mined_texts} read without it: delete tables/conversations, and mine all files again"
        counts = replace(counts, figures={**counts.figures, "mined_before_the_catalog": remedy})
    if refused:
        names = ", ".join(map(str, refused))
        others = f"of the other files {many(counts.added, 'row was', 'rows were')} added"
        rest = f" ({'; '.join(filter(None, (others, remedy)))})" if counts.came else ""
        reason = next(iter(refused.values()))
        raise SourceError(
            f"catalog add {source}: nothing of {names} was added: {reason}: mend it, and add it again{rest}"
        )
    return counts


def _why_no_rows(source: str, parts: Parts) -> str | None:
    """Why a file gave no rows: it has none, or the commonest reasons, each with its first row, or all of it is in
    another encoding. None if it gave some, or if its rows only say nothing that a trait asks about."""
    drops = pl.concat(read.drops for _, read in parts).filter(~pl.col("reason").is_in(REMARKS))
    if any(read.rows.height for _, read in parts):
        bad = drops.filter(reason=sources.NOT_UTF8)["place"]
        beyond_ascii = pl.any_horizontal(pl.col(pl.String).exclude("place").str.contains(r"[^\x00-\x7F]"))
        if bad.is_empty() or any(read.rows.select(beyond_ascii.any()).item() for _, read in parts):
            return None  # a few rows at most are wrong
        return f"{bad[0]}: not UTF-8, nor is any other letter beyond ASCII: save the file in UTF-8"
    if drops.is_empty():
        return f"no row in it: expected {noun(source)}"
    if (drops := drops.filter(~pl.col("reason").is_in(SILENT))).is_empty():
        return None
    examples = sources.examples(drops)
    counts = sorted(sources.reasons(drops).items(), key=lambda pair: -pair[1])
    listed = "; ".join(f"{rows:,} as {reason!r}, such as {examples[reason]}" for reason, rows in counts[:MANY])
    return f"{many(drops.height, 'row was', 'rows were')} dropped: {listed}"


def noun(source: str) -> str:
    """The unit of the counts: one row of a file may make several statements, or none."""
    if source in WARNINGS:
        return "statements"
    return "items and statements" if source in BOTH else "rows"


def _read_checked(source: Source, path: Path) -> Parts:
    """Reads a file. Raises SourceError with the right source if the file lacks the columns of this one, or repeats
    items as files of the other do. A file with the columns of both is read, with a remark on the other source."""
    others = headers.others(source, path)
    try:
        parts = _read(source, path)
    except SourceError as fault:
        raise SourceError(f"{fault}; {headers.advice(others, path)}" if others else str(fault)) from None
    if source not in ITEMS or not others:
        return [(table, _with_advice(read, others, path)) for table, read in parts]
    repeating = [mark for mark in others if mark.many]
    repeated = [(read.drops.filter(reason="same id").height, read.rows.height) for _, read in parts]
    if repeating and any(0 < again >= kept for again, kept in repeated):  # few do in a table with a row per item
        raise SourceError(f"{path}: {source} reads a row per item: {headers.advice(repeating, path)}")
    # the reader made no remark on the header if it ignores columns that it does not know
    remark = sources.drop(item_rows.STAGE, source, f"{path.name}:1", sources.NOT_READ, "another source reads some")
    for n, (table, read) in enumerate(parts):
        if not (read.drops["reason"] == sources.NOT_READ).any():
            read = replace(read, drops=pl.concat([tables.DROPS.frame([remark]), read.drops]))
        parts[n] = table, _with_advice(read, others, path)
    return parts


def _with_distinct_ids(ws: Workspace, parts_by_path: dict[Path, Parts]) -> dict[Path, Parts]:
    """Gives rows of source csv an id by title where the catalog, or an earlier file, has their id for another title."""
    earlier = workspace.read(ws, tables.CATALOG_ROWS).filter(source=items_csv.SOURCE)
    distinct: dict[Path, Parts] = {}
    for path, parts in parts_by_path.items():
        distinct[path] = [(table, items_csv.apart_from(read, earlier, path.name)) for table, read in parts]
        earlier = pl.concat([earlier, *(read.rows for _, read in distinct[path])])
    return distinct


def _with_advice(read: Read, others: Sequence[headers.Mark], path: Path) -> Read:
    """Adds to the remark on unread columns which other source reads them."""
    if not others:
        return read
    detail = pl.when(pl.col("reason") == sources.NOT_READ).then(
        pl.concat_str("detail", pl.lit(f"; {headers.advice(others, path)}"))
    )
    return replace(read, drops=read.drops.with_columns(detail=detail.otherwise("detail")))


def _read(source: Source, path: Path) -> Parts:
    if source in ITEMS:
        return [(tables.CATALOG_ROWS, ITEMS[source](path))]
    if source in WARNINGS:
        return [(tables.WARNINGS, WARNINGS[source](path))]
    both = BOTH[source](path)
    return [(tables.CATALOG_ROWS, both.items), (tables.WARNINGS, both.warnings)]


def _append(ws: Workspace, command: str, parts: Parts, bar: Bar) -> Counts:
    """Appends what was read, and counts the rows of both tables together. Advances `bar` by _STEPS."""
    names = {target.name for target, _ in parts}
    items, warnings = (
        sources.together((read for target, read in parts if target is table), table.schema)
        for table in (tables.CATALOG_ROWS, tables.WARNINGS)
    )
    fresh = workspace.append(ws, tables.CATALOG_ROWS, items.rows)
    added = fresh + workspace.append(ws, tables.WARNINGS, warnings.rows)
    remark = pl.col("reason").is_in(REMARKS)
    all_drops = pl.concat(read.drops for read in (items, warnings))
    drops, remarks = all_drops.filter(~remark), all_drops.filter(remark)
    workspace.append(ws, tables.DROPS, drops.sort("place", "reason"))
    bar.update()
    figures: dict[str, JsonValue] = {}
    noted: consequences.Noted = {}
    if parts:
        catalog = workspace.read(ws, tables.CATALOG_ROWS)
        merged = merging.merge(catalog)
        if tables.CATALOG_ROWS.name in names:
            merge_figures, noted = consequences.of_items(catalog, merged, items.rows)
            figures |= {**items.figures, **merge_figures}
        noted |= consequences.lost(ws, catalog.head(catalog.height - fresh), merged) if fresh else {}
        if tables.WARNINGS.name in names:
            figures |= {**warnings.figures, **consequences.of_statements(ws, warnings.rows, merged)}
            noted |= consequences.contested(catalog, merged[1], warnings.rows)
            noted |= consequences.replaced(ws, warnings.rows, merged)
        bar.update()
    figures |= {name: n for name, (n, _) in noted.items()}
    figures |= {_figure(reason): n for reason, n in sources.reasons(remarks).items()}
    examples: dict[str, str | list[str]] = {**sources.examples(drops)}
    examples |= {_figure(reason): row for reason, row in sources.examples(remarks).items()}
    examples |= {name: example for name, (_, example) in noted.items()}
    dropped = dict(sorted(sources.reasons(drops).items()))
    skipped = items.rows.height + warnings.rows.height - added
    return Counts(command, added, skipped, dropped, figures, examples)


def _figure(remark: str) -> str:
    return remark.replace(" ", "_")


@dataclass(frozen=True)
class FetchResult:
    """What was added, and the error that stopped the run, if any; the answers before it are kept."""

    counts: Counts
    fault: str | None


def answers(ws: Workspace) -> Path:
    """The folder of DoesTheDogDie's answers, one file per item that it was asked for."""
    return ws.root / "fetched" / "ddd"


def ask(ws: Workspace, site: ddd_api.Site, todo: pl.DataFrame, progress: Progress | None = None) -> FetchResult:
    """Asks DoesTheDogDie for the items `todo` (gaps.GAPS), and adds the answers, whatever stops the run."""
    (folder := answers(ws)).mkdir(parents=True, exist_ok=True)
    items = cast("list[ddd_api.Asked]", todo.to_dicts())
    aliases = dict(merging.merge(workspace.read(ws, tables.CATALOG_ROWS))[0].select("item", "aliases").iter_rows())
    count, absent, fault = 0, 0, None
    try:
        for item in counted(items, progress):
            count += 1
            answer = ddd_api.media(site, item, partial(_agrees, item, aliases[item["item"]]))
            absent += not save_answer(folder / f"{item['item']}.json", answer, item["refs"])
    except SafeRecError as error:
        fault = str(error)
    finally:  # the answers before a failure are added
        parts = _read(Source.ddd, folder) if any(folder.glob("*.json")) else []
        counts = _append(ws, "catalog fetch", parts, shown(0, None))
    figures = {"asked": count, "not_on_the_site": absent, "requests": site.asked}
    unasked = {"not_asked_yet": len(items) - count} if fault else {}
    return FetchResult(replace(counts, figures={**counts.figures, **figures, **unasked}), fault)


def _agrees(item: ddd_api.Asked, aliases: list[str], title: str, year: int | None, domain: str) -> bool:
    """Whether the site's item is ours; if not, it would share our id and yet be another item (same_work.agree)."""
    ours = {**item, "aliases": aliases, "source": None}
    theirs = {"title": title, "year": year, "domain": domain, "aliases": None, "source": ddd.SOURCE}
    return same_work.agree(cast("same_work.Row", ours), cast("same_work.Row", theirs))


def save_answer(path: Path, media: sources.Row | None, refs: list[str]) -> bool:
    """Writes an answer, or that the site has none, so that the item is not asked for again.

    An answer that may be another work's is saved under its own title, without the ids of the item asked for.
    """
    today = datetime.now(UTC).date().isoformat()
    ids = [ref for ref in refs if ref.startswith(("imdb:", "tmdb:"))] if media and media["exact"] else []
    saved = {"retrieved": today, "ids": ids, "media": media} if media else {"retrieved": today, "absent": True}
    with whole_files.replacing(path) as tmp:
        tmp.write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")
    return media is not None
