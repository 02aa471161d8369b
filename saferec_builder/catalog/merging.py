"""Merges rows of many sources into items. The items are a view, never stored: a row with a ruling undoes a merge.

reads  catalog_rows
gives  items (item, domain, title, year, refs, aliases, genres, plot), links (ref, item), merges (row, item, by, other)

Rows of source `apart` are people's rulings, as their aliases say: the one row in `refs` stays alone ("apart") or may
merge again ("together"); the two rows in `refs` are one item ("joined"), or only if they merge ("not joined"). The
last ruling on a row or a pair counts, for a pair whatever else keeps the two apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar, cast

import polars as pl

from saferec_builder.catalog.same_work import TRUST, Row, agree, title_forms, unlike
from saferec_builder.core import titles
from saferec_builder.storage import tables

APART = "apart"  # the source of people's rulings on merges
ID_CONFLICT = "id conflict"
BY_A_PERSON = "joined by a person"
_OWN = 4  # trust in the id of a row itself; see agreement.TRUST
_COPIED = ("domain", "title", "year", "refs", "aliases", "genres", "plot")
ITEMS = pl.Schema([("item", pl.String()), *((c, tables.CATALOG_ROWS.schema[c]) for c in _COPIED)])
LINKS = pl.Schema({"ref": pl.String, "item": pl.String})
MERGES = pl.Schema(
    dict.fromkeys(("row", "item", "by", "other", "title", "other_title"), pl.String) | {"unlike": pl.Boolean}
)
_TEXTS = pl.List(pl.String)
REF = pl.concat_str("source", pl.lit(":"), "source_id")  # how people name a row of the catalog
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


@dataclass
class _Groups:
    """Rows that share a key, in the order of their refs, so that the order of adding them decides nothing; and how they
    merge: a forest, the IMDb ids of each tree, why pairs were joined or refused."""

    rows: Sequence[Row]
    parent: list[int] = field(init=False)
    imdb: list[set[str]] = field(init=False)
    sole: list[set[str]] = field(init=False)  # of rows with exactly one: a row with two must not merge two films
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

    def join(self, a: int, b: int, reason: str) -> None:
        first, later = sorted((self.root(a), self.root(b)))
        if first == later:
            return
        for ids in (self.imdb, self.sole) if reason != BY_A_PERSON else ():
            if ids[first] and ids[later] and ids[first].isdisjoint(ids[later]):
                return
        self.parent[later] = first
        self.imdb[first] |= self.imdb[later]
        self.sole[first] |= self.sole[later]
        self.joined.append((b, a, reason))

    def members(self) -> list[list[int]]:
        """Row numbers per item, both in the order in which the rows were added."""
        members: dict[int, list[int]] = {}
        for n in sorted(range(len(self.rows)), key=lambda n: self.rows[n]["n"]):
            members.setdefault(self.root(n), []).append(n)
        return list(members.values())


def merge(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (items, links) of CATALOG_ROWS: merges rows of one external id, then of one title, year and domain,
    then a row with the only item that has a title in its brackets.

    Rows with different IMDb ids are never one item, whatever else they share; a title and year with two different
    IMDb ids join nothing. An id joins only rows that agree (`agree`): others are an id conflict and stay apart, and the
    id belongs to one of them or to none (`_links`). Rows that a person joined are one item. An item has its id, title
    and year from its first-added row, so no later source renames it; which rows merge does not depend on their order.
    """
    keyed = _keyed(rows)
    groups = _grouped(keyed, _refs_ruled(rows, "joined"))
    row_groups = [[groups.rows[n] for n in members] for members in groups.members()]
    first = {row["n"]: rows[0]["n"] for rows in row_groups for row in rows}
    items = _items(keyed.with_columns(group=pl.col("n").replace(first)))
    # the item ids that rows had before they merged: a review of such an item is one of the merged item
    former = [(f"item:{_item_id(row)}", _item_id(rows[0])) for rows in row_groups for row in rows[1:]]
    links = pl.concat([_links(items), pl.DataFrame(former, schema=LINKS, orient="row")])
    return _without_foreign_refs(items.select(ITEMS.names()), links), links


def _links(items: pl.DataFrame) -> pl.DataFrame:
    """LINKS. An id that several items claim belongs to the item with the row of that id; else to one with a row of a
    collection; else of a table of one's own, where a slip is likelier; else of a source that found its ids by title and
    year; else to one that a person set apart; to none in a tie. TMDB numbers films and series apart: a number that both
    have means the film.
    """
    claims = items.select("item", "trust", "domain", ref="refs").explode("ref", "trust")
    of_series = pl.col("ref").str.starts_with("tmdb:") & (pl.col("domain") == "series")
    claims = claims.filter(~of_series | of_series.all().over("ref"))
    unique, shared = claims.filter(~pl.col("ref").is_duplicated()), claims.filter(pl.col("ref").is_duplicated())
    strongest = shared.filter(pl.col("trust") == pl.col("trust").max().over("ref"))
    strongest = strongest.filter(~pl.col("ref").is_duplicated())
    by_id = items.select(ref=pl.lit("item:") + pl.col("item"), item="item")  # as reviews name items
    return pl.concat([unique.select("ref", "item"), strongest.select("ref", "item"), by_id])


def _without_foreign_refs(items: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The items without the ids that belong to another item or, as several items claim them equally, to none."""
    shared = items.select("item", ref="refs").explode("ref").filter(pl.col("ref").is_duplicated())
    foreign = shared.join(links, ["ref", "item"], "anti")
    if foreign.is_empty():
        return items
    drop = set(foreign.select("item", "ref").iter_rows())
    refs = [[ref for ref in refs if (item, ref) not in drop] for item, refs in items.select("item", "refs").iter_rows()]
    return items.with_columns(pl.Series("refs", refs, _TEXTS))


def merges(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns each merge and each id conflict as a row: `row` joined `item` by an id or by title, through `other`. The
    conflicts of the rows that were added last come first.

    by is the shared id, "title", "joined by a person", or "id conflict": `row` and `other` share an id and do not
    agree or have different IMDb ids, or `row` agrees with two films of these. The titles are those of the two rows;
    unlike: an id joined rows whose titles share no word: a translation ("Tangerines", "Mandariinid") or a wrong id.
    """
    groups = _grouped(_keyed(rows), _refs_ruled(rows, "joined"))
    item_ids = {n: _item_id(groups.rows[members[0]]) for members in groups.members() for n in members}
    refused = [(b, a, ID_CONFLICT) for b, a, _ in groups.refused if item_ids[a] != item_ids[b]]
    refused.sort(key=lambda pair: -max(groups.rows[n]["n"] for n in pair[:2]))
    merged = []
    for *pair, reason in [*groups.joined, *refused]:
        n, other = sorted(pair, key=lambda n: -groups.rows[n]["n"])  # the row that was added later, and the other
        a, b = groups.rows[n], groups.rows[other]
        marked = reason not in (ID_CONFLICT, BY_A_PERSON) and unlike(title_forms(a), title_forms(b))
        merged.append((a["ref"], item_ids[n], reason, b["ref"], titles.dated(a), titles.dated(b), marked))
    return pl.DataFrame(merged, schema=MERGES, orient="row")


def rulings(rows: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """The last ruling on each row and on each pair of rows."""
    records = rows.filter(pl.col("source") == APART).select("refs", pl.col("aliases").list.first())
    return {tuple(refs): word for refs, word in records.iter_rows()}


def _refs_ruled(rows: pl.DataFrame, word: str) -> list[tuple[str, ...]]:
    return [refs for refs, last in rulings(rows).items() if last == word]


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `n`, the keys of their title, `free` (nobody set them apart) and `touched`: they share an id or a
    key, or a person joined them."""
    keyed = rows.filter(pl.col("source") != APART).with_row_index("n").with_columns(ref=REF)
    keyed = keyed.with_columns(free=~pl.col("ref").is_in([ref for (ref,) in _refs_ruled(rows, APART)]))
    free, joined = keyed.filter("free"), [ref for pair in _refs_ruled(rows, "joined") for ref in pair]
    titled = free.select("n", "title", "year", "domain")
    keys = titled.select("n", key=pl.Series([_title_key(*title) for _, *title in titled.iter_rows()], dtype=pl.String))
    bracketed = titled.filter(pl.col("title").str.contains(r"[(\[]"))
    pairs = [(n, key) for n, *title in bracketed.iter_rows() for key in _alias_keys(*title)]
    aliases = pl.DataFrame(pairs, schema=keys.schema, orient="row")
    aliased = aliases.join(keys, "key", "semi")
    all_refs = pl.concat_list("ref", pl.col("refs").fill_null([])).list.unique()
    shared = free.select("n", refs=all_refs).explode("refs")
    sharing = [shared.filter(pl.col("refs").is_duplicated())["n"], aliased["n"]]
    named = keys.drop_nulls().filter(pl.col("key").is_duplicated() | pl.col("key").is_in(aliased["key"].implode()))
    touched = pl.concat([*sharing, named["n"]]).unique()
    keyed = keyed.join(keys, "n", "left", maintain_order="left")
    keyed = keyed.join(aliases.group_by("n").agg(alias_keys="key"), "n", "left", maintain_order="left")
    return keyed.with_columns(touched=pl.col("n").is_in(touched.implode()) | pl.col("ref").is_in(joined))


def _grouped(keyed: pl.DataFrame, joined: Iterable[tuple[str, ...]]) -> _Groups:
    rows = cast("list[Row]", keyed.filter(pl.col("touched")).sort("ref").to_dicts())
    groups, numbers = _Groups(rows), {row["ref"]: n for n, row in enumerate(rows)}
    for first, second in joined:
        if first in numbers and second in numbers:  # else the shard of one is lost, until `catalog add` restores it
            groups.join(numbers[first], numbers[second], BY_A_PERSON)
    refs = [
        ((ref, row["domain"] == "series" and ref.startswith("tmdb:")), n)  # TMDB numbers films and series apart
        for n, row in enumerate(rows)
        for ref in ({row["ref"], *(row["refs"] or ())} if row["free"] else ())
    ]
    refs.sort(key=lambda pair: (pair[0][0][:5] != "imdb:", pair[0]))
    for (ref, _), sharing in _sharing(refs).items():
        _join_by_id(groups, ref, sharing)
    for _, sharing in _sharing((row["key"], n) for n, row in enumerate(rows)).items():
        _join_by_title(groups, sharing)
    _join_by_alias(groups)
    return groups


def _join_by_id(groups: _Groups, ref: str, sharing: Sequence[int]) -> None:
    rows = groups.rows
    agreeing = [(a, b) for n, b in enumerate(sharing) for a in sharing[:n] if agree(rows[a], rows[b])]
    ambiguous = _ambiguous(groups, agreeing) if len(agreeing) > 1 else set()
    joining = [pair for pair in agreeing if ambiguous.isdisjoint(pair)]
    if len(joining) > 1:  # titles that fit before others, and early rows, so that `merges` names the row that is odd

        def oddity(pair: tuple[int, int]) -> tuple[bool, list[int]]:
            return unlike(*(title_forms(rows[n]) for n in pair)), sorted(rows[n]["n"] for n in pair)

        joining.sort(key=oddity)
    for first, later in joining:
        groups.join(first, later, ref)
    joined = {later for first, later in joining if groups.root(first) == groups.root(later)}
    groups.refused += [(later, sharing[0], ref) for later in sharing[1:] if later not in joined]


def _ambiguous(groups: _Groups, agreeing: Sequence[tuple[int, int]]) -> set[int]:
    """Rows without an IMDb id that agree, directly or through others, with rows of two films: either could be meant,
    and the order of rows must not decide."""
    pairs = [(groups.root(first), groups.root(second)) for first, second in agreeing]
    films = {n: {frozenset(groups.sole[n] or groups.imdb[n])} - {frozenset()} for pair in pairs for n in pair}
    undecided = [(first, second) for pair in pairs for first, second in (pair, pair[::-1]) if not films[first]]
    growing = True
    while growing:
        size = sum(map(len, films.values()))
        for first, second in undecided:
            films[first] |= films[second]
        growing = sum(map(len, films.values())) > size
    return {n for pair in agreeing for n in pair if len(films[groups.root(n)]) > 1}


def _join_by_title(groups: _Groups, sharing: Sequence[int]) -> None:
    """Joins rows of one title and domain, and of one year; a game without a year joins the only game of its title."""
    if len({frozenset(groups.imdb[groups.root(n)]) for n in sharing} - {frozenset()}) > 1:
        return
    years = {groups.rows[n]["year"] for n in sharing} - {None}
    for same in [sharing] if len(years) <= 1 else _sharing((groups.rows[n]["year"], n) for n in sharing).values():
        for n in same[1:]:
            groups.join(same[0], n, "title")


def _join_by_alias(groups: _Groups) -> None:
    """Joins the only other item of a domain and year whose title a row has in brackets: "Seven (a.k.a. Se7en)"."""
    trees: dict[str, dict[int, int]] = {}  # key -> root -> row
    for n, row in enumerate(groups.rows):
        for key in (row["key"], *(row["alias_keys"] or ())):
            if key is not None:
                trees.setdefault(key, {}).setdefault(groups.root(n), n)
    aliases = {key for row in groups.rows for key in row["alias_keys"] or ()} & {row["key"] for row in groups.rows}
    pairs = [
        (first, second) for key in sorted(aliases) if len(trees[key]) == 2 for first, second in [trees[key].values()]
    ]
    ambiguous = _ambiguous(groups, pairs)
    for first, second in pairs:
        if ambiguous.isdisjoint((first, second)):
            groups.join(first, second, "title")


def _sharing(keyed: Iterable[tuple[Key | None, int]]) -> dict[Key, list[int]]:
    """The row numbers of each key that more than one row has."""
    numbers: dict[Key, list[int]] = {}
    for key, n in keyed:
        if key is not None:
            numbers.setdefault(key, []).append(n)
    return {key: sharing for key, sharing in numbers.items() if len(sharing) > 1}


def _title_key(title: str, year: int | None, domain: str) -> str | None:
    """A key of domain, year and title (games: without year, as their sources have none); None if it says too little."""
    form = titles.normal(title)
    if not form:  # "???" and "!!!" are two titles
        return None
    if domain == "game":
        return f"game {form}"
    return None if year is None else f"{domain} {year} {form}"


def _alias_keys(title: str, year: int | None, domain: str) -> list[str]:
    """The keys of the titles that a title has in brackets. The title without its brackets is no key: of 329 pairs of
    MovieLens and MovieTweetings that it alone would join, 10 are two works; of 2,376 by a bracketed title, 6."""
    return [f"{domain} {year} {form}" for form in titles.bracketed(title)] if year and domain != "game" else []


def _claims(row: Row) -> list[str]:
    """The ids that a row gives to a merged item: none if a person set the row apart, as they may be another item's."""
    return row["refs"] or [] if row["free"] else []


def _item_id(row: Row) -> str:
    return tables.digest("item", row["source"], row["source_id"])


def _items(rows: pl.DataFrame) -> pl.DataFrame:
    """ITEMS with the `trust` in each ref, one per `group` of rows: column by column, for catalogs are large."""
    rows = rows.with_columns(pl.Series("title", map(titles.spoken, rows["title"]), pl.String))
    items = rows.group_by("group", maintain_order=True).agg(
        pl.col("source", "source_id", "domain", "title").first(),
        pl.col("year").drop_nulls().first(),
        pl.col("plot").filter(pl.col("plot") != "").first(),
    )
    names = map(tables.digest, ["item"] * items.height, items["source"], items["source_id"])
    columns = [_refs_of(rows), _aliases_of(rows, items), _genres_of(rows)]
    items = items.with_columns(pl.Series("item", names, pl.String))
    for column in columns:
        items = items.join(column, "group", "left", maintain_order="left")
    return items.with_columns(pl.col("aliases", "genres").fill_null([]))


def _refs_of(rows: pl.DataFrame) -> pl.DataFrame:
    """group, refs, trust: each ref once, with the most trust in it. A row that a person set apart gives its ids to no
    item of other rows (`_claims`), and to its own as a last resort."""
    claimed = pl.col("free") | (pl.len().over("group") == 1)
    trust = pl.when("free").then(pl.col("source").replace_strict(TRUST, default=3)).otherwise(0)
    refs = rows.select("group", own="ref", trust=trust, ref=pl.when(claimed).then("refs"))
    refs = refs.with_columns(ref=pl.concat_list("own", pl.col("ref").fill_null([]))).explode("ref")
    trusts = pl.when(pl.col("ref") == pl.col("own")).then(_OWN).otherwise("trust").cast(pl.Int32)
    best = refs.group_by("group", "ref", maintain_order=True).agg(trust=trusts.max())
    return best.group_by("group", maintain_order=True).agg(refs="ref", trust="trust")


def _aliases_of(rows: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """group, aliases: the other titles of its rows, then their aliases. A title of another year than the item's has its
    year with it, so that this year is found, too."""
    rows = rows.join(items.select("group", called="title", dated="year"), "group", maintain_order="left")
    other_year = pl.format(" ({})", pl.when(pl.col("year") != pl.col("dated")).then("year"))
    titled = rows.select("group", "called", alias=pl.col("title") + other_year.fill_null(""))
    aliased = rows.select("group", "called", alias="aliases").explode("alias")
    other = pl.concat([titled, aliased]).filter(pl.col("alias") != pl.col("called")).unique(maintain_order=True)
    return other.group_by("group", maintain_order=True).agg(aliases="alias")


def _genres_of(rows: pl.DataFrame) -> pl.DataFrame:
    """group, genres: each genre once, in its first spelling and at its last place."""
    genres = rows.select("group", genre="genres").explode("genre").drop_nulls().with_row_index("last")
    folded = {genre: genre.casefold() for genre in genres["genre"].unique()}
    spelt = genres.group_by("group", pl.col("genre").replace(folded).alias("folded"), maintain_order=True)
    once = spelt.agg(pl.col("genre").first(), pl.col("last").last()).sort("last")
    return once.group_by("group", maintain_order=True).agg(genres="genre")
