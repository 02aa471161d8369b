"""How well known works are, and which works the titles of a list mean together."""

import polars as pl

from saferec_builder import catalog
from saferec_builder.catalog import known_works
from saferec_builder.core.undated import Known
from saferec_builder.sources import item_rows as made
from saferec_builder.storage import tables


def _items(*films):
    rows = [
        made.item("csv", str(n), "f", domain="film", title=title, year=year, refs=[f"imdb:tt{n}"])
        for n, (title, year) in enumerate(films)
    ]
    return catalog.merge(made.items_read(rows, []).rows)


def test_what_is_known_is_counted_once_for_each_item_and_conversation():
    items, links = _items(("Heat", 1995), ("Emma", 1996))
    heat, emma = items["item"]
    kinds = pl.DataFrame(
        [(heat, "reason"), (heat, "keyword"), (heat, "tag"), (heat, "topic")], schema=["item", "kind"], orient="row"
    )
    talks = [("a", ["imdb:tt0", "csv:0", "title:Emma"]), ("b", ["imdb:tt0"])]  # one film by two ids; a title is a guess
    row = {"turns": [], "accepted": [], "seen": []}
    names = ("conversation", "turns", "recommended", "accepted", "seen")
    chats = pl.DataFrame(
        [{"conversation": name, "recommended": refs, **row} for name, refs in talks],
        schema={name: tables.CONVERSATIONS.schema[name] for name in names},
    )
    assert known_works.familiarity(items, links, kinds, chats) == {heat: Known(2, 1, 2, 2), emma: Known(2, 0, 0, 0)}


def test_a_list_tells_two_works_of_a_title_apart():
    old_films, new_films = [(f"Old {n}", 1940 + n) for n in range(4)], [(f"New {n}", 2010 + n) for n in range(4)]
    items, _ = _items(("War", 1941), ("War", 2012), *old_films, *new_films)
    works = known_works.works(items, dict.fromkeys(items["item"], Known(2, 1, 3, 0)))
    index, year = catalog.index(items, works), dict(items.select("item", "year").iter_rows())
    for companions, expected in ((old_films, 1941), (new_films, 2012)):
        matches = known_works.match_list(index, ["War", *(title for title, _ in companions), "Nope"], "film")
        assert (year[matches["War"].item], matches["Nope"].match) == (expected, "not_found")
    # one title alone is ambiguous, and a year in the list decides
    matches = known_works.match_list(index, ["War", "War (2012)"], "film")
    assert (matches["War"].match, year[matches["War (2012)"].item]) == ("ambiguous", 2012)
    # bold, and a reason after it; what is in brackets may be another work's
    matches = known_works.match_list(index, ["**War** (2012) - loud", "War (uncut) (2012)", "Old 1 (uncut)"], "film")
    expected = [(2012, True), (2012, False), (1941, False)]
    assert [(year[match.item], match.exact) for match in matches.values()] == expected


def test_a_film_without_a_year_whose_title_one_dated_film_has_may_be_its_twin():
    emmas = (("Emma", None), ("Emma", 1996), ("Emma", 2020))  # it may be either
    items, _ = _items(("Heat", 1995), ("Heat", None), *emmas, ("Up", 2009))
    assert known_works.undated_twins(items).rows() == [("Heat", "csv:1", "csv:0")]
    for others in (items.with_columns(domain=pl.lit("game")), items.filter(pl.col("year").is_not_null())):
        assert known_works.undated_twins(others).rows() == []
