"""People's rulings on merges: which row is no part of an item, and which two rows are one.

gives  new rows of catalog_rows
"""

import shlex

import polars as pl

from saferec_builder.catalog import merging
from saferec_builder.core import titles
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace


def keep_apart(ws: Workspace, row: str, *, undo: bool = False) -> Counts:
    """Keeps a row of a source (`redial:135508`, as lookup.merges names it) out of every merge, or lets it merge again.

    Raises UsageError if the catalog has no such row.
    """
    return _append_ruling(ws, "catalog apart", [row], undo)


def join_rows(ws: Workspace, row: str, other: str, *, undo: bool = False) -> Counts:
    """Makes one item of two rows, whatever keeps them apart (an id conflict, two IMDb ids), or undoes that.

    Raises UsageError if the catalog has no such row, or both are the same.
    """
    if row == other:
        raise UsageError(f"{row!r} twice: expected two rows of the catalog")
    return _append_ruling(ws, "catalog join", [row, other], undo)


def _append_ruling(ws: Workspace, command: str, refs: list[str], undo: bool) -> Counts:
    rows = workspace.read(ws, tables.CATALOG_ROWS)
    ruling = merging.ruling(rows, refs, undo=undo)
    figures: dict[str, JsonValue] = {"row": refs[0], **({"other": refs[1]} if len(refs) > 1 else {})}
    if ruling is None:
        return Counts(command, skipped=1, figures={**figures, "change": "none, it was so already"})
    added = workspace.append(ws, tables.CATALOG_ROWS, ruling)
    before, after = (merging.merge(frame)[0] for frame in (rows, workspace.read(ws, tables.CATALOG_ROWS)))
    for name, items in (("it_was_part_of", before), ("it_is_part_of", after)):
        (item,) = items.filter(pl.col("refs").list.contains(refs[0])).to_dicts()
        figures[name] = f"{titles.dated(item)}, with {', '.join(item['refs'])}"
    is_apart = len(refs) == 1 and not undo
    figures["next"] = _after_apart(after, rows, refs[0]) if is_apart else "`saferec-build catalog merges`"
    return Counts(command, added, figures=figures)


def _after_apart(items: pl.DataFrame, rows: pl.DataFrame, ref: str) -> str:
    """What to do with a row that was set apart: join it with the only item of its title and nearly its year, if any."""
    row = rows.filter(pl.concat_str("source", pl.lit(":"), "source_id") == ref).row(0, named=True)
    near = items.filter(~pl.col("refs").list.contains(ref), domain=row["domain"])
    if row["year"] is not None:
        near = near.filter((pl.col("year") - row["year"]).abs() <= titles.YEARS_APART)
    name = titles.normal(row["title"])
    works = [item for item in near.to_dicts() if titles.normal(item["title"]) == name]
    if len(works) == 1:
        pair = shlex.join([ref, works[0]["refs"][0]])
        return f"if it is {titles.dated(works[0])}, `saferec-build catalog join {pair}`"
    return f"`saferec-build catalog show {shlex.quote(ref)}`"
