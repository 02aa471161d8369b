"""Items and warnings from files, and from DoesTheDogDie's API, into the workspace; people's rulings on merges.

gives  new rows of catalog_rows, warnings and drops; answers of the API in fetched/ddd
"""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from saferec_builder import sources
from saferec_builder.catalog import known_works, merging, verdicts
from saferec_builder.catalog.linking import index
from saferec_builder.core.counts import Counts, many
from saferec_builder.core.errors import SafeRecError, SourceError, UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Bar, Progress, counted, shown
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.sources import (
    Read,
    doesthedogdie as ddd,
    doesthedogdie_api as ddd_api,
    esrb,
    headers,
    imdb_titles,
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
SILENT = ("no rule", "no clear answer", "no votes", "same id", item_rows.AGAIN)  # of rows that are as they should be
MANY = 5  # reasons of one file that are told
REMARKS = (sources.NOT_READ, rating_reasons.SEVERAL, items_csv.SHARED)  # told, and no rows that were dropped
_STEPS = ("tables", "items")  # of catalog add after the files: written, merged
Parts = list[tuple[tables.Table, Read]]  # the table that it is for, what was read


def add_catalog(
    ws: Workspace, source: str, paths: Sequence[Path | str] | Path | str, *, progress: Progress | None = None
) -> Counts:
    """Appends what files (a folder for movielens or ddd) of one of `Source` hold; rows that are there stay as they are.

    UsageError: no such source or file; SourceError: a file that is not of its kind (of another source's, it names that
    one), or gives nothing (the others are added). Rows that cannot be used are drops.
    """
    if source not in list(Source):
        raise UsageError(f"catalog add {source}: no such source: {near(source, Source)}")
    if source == Source.demo and not ws.config.demo:
        raise UsageError("source demo has invented items: only a demo workspace takes them (saferec-build demo)")
    files = list(dict.fromkeys(map(Path, [paths] if isinstance(paths, Path | str) else paths)))
    if missing := [path for path in files if not path.exists()]:
        raise UsageError(f"{missing[0]}: no such file")
    empty = not workspace.count(ws, tables.CATALOG_ROWS)
    with shown(len(files) + len(_STEPS), progress) as bar:
        read = {}
        for path in files:
            read[path] = _read_own(Source(source), path)
            bar.update()
        if source == Source.csv:
            read = _named_apart(ws, read)
        refused = {path: why for path, parts in read.items() if (why := _unread(parts))}
        counts = _append(ws, "catalog add", [part for path in read if path not in refused for part in read[path]], bar)
    mined, late = workspace.count(ws, tables.CONVERSATIONS) if empty and counts.added else 0, ""
    if mined:
        read_before = many(mined, "conversation was", "conversations were")
        late = f"{read_before} read without it: delete tables/conversations, and mine all files again"
        counts = replace(counts, figures={**counts.figures, "mined_before_the_catalog": late})
    if refused:
        names = ", ".join(map(str, refused))
        rest = (
            f" (of the other files {many(counts.added, 'row was', 'rows were')} added{f'; {late}' if late else ''})"
            if counts.came
            else ""
        )
        why = next(iter(refused.values()))
        raise SourceError(f"catalog add {source}: nothing of {names} was added: {why}: mend it, and add it again{rest}")
    return counts


def _unread(parts: Parts) -> str | None:
    """Why a file gave nothing at all, if so: the commonest reasons, each with its first row; None where its rows only
    say nothing that a trait asks about."""
    drops = pl.concat(read.drops for _, read in parts).filter(~pl.col("reason").is_in([*SILENT, *REMARKS]))
    if drops.is_empty() or any(read.rows.height for _, read in parts):
        return None
    examples = sources.examples(drops)
    each = sorted(sources.reasons(drops).items(), key=lambda pair: -pair[1])
    told = "; ".join(f"{rows:,} as {why!r}, such as {examples[why]}" for why, rows in each[:MANY])
    return f"{drops.height:,} rows were dropped: {told}"


def noun(source: str) -> str:
    """What is counted in and out: of a row several statements may be made, or none."""
    if source in WARNINGS:
        return "statements"
    return "items and statements" if source in BOTH else "rows"


def _read_own(source: Source, path: Path) -> Parts:
    """What a file gives; SourceError with the right source where it lacks the columns of this one, or has many rows
    of an item, as another's has. Where it has the columns of both it is read, and the other is a remark."""
    others = headers.others(source, path)
    try:
        parts = _read(source, path)
    except SourceError as fault:
        raise SourceError(f"{fault}; {headers.advice(others, path)}" if others else str(fault)) from None
    if source not in ITEMS or not others:
        return [(table, _advised(read, others, path)) for table, read in parts]
    many = [mark for mark in others if mark.many]
    if many and any(_repeats(read) for _, read in parts):
        raise SourceError(f"{path}: {source} reads a row per item: {headers.advice(many, path)}")
    return [(table, _advised(_remarked(read, source, path), others, path)) for table, read in parts]


def _named_apart(ws: Workspace, read: dict[Path, Parts]) -> dict[Path, Parts]:
    """Tables of one's own, without the ids that a row with another title has: of the catalog, or of a table before."""
    held = workspace.read(ws, tables.CATALOG_ROWS).filter(source=items_csv.SOURCE)
    named: dict[Path, Parts] = {}
    for path, parts in read.items():
        named[path] = [(table, items_csv.apart_from(one, held, path.name)) for table, one in parts]
        held = pl.concat([held, *(one.rows for _, one in named[path])])
    return named


def _repeats(read: Read) -> bool:
    """Whether at least half of the rows name an item again: of what has a row per item few do."""
    again = read.drops.filter(reason="same id").height
    return again > 0 and again >= read.rows.height


def _remarked(read: Read, source: Source, path: Path) -> Read:
    """With a remark on the header, where the reader has none for it passes over columns that it does not know."""
    if (read.drops["reason"] == sources.NOT_READ).any():
        return read
    remark = sources.drop(item_rows.STAGE, source, f"{path.name}:1", sources.NOT_READ, "another source reads some")
    return replace(read, drops=pl.concat([tables.DROPS.frame([remark]), read.drops]))


def _advised(read: Read, others: Sequence[headers.Mark], path: Path) -> Read:
    """Where columns are not read that another source reads, the remark on them names it."""
    if not others:
        return read
    told = pl.when(pl.col("reason") == sources.NOT_READ).then(
        pl.concat_str("detail", pl.lit(f"; {headers.advice(others, path)}"))
    )
    return replace(read, drops=read.drops.with_columns(detail=told.otherwise("detail")))


def _read(source: Source, path: Path) -> Parts:
    if source in ITEMS:
        return [(tables.CATALOG_ROWS, ITEMS[source](path))]
    if source in WARNINGS:
        return [(tables.WARNINGS, WARNINGS[source](path))]
    found = BOTH[source](path)
    return [(tables.CATALOG_ROWS, found.items), (tables.WARNINGS, found.warnings)]


def _append(ws: Workspace, command: str, parts: Parts, bar: Bar) -> Counts:
    """Appends what was read and counts it: rows of both tables together. `bar` goes on by _STEPS."""
    rows = added = more = 0
    of = {kind.name for kind, _ in parts}
    items, said = (
        sources.together((read for kind, read in parts if kind is table), table.schema)
        for table in (tables.CATALOG_ROWS, tables.WARNINGS)
    )
    for table, found in ((tables.CATALOG_ROWS, items), (tables.WARNINGS, said)):
        new = workspace.append(ws, table, found.rows)
        rows, added, more = rows + found.rows.height, added + new, new if table is tables.CATALOG_ROWS else more
    remark = pl.col("reason").is_in(REMARKS)
    told = pl.concat(found.drops for found in (items, said))
    drops, remarks = told.filter(~remark), told.filter(remark)
    workspace.append(ws, tables.DROPS, drops.sort("place", "reason"))
    bar.update()
    figures: dict[str, JsonValue] = {}
    if parts:
        catalog = workspace.read(ws, tables.CATALOG_ROWS)
        merged = merging.merge(catalog)
        figures |= {**items.figures, **_of_items(catalog, merged[0])} if tables.CATALOG_ROWS.name in of else {}
        figures |= _lost(ws, catalog.head(catalog.height - more), merged) if more else {}
        figures |= {**said.figures, **_of_warnings(ws, said.rows, merged)} if tables.WARNINGS.name in of else {}
        bar.update()
    figures |= {_figure(why): n for why, n in sources.reasons(remarks).items()}
    examples = sources.examples(drops) | {_figure(why): such for why, such in sources.examples(remarks).items()}
    dropped = dict(sorted(sources.reasons(drops).items()))
    return Counts(command, added, rows - added, dropped, figures, examples)


def _figure(remark: str) -> str:
    return remark.replace(" ", "_")


def _of_items(rows: pl.DataFrame, items: pl.DataFrame) -> dict[str, JsonValue]:
    """How many items the catalog has now, how many ids two of them claim, and which may be another one undated."""
    conflicts = int((merging.merges(rows)["by"] == merging.ID_CONFLICT).sum())
    figures: dict[str, JsonValue] = {"items": items.height, **({"id_conflicts": conflicts} if conflicts else {})}
    for title, *pair in (twins := known_works.undated_twins(items)).head(1).iter_rows():
        one_of_them = f"such as {title!r}: where it is one work, `saferec-build catalog join {shlex.join(pair)}`"
        figures["undated_under_a_title_of_another"] = f"{twins.height:,}, {one_of_them} makes one item of two"
    return figures


def _lost(ws: Workspace, before: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]) -> dict[str, JsonValue]:
    """How many statements named an item of the catalog as it was `before`, and name none now."""
    said = workspace.read(ws, tables.WARNINGS) if before.height else tables.WARNINGS.empty
    open_ = said.join(verdicts.meant(*merged, said), "warning", "anti", maintain_order="left")
    if open_.is_empty():
        return {}
    lost = open_.join(verdicts.meant(*merging.merge(before), open_), "warning", "semi", maintain_order="left")
    if lost.is_empty():
        return {}
    such = f"{lost.height:,}, such as of {sources.readable(lost['ref'][0], 80)}: two items have this id or title"
    return {"statements_that_lost_their_item": f"{such} (`saferec-build catalog merges --conflicts`)"}


def _of_warnings(
    ws: Workspace, warnings: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]
) -> dict[str, JsonValue]:
    """How many items the catalog has, and how many of the statements just read speak of no item or to no trait.

    Both with the first few of them: another spelling of a title or a question is asked back, not guessed. Of keywords
    and reasons, that they clear nothing: who adds no other statements has no item to recommend to anybody with a trait.
    """
    items, links = merged
    lost = warnings.join(verdicts.meant(items, links, warnings), "warning", "anti", maintain_order="left")
    figures: dict[str, JsonValue] = {"items": items.height}
    if warnings.height and set(warnings["kind"]) <= {"keyword", "tag", "reason"}:
        figures["clears"] = "no item: a film of which they say nothing may have it all the same"
    figures["on_no_item_here"] = lost.height
    if lost.height:
        figures["such_items"] = [sources.readable(ref, 80) for ref in _first(lost["ref"])]
    figures |= _replaced(ws, warnings, merged)
    unasked = verdicts.unasked(warnings, ws.taxonomy)["topic"]
    figures["on_what_no_trait_asks"] = len(unasked)
    if len(unasked):
        figures["such_topics"] = [_asked_back(topic, ws.taxonomy) for topic in _first(unasked)]
    return figures


def _replaced(ws: Workspace, warnings: pl.DataFrame, merged: tuple[pl.DataFrame, pl.DataFrame]) -> dict[str, JsonValue]:
    """How many of the statements just read do not count, for the catalog has one in their place: a newer one, or where
    they were there before without a date, one that was added later."""
    dated = pl.col("kind").is_in(["topic", "guide"])
    if (read := warnings.filter(dated)).is_empty():
        return {}
    every = workspace.read(ws, tables.WARNINGS).filter(dated)
    by_title = index(merged[0]) if every["ref"].str.starts_with("title:").any() else None
    count = verdicts.statements(*merged, every, by_title)
    late = read.join(count, "warning", "anti", maintain_order="left")
    late = late.join(verdicts.meant(*merged, late, by_title), "warning", "semi", maintain_order="left")
    for topic, ref in late.select("topic", "ref").head(1).iter_rows():
        such = f"{late.height:,}, such as {sources.readable(topic, 80)!r} of {sources.readable(ref, 80)}"
        return {"another_counts_instead": f"{such}: if it holds again, add it with a newer `retrieved`"}
    return {}


def _first(names: pl.Series) -> list[str]:
    return names.unique(maintain_order=True).head(3).to_list()


def _asked_back(topic: str, taxonomy: Taxonomy) -> str:
    """A topic that no trait asks about, with the one that is spelt nearly so."""
    known = dict(zip(verdicts.keys(taxonomy.topics), taxonomy.topics, strict=True))
    near = get_close_matches(verdicts.keys([topic])[0][:80], known, 1, 0.85)
    return sources.readable(topic, 80) + (f' (did you mean "{known[near[0]]}"?)' if near else "")


def keep_apart(ws: Workspace, row: str, *, undo: bool = False) -> Counts:
    """Keeps a row of a source (`redial:135508`, as lookup.merges names it) out of every merge, or lets it merge again.

    UsageError: the catalog has no such row.
    """
    return _ruled(ws, "catalog apart", [row], undo)


def join_rows(ws: Workspace, row: str, other: str, *, undo: bool = False) -> Counts:
    """Makes one item of two rows, whatever keeps them apart (an id conflict, two IMDb ids), or takes that back.

    UsageError: the catalog has no such row, or both are one.
    """
    if row == other:
        raise UsageError(f"{row!r} twice: expected two rows of the catalog")
    return _ruled(ws, "catalog join", [row, other], undo)


def _ruled(ws: Workspace, command: str, refs: list[str], undo: bool) -> Counts:
    ruled = merging.ruling(workspace.read(ws, tables.CATALOG_ROWS), refs, undo=undo)
    figures: dict[str, JsonValue] = {"row": refs[0], **({"other": refs[1]} if len(refs) > 1 else {})}
    if ruled is None:
        return Counts(command, skipped=1, figures=figures)
    return Counts(command, workspace.append(ws, tables.CATALOG_ROWS, ruled), figures=figures)


@dataclass(frozen=True)
class FetchResult:
    """What was added, and what stopped the site from being asked on; what came before it is kept."""

    counts: Counts
    fault: str | None


def answers(ws: Workspace) -> Path:
    """The folder of what DoesTheDogDie answered, a file for each item that it was asked for."""
    return ws.root / "fetched" / "ddd"


def ask(ws: Workspace, site: ddd_api.Site, todo: pl.DataFrame, progress: Progress | None = None) -> FetchResult:
    """Asks DoesTheDogDie for the items `todo` (gaps.GAPS), and adds what it answers, whatever stops the run."""
    (folder := answers(ws)).mkdir(parents=True, exist_ok=True)
    items = cast("list[ddd_api.Asked]", todo.to_dicts())
    known = dict(merging.merge(workspace.read(ws, tables.CATALOG_ROWS))[0].select("item", "aliases").iter_rows())
    asked, absent, fault = 0, 0, None
    try:
        for item in counted(items, progress):
            asked += 1
            answer = ddd_api.media(site, item, partial(_agrees, item, known[item["item"]]))
            absent += not save_answer(folder / f"{item['item']}.json", answer, item["refs"])
    except SafeRecError as stopped:
        fault = str(stopped)
    finally:  # what came before a failure counts
        counts = _append(ws, "catalog fetch", _read(Source.ddd, folder), shown(0, None))
    figures = {"asked": asked, "not_on_the_site": absent, "requests": site.asked}
    left = {"not_asked_yet": len(items) - asked} if fault else {}
    return FetchResult(replace(counts, figures={**counts.figures, **figures, **left}), fault)


def _agrees(item: ddd_api.Asked, aliases: list[str], title: str, year: int | None, domain: str) -> bool:
    """Whether the site's item is ours: else it would share our id, and stay another item (merging.agree)."""
    ours = {**item, "aliases": aliases, "source": None}
    theirs = {"title": title, "year": year, "domain": domain, "aliases": None, "source": ddd.SOURCE}
    return merging.agree(cast("merging.Row", ours), cast("merging.Row", theirs))


def save_answer(path: Path, media: sources.Row | None, refs: list[str]) -> bool:
    """Writes an answer, or that there is none, so that the item is not asked for again.

    An answer that may be another work's is kept under its own name, without the ids of the item that was asked for.
    """
    today = datetime.now(UTC).date().isoformat()
    ids = [ref for ref in refs if ref.startswith(("imdb:", "tmdb:"))] if media and media["exact"] else []
    saved = {"retrieved": today, "ids": ids, "media": media} if media else {"retrieved": today, "absent": True}
    with whole_files.replacing(path) as tmp:
        tmp.write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")
    return media is not None
