"""From rows of many sources to items: a view, nothing is written, so a merge is undone by a row that says so.

reads  catalog_rows
gives  items (item, domain, title, year, refs, aliases, genres, plot), links (ref, item), merges (row, item, by, other)

Rows of source `apart` are people's rulings, by their aliases: the one row in `refs` stands alone ("apart") or may
merge again ("together"); the two rows in `refs` are one item ("joined"), or only if they merge ("not joined"). The
last ruling on a row, and on a pair, counts; of a pair it counts whatever else keeps the two apart.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar, cast

import polars as pl

from saferec_builder.core import titles
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables

APART = "apart"  # the source of people's rulings on merges
ID_CONFLICT = "id conflict"
BY_A_PERSON = "joined by a person"
FOUND_BY_TITLE = ("redial", "ddd")  # sources whose ids were found by title and year: a year that fits proves nothing
LIKE = 0.8  # share of characters in common from which a title is like another
_CARRIED = ("domain", "title", "year", "refs", "aliases", "genres", "plot")
ITEMS = pl.Schema([("item", pl.String()), *((c, tables.CATALOG_ROWS.schema[c]) for c in _CARRIED)])
LINKS = pl.Schema({"ref": pl.String, "item": pl.String})
MERGES = pl.Schema(dict.fromkeys(("row", "item", "by", "other", "title", "other_title"), pl.String))
_TEXTS = pl.List(pl.String)
_REF = pl.concat_str("source", pl.lit(":"), "source_id")
_BREAK = re.compile(r":| [-–—] ")


Key = TypeVar("Key")


class ItemRow(TypedDict):
    """A row of ITEMS."""

    item: str
    domain: str
    title: str
    year: int | None
    refs: list[str]
    aliases: list[str]
    genres: list[str]
    plot: str | None


class Row(TypedDict):
    """A row of the catalog, as `_keyed` gives it."""

    n: int
    source: str
    source_id: str
    domain: str
    title: str
    year: int | None
    refs: list[str] | None
    aliases: list[str] | None
    genres: list[str] | None
    plot: str | None
    ref: str
    key: str | None
    free: bool


class _Made(ItemRow):
    """What merged rows make: their own refs, those of sources that found theirs otherwise than by title and year, and
    whether no person set them apart."""

    n: int
    own: list[str]
    trusted: list[str]
    free: bool


@dataclass
class _Groups:
    """Rows that share anything, as they merge: a forest, the IMDb ids of each tree, why two were (not) joined."""

    rows: Sequence[Row]
    parent: list[int] = field(init=False)
    imdb: list[set[str]] = field(init=False)
    sole: list[set[str]] = field(init=False)  # of rows with one of them: a row with two makes no one film of two
    joined: list[tuple[int, int, str]] = field(default_factory=list)
    refused: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parent = list(range(len(self.rows)))
        self.imdb = [{ref for ref in _claims(row) if ref.startswith("imdb:")} for row in self.rows]
        self.sole = [set(ids) if len(ids) == 1 else set() for ids in self.imdb]

    def root(self, n: int) -> int:
        while self.parent[n] != n:
            self.parent[n] = n = self.parent[self.parent[n]]
        return n

    def join(self, a: int, b: int, why: str) -> None:
        first, later = sorted((self.root(a), self.root(b)))
        if first == later:
            return
        for ids in (self.imdb, self.sole) if why != BY_A_PERSON else ():
            if ids[first] and ids[later] and ids[first].isdisjoint(ids[later]):
                return
        self.parent[later] = first
        self.imdb[first] |= self.imdb[later]
        self.sole[first] |= self.sole[later]
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
    IMDb ids claim joins nothing. An id joins only rows that agree too (`agree`): others are an id conflict, stay
    apart, and the id names one of them or nobody (`_links`). What a person joined is one item. An item has
    its id, title and year from its first-added row, so a later source renames none; which rows it has no order decides.
    """
    keyed = _keyed(rows)
    groups = _grouped(keyed, _ruled(rows, "joined"))
    alone = _singles(keyed.filter(~pl.col("touched")))
    merged = [[groups.rows[n] for n in members] for members in groups.members()]
    schema = pl.Schema({"n": pl.UInt32(), **ITEMS, "own": _TEXTS, "trusted": _TEXTS, "free": pl.Boolean()})
    several = pl.DataFrame([_item(each) for each in merged], schema)
    items = pl.concat([alone, several]).sort("n")
    links = pl.concat([_links(items), _names_before(merged)])
    return _without_others(items.select(ITEMS.names()), links), links


def _links(items: pl.DataFrame) -> pl.DataFrame:
    """LINKS; an id that several items claim belongs to the row of its own source, else to one with a row of a source
    that did not find its ids by title and year, else to one that no person set apart; to nobody where two are as good.
    """
    claimed = items.select("item", "own", "trusted", "free", ref="refs").explode("ref")
    alone, shared = claimed.filter(~pl.col("ref").is_duplicated()), claimed.filter(pl.col("ref").is_duplicated())
    own, trusted = (pl.col("ref").is_in(pl.col(column)) for column in ("own", "trusted"))
    claim = pl.when(own).then(3).when(trusted).then(2).otherwise(pl.col("free").cast(pl.Int32))
    first = shared.filter(claim == claim.max().over("ref")).filter(~pl.col("ref").is_duplicated())
    itself = items.select(ref=pl.lit("item:") + pl.col("item"), item="item")  # how reviews name one
    return pl.concat([alone.select("ref", "item"), first.select("ref", "item"), itself])


def _without_others(items: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The items without ids that are another's or, as several claim them, nobody's: none of these is named by them."""
    shared = items.select("item", ref="refs").explode("ref").filter(pl.col("ref").is_duplicated())
    others = shared.join(links, ["ref", "item"], "anti")
    if others.is_empty():
        return items
    lost = set(others.select("item", "ref").iter_rows())
    refs = [[ref for ref in refs if (item, ref) not in lost] for item, refs in items.select("item", "refs").iter_rows()]
    return items.with_columns(pl.Series("refs", refs, _TEXTS))


def _names_before(merged: Sequence[Sequence[Row]]) -> pl.DataFrame:
    """LINKS of what rows were named before they became part of an item: a review of one is a review of it."""
    named = [(f"item:{_named(row)}", _named(rows[0])) for rows in merged for row in rows[1:]]
    return pl.DataFrame(named, schema=LINKS, orient="row")


def merges(rows: pl.DataFrame) -> pl.DataFrame:
    """Every merge, and every id conflict, one row each: `row` joined `item` by an id or by title, through `other`.

    by is the shared id, "title", "joined by a person", or "id conflict": `row` and `other` share an id and do not
    agree, or `row` agrees with two films of different IMDb ids. The titles are those of the two rows.
    """
    groups = _grouped(_keyed(rows), _ruled(rows, "joined"))
    item = {n: _named(groups.rows[each[0]]) for each in groups.members() for n in each}
    found = [(b, item[b], why, a) for b, a, why in groups.joined]
    found += [(b, item[b], ID_CONFLICT, a) for b, a, _ in groups.refused if item[a] != item[b]]
    pairs = [(groups.rows[b], name, why, groups.rows[a]) for b, name, why, a in found]
    named = [(a["ref"], name, why, b["ref"], titles.shown(a), titles.shown(b)) for a, name, why, b in pairs]
    return pl.DataFrame(named, schema=MERGES, orient="row")


def ruling(rows: pl.DataFrame, refs: Sequence[str], *, undo: bool) -> pl.DataFrame | None:
    """The CATALOG_ROWS row that keeps one row apart, or makes one item of two, or takes that back; None: it is so."""
    for ref in refs:
        if rows.filter(ref == _REF).is_empty():
            raise UsageError(f"{ref!r} is no row of the catalog: expected source:id as `catalog merges` names it")
    refs, past, word = sorted(refs), rulings(rows), APART if len(refs) == 1 else "joined"
    if (past.get(tuple(refs)) == word) is not undo:
        return None
    earlier = rows.filter((pl.col("source") == APART) & (pl.col("refs") == refs)).height
    ruled = {"source": APART, "source_id": f"{' '.join(refs)} {earlier + 1}", "refs": refs}
    ruled["aliases"] = [word if not undo else "together" if len(refs) == 1 else "not joined"]
    known = {**rows.filter(refs[0] == _REF).row(0, named=True), "genres": [], "plot": None, **ruled}
    return tables.CATALOG_ROWS.frame([known])


def rulings(rows: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """The last ruling on each row and on each pair of rows."""
    ruled = rows.filter(pl.col("source") == APART).select("refs", pl.col("aliases").list.first())
    return {tuple(refs): word for refs, word in ruled.iter_rows()}


def _ruled(rows: pl.DataFrame, word: str) -> list[tuple[str, ...]]:
    return [refs for refs, last in rulings(rows).items() if last == word]


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `n`, their title `key`, and whether they share an id or that key with another (`touched`)."""
    every = rows.filter(pl.col("source") != APART).with_row_index("n").with_columns(ref=_REF)
    free = ~pl.col("ref").is_in([ref for (ref,) in _ruled(rows, APART)])
    joined = [ref for pair in _ruled(rows, "joined") for ref in pair]
    keys = pl.Series("key", map(_title_key, every["title"], every["year"], every["domain"]), pl.String)
    every = every.with_columns(key=keys).with_columns(key=pl.when(free).then("key"))
    named = pl.concat_list("ref", pl.col("refs").fill_null([])).list.unique()
    shared = every.filter(free).select("n", refs=named).explode("refs")
    sharing = shared.filter(pl.col("refs").is_duplicated())["n"].unique()
    twice = pl.col("key").is_duplicated() & pl.col("key").is_not_null()
    return every.with_columns(
        touched=twice | pl.col("n").is_in(sharing.implode()) | pl.col("ref").is_in(joined), free=free
    )


def _grouped(keyed: pl.DataFrame, joined: Iterable[tuple[str, ...]]) -> _Groups:
    every = cast("list[Row]", keyed.filter(pl.col("touched")).to_dicts())
    groups, number = _Groups(every), {row["ref"]: n for n, row in enumerate(every)}
    for one, other in joined:
        groups.join(number[one], number[other], BY_A_PERSON)
    refs = [(ref, n) for n, row in enumerate(every) if row["free"] for ref in {row["ref"], *(row["refs"] or ())}]
    refs.sort(key=lambda pair: (pair[0][:5] != "imdb:", pair[0]))
    for ref, sharing in _sharing(refs).items():
        _by_id(groups, ref, sharing)
    for _, sharing in _sharing((row["key"], n) for n, row in enumerate(every)).items():
        _by_title(groups, sharing)
    return groups


def _by_id(groups: _Groups, ref: str, sharing: Sequence[int]) -> None:
    rows = groups.rows
    agreeing = [(a, b) for n, b in enumerate(sharing) for a in sharing[:n] if agree(rows[a], rows[b])]
    torn = _torn(groups, agreeing) if len(agreeing) > 1 else set()
    joining = [pair for pair in agreeing if torn.isdisjoint(pair)]
    for first, later in joining:
        groups.join(first, later, ref)
    met = {later for _, later in joining}
    groups.refused += [(later, sharing[0], ref) for later in sharing[1:] if later not in met]


def _torn(groups: _Groups, agreeing: Sequence[tuple[int, int]]) -> set[int]:
    """Rows without an IMDb id that agree, one through another, with rows of two: either could be meant, and the order
    of rows may not say."""
    pairs = [(groups.root(one), groups.root(other)) for one, other in agreeing]
    films = {n: {frozenset(groups.sole[n] or groups.imdb[n])} - {frozenset()} for pair in pairs for n in pair}
    open_ = [(one, other) for pair in pairs for one, other in (pair, pair[::-1]) if not films[one]]
    reaching = True
    while reaching:
        before = sum(map(len, films.values()))
        for one, other in open_:
            films[one] |= films[other]
        reaching = sum(map(len, films.values())) > before
    return {n for pair in agreeing for n in pair if len(films[groups.root(n)]) > 1}


def agree(one: Row, other: Row) -> bool:
    """Do two rows with one id speak of one item?

    Where neither source found its ids by title and year, an id is right but for slips: then years at most one apart,
    or titles that are alike, are enough ("Battleship Potemkin" and "Bronenosets Potyomkin"). Else a title has to be
    shared, at most two years apart. In the same year it may also be a part of the other's: "Borat" and "Borat: Cultural
    Learnings ...", "Van Wilder" and "National Lampoon's Van Wilder"; one bare word is too little ("Wanted", "Hot Girls
    Wanted").
    """
    if one["domain"] != other["domain"] and "game" in (one["domain"], other["domain"]):
        return False
    years = abs(one["year"] - other["year"]) if one["year"] and other["year"] else None
    ours, theirs = _names(one), _names(other)
    trusted = not {one["source"], other["source"]} & set(FOUND_BY_TITLE)
    if trusted and ((years is not None and years <= 1) or any(_alike(a, b) for a in ours for b in theirs)):
        return True
    if years is not None and years > titles.YEARS_APART:
        return False
    if ours & theirs:
        return True
    if years != 0:
        return False
    parts = [{titles.normal(part) for part in _BREAK.split(row["title"])} for row in (one, other)]
    if parts[0] <= parts[1] or parts[1] <= parts[0]:
        return True
    return any(_within(a, b) or _within(b, a) for a in ours for b in theirs)


def _alike(one: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= LIKE


def _names(row: Row) -> set[str]:
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


def _sharing(keyed: Iterable[tuple[Key | None, int]]) -> dict[Key, list[int]]:
    """Row numbers per key, where more than one row has it."""
    found: dict[Key, list[int]] = {}
    for key, n in keyed:
        if key is not None:
            found.setdefault(key, []).append(n)
    return {key: sharing for key, sharing in found.items() if len(sharing) > 1}


def _title_key(title: str, year: int | None, domain: str) -> str | None:
    """None where a title alone does not say which item it is: sources of games have no years, others have."""
    form = titles.normal(title)
    if not form:  # "???" and "!!!" are two titles
        return None
    if domain == "game":
        return f"game {form}"
    return None if year is None else f"{domain} {year} {form}"


def _claims(row: Row) -> list[str]:
    """The ids that a row gives an item of several rows: none where a person set it apart, for they may be another's."""
    return row["refs"] or [] if row["free"] else []


def _named(row: Row) -> str:
    return tables.digest("item", row["source"], row["source_id"])


def _singles(rows: pl.DataFrame) -> pl.DataFrame:
    """The items of rows that share nothing, as `_item` makes them, a column at a time: most of a large catalog."""
    names = map(tables.digest, ["item"] * rows.height, rows["source"], rows["source_id"])
    aliases = [
        [name for name in dict.fromkeys(aliases or ()) if name != title] if aliases else []
        for title, aliases in zip(map(titles.spoken, rows["title"]), rows["aliases"].to_list(), strict=True)
    ]
    return rows.select(
        "n",
        pl.Series("item", names, pl.String),
        "domain",
        pl.Series("title", map(titles.spoken, rows["title"]), pl.String),
        "year",
        pl.concat_list("ref", pl.col("refs").fill_null([])).list.unique(maintain_order=True).alias("refs"),
        pl.Series("aliases", aliases, _TEXTS),
        pl.Series("genres", [_genres(genres or ()) for genres in rows["genres"].to_list()], _TEXTS),
        pl.when(pl.col("plot") != "").then("plot"),
        pl.concat_list("ref").alias("own"),
        pl.when(pl.col("free") & ~pl.col("source").is_in(FOUND_BY_TITLE)).then("refs").fill_null([]).alias("trusted"),
        "free",
    )


def _item(rows: Sequence[Row]) -> _Made:
    first = rows[0]
    year = next((row["year"] for row in rows if row["year"] is not None), None)
    title = titles.spoken(first["title"])
    names = [_dated(titles.spoken(row["title"]), row["year"], year) for row in rows]
    aliases = [alias for row in rows for alias in row["aliases"] or ()]
    refs = [ref for row in rows for ref in (row["ref"], *_claims(row))]
    return {
        "n": first["n"],
        "item": _named(first),
        "domain": first["domain"],
        "title": title,
        "year": year,
        "refs": list(dict.fromkeys(refs)),
        "aliases": [name for name in dict.fromkeys([*names, *aliases]) if name != title],
        "genres": _genres([genre for row in rows for genre in row["genres"] or ()]),
        "plot": next((row["plot"] for row in rows if row["plot"]), None),
        "own": [row["ref"] for row in rows],
        "trusted": [ref for row in rows if row["source"] not in FOUND_BY_TITLE for ref in _claims(row)],
        "free": True,
    }


def _genres(told: Sequence[str]) -> list[str]:
    """Each once, as it is written first."""
    return list(reversed({genre.casefold(): genre for genre in reversed(told)}.values()))


def _dated(title: str, year: int | None, usual: int | None) -> str:
    """A source that dates the item otherwise still has to be found under its own year."""
    return title if year in (None, usual) else f"{title} ({year})"
