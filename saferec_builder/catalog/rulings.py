"""People's rulings on merges: which row is no part of an item, and which two rows are one.

gives  new rows of catalog_rows
"""

import shlex
from collections.abc import Sequence

import polars as pl

from saferec_builder.catalog import merging
from saferec_builder.catalog.merging import REF
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
    record = ruling(rows, refs, undo=undo)
    figures: dict[str, JsonValue] = {"row": refs[0], **({"other": refs[1]} if len(refs) > 1 else {})}
    if record is None:
        return Counts(command, skipped=1, figures={**figures, "change": "none, it was so already"})
    added = workspace.append(ws, tables.CATALOG_ROWS, record)
    near = _near(rows, refs)
    (before, _), (after, links) = (merging.merge(frame) for frame in (near, pl.concat([near, record])))
    for name, items in (("it_was_part_of", before), ("it_is_part_of", after)):
        for item in items.filter(pl.col("refs").list.contains(refs[0])).to_dicts():
            figures[name] = f"{titles.dated(item)}, with {', '.join(item['refs'])}"
    is_apart = len(refs) == 1 and not undo
    if is_apart and (owners := _owners_of_its_ids(rows, after, links, refs[0])):
        figures["its_ids_mean"] = owners
    figures["next"] = _after_apart(after, rows, refs[0]) if is_apart else "`saferec-build catalog merges`"
    return Counts(command, added, figures=figures)


def _near(rows: pl.DataFrame, refs: Sequence[str]) -> pl.DataFrame:
    """The rows of the titles of these and all that share an id, a title or a ruling with one: no other merges with
    them."""
    names = rows.select(ref=REF, by=pl.concat_list(REF, pl.col("refs").fill_null([]))).explode("by")
    forms = rows.select(ref=REF, by=pl.Series(map(titles.forms, rows["title"]), dtype=pl.List(pl.String))).explode("by")
    shared = pl.concat([names, forms.with_columns(by=pl.lit("title of ") + pl.col("by"))]).drop_nulls().unique()
    near = pl.Series(refs)
    size = 0
    while near.len() > size:
        size, by = near.len(), shared.filter(pl.col("ref").is_in(near.implode()))["by"]
        near = shared.filter(pl.col("by").is_in(by.implode()))["ref"].unique()
    return rows.filter(REF.is_in(near.implode()))


def _owners_of_its_ids(rows: pl.DataFrame, items: pl.DataFrame, links: pl.DataFrame, row: str) -> list[str]:
    """The ids of a row that mean another item now: "imdb:tt0078748 Alien (1979)"."""
    ids = rows.filter(row == REF)["refs"].explode().drop_nulls()
    owned = links.filter(pl.col("ref").is_in(ids.implode())).join(items, "item")
    owned = owned.filter(~pl.col("refs").list.contains(row))
    return [f"{owner['ref']} {titles.dated(owner)}" for owner in owned.to_dicts()]


def _after_apart(items: pl.DataFrame, rows: pl.DataFrame, ref: str) -> str:
    """What to do with a row that was set apart: join it with the only item of its title and nearly its year, if any."""
    for joined, word in merging.rulings(rows).items():
        if word == "joined" and ref in joined:  # a join counts before `apart`
            return f"it is still joined: `saferec-build catalog join {shlex.join(joined)} --undo`"
    row = rows.filter(ref == REF).row(0, named=True)
    near = items.filter(~pl.col("refs").list.contains(ref), domain=row["domain"])
    if row["year"] is not None:
        near = near.filter((pl.col("year") - row["year"]).abs() <= titles.YEARS_APART)
    name = titles.normal(row["title"])
    works = [item for item in near.to_dicts() if titles.normal(item["title"]) == name]
    if len(works) == 1:
        pair = shlex.join([ref, works[0]["refs"][0]])
        return f"if it is {titles.dated(works[0])}, `saferec-build catalog join {pair}`"
    return f"`saferec-build catalog show {shlex.quote(ref)}`"


def ruling(rows: pl.DataFrame, refs: Sequence[str], *, undo: bool) -> pl.DataFrame | None:
    """Returns the CATALOG_ROWS row that keeps a row apart, joins two rows, or undoes that; None if it is so already."""
    for ref in refs:
        if rows.filter(ref == REF).is_empty():
            raise UsageError(f"{ref!r} is no row of the catalog: expected source:id as `catalog merges` names it")
    refs, last, word = sorted(refs), merging.rulings(rows), merging.APART if len(refs) == 1 else "joined"
    if (last.get(tuple(refs)) == word) is not undo:
        return None
    earlier = rows.filter((pl.col("source") == merging.APART) & (pl.col("refs") == refs)).height
    fields = {"source": merging.APART, "source_id": f"{' '.join(refs)} {earlier + 1}", "refs": refs}
    fields["aliases"] = [word if not undo else "together" if len(refs) == 1 else "not joined"]
    row = {**rows.filter(refs[0] == REF).row(0, named=True), "genres": [], "plot": None, **fields}
    return tables.CATALOG_ROWS.frame([row])
