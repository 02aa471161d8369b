"""From rows of many sources to items: a view, nothing is written, so a merge is undone by a row that says so.

reads  catalog_rows
gives  items (item, domain, title, year, refs, aliases, genres, plot), links (ref, item), merges (row, item, by, other)

Rows of source `apart` are people's rulings: the row in `refs` stands alone (aliases ["apart"]) or may merge again
(aliases ["together"]); the last ruling on a row counts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from saferec_builder import tables, titles
from saferec_builder.errors import UsageError

APART = "apart"  # the source of people's rulings on merges
ID_CONFLICT = "id conflict"
_CARRIED = ("domain", "title", "year", "refs", "aliases", "genres", "plot")
_COLUMNS: dict[str, Any] = {"item": pl.String, **{c: tables.CATALOG_ROWS.schema[c] for c in _CARRIED}}
ITEMS = pl.Schema(_COLUMNS)
LINKS = pl.Schema({"ref": pl.String, "item": pl.String})
MERGES = pl.Schema({"row": pl.String, "item": pl.String, "by": pl.String, "other": pl.String})
_BREAK = re.compile(r":| [-–—] ")


@dataclass
class _Groups:
    """Rows as they merge: a forest, the IMDb ids of each tree, and why each pair was joined or was not."""

    rows: Sequence[Mapping[str, Any]]
    parent: list[int] = field(init=False)
    imdb: list[set[str]] = field(init=False)
    joined: list[tuple[int, int, str]] = field(default_factory=list)
    refused: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parent = list(range(len(self.rows)))
        self.imdb = [{ref for ref in row["refs"] or () if ref.startswith("imdb:")} for row in self.rows]

    def root(self, n: int) -> int:
        while self.parent[n] != n:
            self.parent[n] = n = self.parent[self.parent[n]]
        return n

    def join(self, a: int, b: int, why: str) -> None:
        first, later = sorted((self.root(a), self.root(b)))
        if first == later:
            return
        if self.imdb[first] and self.imdb[later] and self.imdb[first].isdisjoint(self.imdb[later]):
            return
        self.parent[later] = first
        self.imdb[first] |= self.imdb[later]
        self.joined.append((b, a, why))

    def members(self) -> list[list[int]]:
        """Row numbers per item, both in order of first appearance."""
        found: dict[int, list[int]] = {}
        for n in range(len(self.rows)):
            found.setdefault(self.root(n), []).append(n)
        return list(found.values())


def merge(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(items, links) of CATALOG_ROWS: rows that share an external id, then rows of one title, year and domain.

    Rows with different IMDb ids are never one item, whatever else they share; a title and year that two different
    IMDb ids claim joins nothing. An id joins only rows whose titles agree too: two sources with one id and nothing
    else in common are an id conflict, stay apart, and the id names the row of its own source or nobody. An item is
    named after its first-added row, so a later source renames none.
    """
    groups = _grouped(rows)
    members = groups.members()
    items = [_item([groups.rows[n] for n in each]) for each in members]
    # an id that two items claim names neither; `item:ID` is how reviews name one
    own = [[_ref(groups.rows[n]) for n in each] for each in members]
    links = [*_links(items, own), *((f"item:{item['item']}", item["item"]) for item in items)]
    return pl.DataFrame(items, schema=ITEMS), pl.DataFrame(links, schema=LINKS, orient="row")


def merges(rows: pl.DataFrame) -> pl.DataFrame:
    """Every merge, and every id conflict, one row each: `row` joined `item` by an id or by title, through `other`.

    by is the shared id, "title", or "id conflict" where `row` and `other` share an id and agree in nothing else.
    """
    groups = _grouped(rows)
    item = {n: _named(groups.rows[each[0]]) for each in groups.members() for n in each}
    told = [(b, item[b], why, a) for b, a, why in groups.joined]
    told += [(b, item[b], ID_CONFLICT, a) for b, a, _ in groups.refused if item[a] != item[b]]
    named = [(_ref(groups.rows[b]), name, why, _ref(groups.rows[a])) for b, name, why, a in told]
    return pl.DataFrame(named, schema=MERGES, orient="row")


def ruling(rows: pl.DataFrame, ref: str, *, apart: bool) -> pl.DataFrame:
    """The CATALOG_ROWS row that keeps the row named `ref` apart from now on, or lets it merge again."""
    known = [row for row in rows.to_dicts() if _ref(row) == ref]
    if not known:
        raise UsageError(f"{ref!r} is no row of the catalog: wanted source:id, as `saferec-build catalog merges` lists")
    earlier = rows.filter((pl.col("source") == APART) & (pl.col("refs").list.first() == ref)).height
    ruled = {"source": APART, "source_id": f"{ref} {earlier + 1}", "refs": [ref]}
    ruled["aliases"] = [APART if apart else "together"]
    return pl.DataFrame([{**known[0], "genres": [], "plot": None, **ruled}], schema=tables.CATALOG_ROWS.schema)


def _grouped(rows: pl.DataFrame) -> _Groups:
    ruled = rows.filter(pl.col("source") == APART).select(pl.col("refs").list.first(), pl.col("aliases").list.first())
    alone = {ref for ref, ruling in dict(ruled.iter_rows()).items() if ruling == APART}
    every = rows.filter(pl.col("source") != APART).to_dicts()
    groups = _Groups(every)
    free = [n for n, row in enumerate(every) if not alone or _ref(row) not in alone]
    refs = sorted(((ref, n) for n in free for ref in every[n]["refs"] or ()), key=lambda pair: pair[0][:5] != "imdb:")
    for ref, sharing in _sharing(refs).items():
        _by_id(groups, ref, sharing)
    for _, sharing in _sharing((_title_key(every[n]), n) for n in free).items():
        _by_title(groups, sharing)
    return groups


def _by_id(groups: _Groups, ref: str, sharing: Sequence[int]) -> None:
    for n, later in enumerate(sharing):
        agreeing = [first for first in sharing[:n] if agree(groups.rows[first], groups.rows[later])]
        for first in agreeing:
            groups.join(first, later, ref)
        if n and not agreeing:
            groups.refused.append((later, sharing[0], ref))


def agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Do two rows with one id speak of one item? Not where their years differ, nor where no title is shared.

    In the same year a title may also be a part of the other's: "Borat" and "Borat: Cultural Learnings ...", "Van
    Wilder" and "National Lampoon's Van Wilder"; one bare word is too little ("Wanted", "Hot Girls Wanted").
    """
    if one["domain"] != other["domain"] and "game" in (one["domain"], other["domain"]):
        return False
    if one["year"] and other["year"] and abs(one["year"] - other["year"]) > titles.YEARS_APART:
        return False
    ours, theirs = _names(one), _names(other)
    if ours & theirs:
        return True
    if one["year"] is None or one["year"] != other["year"]:
        return False
    parts = [{titles.normal(part) for part in _BREAK.split(row["title"])} for row in (one, other)]
    if parts[0] <= parts[1] or parts[1] <= parts[0]:
        return True
    return any(_within(a, b) or _within(b, a) for a in ours for b in theirs)


def _names(row: Mapping[str, Any]) -> set[str]:
    names = (titles.split_year(name)[0] for name in (row["title"], *(row["aliases"] or ())))
    return {form for name in names for form in titles.forms(name)}


def _within(short: str, long: str) -> bool:
    return " " in short and f" {short} " in f" {long} "


def _by_title(groups: _Groups, sharing: Sequence[int]) -> None:
    """Rows of one title and domain (and year, but for games); a game without a year is the one game of its title."""
    if len({frozenset(groups.imdb[groups.root(n)]) for n in sharing} - {frozenset()}) > 1:
        return
    years = {groups.rows[n]["year"] for n in sharing} - {None}
    for same in [sharing] if len(years) <= 1 else _sharing((groups.rows[n]["year"], n) for n in sharing).values():
        for n in same[1:]:
            groups.join(same[0], n, "title")


def _sharing(keyed: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    """Row numbers per key, where more than one row has it."""
    found: dict[Any, list[int]] = {}
    for key, n in keyed:
        if key is not None:
            found.setdefault(key, []).append(n)
    return {key: sharing for key, sharing in found.items() if len(sharing) > 1}


def _title_key(row: Mapping[str, Any]) -> tuple[str, int | None, str] | None:
    """None where a title alone does not say which item it is: sources of games have no years, others have."""
    if row["domain"] == "game":
        return titles.normal(row["title"]), None, "game"
    return None if row["year"] is None else (titles.normal(row["title"]), row["year"], row["domain"])


def _ref(row: Mapping[str, Any]) -> str:
    return f"{row['source']}:{row['source_id']}"


def _named(row: Mapping[str, Any]) -> str:
    return tables.digest("item", row["source"], row["source_id"])


def _links(items: Sequence[Mapping[str, Any]], own: Sequence[Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(ref, item); an id that several items claim belongs to the row of its own source, or to nobody."""
    claims = Counter(ref for item in items for ref in item["refs"])
    for item, rows in zip(items, own, strict=True):
        yield from ((ref, item["item"]) for ref in item["refs"] if claims[ref] == 1 or ref in rows)


def _item(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    year = next((row["year"] for row in rows if row["year"] is not None), None)
    title = titles.spoken(first["title"])
    names = [_dated(titles.spoken(row["title"]), row["year"], year) for row in rows]
    aliases = [alias for row in rows for alias in row["aliases"] or ()]
    refs = [ref for row in rows for ref in (_ref(row), *(row["refs"] or ()))]
    genres = {genre.casefold(): genre for row in reversed(rows) for genre in reversed(row["genres"] or ())}
    return {
        "item": _named(first),
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
