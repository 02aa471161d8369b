"""From rows of many sources to items: a view, nothing is written, so a merge is undone by taking its row away.

reads  catalog_rows
gives  items (item, domain, title, year, refs, aliases, genres, plot), links (ref, item)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from saferec_builder import tables, titles

_CARRIED = ("domain", "title", "year", "refs", "aliases", "genres", "plot")
_COLUMNS: dict[str, Any] = {"item": pl.String, **{c: tables.CATALOG_ROWS.schema[c] for c in _CARRIED}}
ITEMS = pl.Schema(_COLUMNS)
LINKS = pl.Schema({"ref": pl.String, "item": pl.String})


def merge(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(items, links) of CATALOG_ROWS: rows that share an external id, then rows of one title, year and domain.

    Rows with different IMDb ids are never one item, whatever else they share; a title and year that two different
    IMDb ids claim joins nothing. An item is named after its first-added row, so a later source renames none.
    """
    every = rows.to_dicts()
    groups = _groups(every)
    items = [_item([every[n] for n in members]) for members in groups]
    named: dict[str, set[str]] = {}
    for item in items:
        for ref in item["refs"]:
            named.setdefault(ref, set()).add(item["item"])
    # an id that two items claim names neither; `item:ID` is how reviews name one
    links = [(ref, next(iter(found))) for ref, found in named.items() if len(found) == 1]
    links += [(f"item:{item['item']}", item["item"]) for item in items]
    return pl.DataFrame(items, schema=ITEMS), pl.DataFrame(links, schema=LINKS, orient="row")


def _groups(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Row numbers per item, both in order of first appearance."""
    parent = list(range(len(rows)))
    imdb = [{ref for ref in row["refs"] or () if ref.startswith("imdb:")} for row in rows]

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = n = parent[parent[n]]
        return n

    def join(a: int, b: int) -> None:
        a, b = sorted((root(a), root(b)))
        if a != b and not (imdb[a] and imdb[b] and imdb[a].isdisjoint(imdb[b])):
            parent[b] = a
            imdb[a] |= imdb[b]

    refs = [(ref, n) for n, row in enumerate(rows) for ref in row["refs"] or ()]
    for sharing in _sharing(sorted(refs, key=lambda pair: not pair[0].startswith("imdb:"))):
        for n in sharing[1:]:
            join(sharing[0], n)
    for sharing in _sharing((_title_key(row), n) for n, row in enumerate(rows)):
        if len({frozenset(imdb[root(n)]) for n in sharing} - {frozenset()}) <= 1:
            for n in sharing[1:]:
                join(sharing[0], n)
    members: dict[int, list[int]] = {}
    for n in range(len(rows)):
        members.setdefault(root(n), []).append(n)
    return list(members.values())


def _sharing(keyed: Iterable[tuple[Any, int]]) -> list[list[int]]:
    found: dict[Any, list[int]] = {}
    for key, n in keyed:
        if key is not None:
            found.setdefault(key, []).append(n)
    return list(found.values())


def _title_key(row: Mapping[str, Any]) -> tuple[str, int | None, str] | None:
    """None where a title alone does not say which item it is: sources of games have no years, others have."""
    if row["year"] is None and row["domain"] != "game":
        return None
    return titles.normal(row["title"]), row["year"], row["domain"]


def _item(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    year = next((row["year"] for row in rows if row["year"] is not None), None)
    title = titles.spoken(first["title"])
    names = [_dated(titles.spoken(row["title"]), row["year"], year) for row in rows]
    aliases = [alias for row in rows for alias in row["aliases"] or ()]
    refs = [ref for row in rows for ref in (f"{row['source']}:{row['source_id']}", *(row["refs"] or ()))]
    genres = {genre.casefold(): genre for row in reversed(rows) for genre in reversed(row["genres"] or ())}
    return {
        "item": tables.digest("item", first["source"], first["source_id"]),
        "domain": first["domain"],
        "title": title,
        "year": year,
        "refs": list(dict.fromkeys(refs)),
        "aliases": [name for name in dict.fromkeys([*names, *aliases]) if name != title],
        "genres": list(reversed(genres.values())),
        "plot": next((row["plot"] for row in rows if row["plot"]), None),
    }


def _dated(title: str, year: int | None, usual: int | None) -> str:
    """A source that dates the item otherwise still has to be found under its own year."""
    return title if year in (None, usual) else f"{title} ({year})"
