"""Which rows are one item: small shelves, one rule each."""

import itertools

import polars as pl
import pytest

from saferec_builder import catalog
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import UsageError
from saferec_builder.sources import movielens
from saferec_builder.storage import tables
from tests.bench import linking_gold
from tests.worlds.shelves import merged, shelf

TAXONOMY = traits.load()


def ruled(rows, *refs, undo=False):
    return pl.concat([rows, catalog.ruling(rows, list(refs), undo=undo)])


def test_rows_that_share_an_external_id_are_one_item():
    details = {"genres": ["Drama", "War", "drama"], "aliases": ["Der Postmann", "The Postman (Il Postino)"]}
    items, links = merged(
        ("movielens:1", "Postman, The (Postino, Il)", 1994, ["imdb:tt0110877", "tmdb:11010"], details),
        ("redial:7", "Il postino", 1995, ["imdb:tt0110877"], {"plot": "A poet and his postman.", "genres": ["drama"]}),
        ("csv:2", "Big", None),
    )
    item, alone = items.to_dicts()
    assert (item["title"], item["year"], item["plot"]) == ("The Postman (Il Postino)", 1994, "A poet and his postman.")
    assert item["item"] == tables.digest("item", "movielens", "1")
    assert item["refs"] == ["movielens:1", "imdb:tt0110877", "tmdb:11010", "redial:7"]
    # a title of another year has it; of a genre the first spelling, and the last place
    assert (item["aliases"], item["genres"]) == (["Il postino (1995)", "Der Postmann"], ["War", "Drama"])
    assert {"movielens:1", "redial:7", "imdb:tt0110877", "tmdb:11010"} < set(links["ref"])
    assert list(alone.values())[2:] == ["Big", None, ["csv:2"], [], [], None]


def test_rows_of_one_title_year_and_domain_are_one_item():
    items, _ = merged(
        ("csv:a", "Alien", 1979),
        ("demo:b", "ALIEN", 1979),
        ("csv:c", "Alien", 1980),
        ("csv:d", "Alien", 1979, [], {"domain": "game"}),
        ("csv:e", "Alien", None),
        ("demo:f", "Alien", None),
    )
    assert items["refs"].to_list() == [["csv:a", "demo:b"], ["csv:c"], ["csv:d"], ["csv:e"], ["demo:f"]]


def test_a_title_in_brackets_joins_the_only_other_item_that_has_it():
    """MovieLens' "Dumb & Dumber (Dumb and Dumber)" and "Dumb and Dumber" of a source without ids were two items."""
    lens = [("movielens:231", "Dumb & Dumber (Dumb and Dumber)", 1994, ["imdb:tt1"])]
    lens += [("movielens:47", "Seven (a.k.a. Se7en)", 1995, ["imdb:tt2"]), ("movielens:3", "Ritual (Shiki)", 2000)]
    own = [("csv:d", "Dumb and Dumber", 1994), ("redial:s", "Se7en", 1995)]
    # the title without its brackets may be another work's, and so may be the year before
    other = [("csv:r", "Ritual", 2000), ("csv:e", "Se7en", 1996)]
    expected = {frozenset({"movielens:231", "csv:d", "imdb:tt1"}), frozenset({"movielens:47", "redial:s", "imdb:tt2"})}
    for rows in ([*lens, *own, *other], [*other, *own, *lens[::-1]]):
        items = {frozenset(refs) for refs in merged(*rows)[0]["refs"]}
        assert expected < items and len(items) == 5
    rows = shelf(*lens, *own)
    assert ["csv:d"] in catalog.merge(ruled(rows, "csv:d"))[0]["refs"].to_list()


@pytest.mark.slow
def test_a_title_in_brackets_that_may_be_of_two_works_joins_none():
    boy, shonen = ("csv:a", "Boy (Shonen)", 1969, ["imdb:tt1"]), ("demo:s", "Shonen", 1969)
    two_films = [boy, shonen, ("csv:b", "Youth (Shonen)", 1969)]
    two_ids = [boy, (*shonen, ["imdb:tt2"])]
    # one work under two titles, of which each is in the brackets of another film
    chain = [boy, (*shonen, ["tmdb:5"]), ("movielens:1", "Knabe", 1969, ["tmdb:5"])]
    chain += [("csv:b", "Lad (Knabe)", 1969, ["imdb:tt2"])]
    for rows, height in ((two_films, 3), (two_ids, 2), (chain, 3)):
        for order in itertools.permutations(rows):
            assert merged(*order)[0].height == height


def test_titles_without_a_letter_are_not_one_title():
    game = {"domain": "game"}
    films = [("csv:a", "???", 1999), ("csv:b", "!!!", 1999)]
    assert merged(*films, ("csv:c", "…", None, [], game), ("csv:d", "∀∃", None, [], game))[0].height == 4


@pytest.mark.parametrize("other", ["game", "book"])
def test_a_film_is_no_game_or_book_though_they_share_an_id_and_a_title(other):
    rows = [("csv:a", "Emma", 1996, ["wikidata:q1"]), ("csv:b", "Emma", 1996, ["wikidata:q1"], {"domain": other})]
    assert merged(*rows)[0].height == 2
    series = [rows[0], (*rows[1][:4], {"domain": "series"})]  # sources differ in what is a series
    assert merged(*series)[0].height == 1


def test_two_imdb_ids_are_never_one_item():
    emma = [("csv:a", "Emma", 1996, ["imdb:tt0116191"]), ("csv:b", "Emma", 1996, ["imdb:tt0118308"])]
    assert merged(*emma)[0].height == 2
    # a third row has only title and year: it could be either, so it is neither
    assert merged(*emma, ("csv:c", "Emma", 1996))[0].height == 3
    # another shared id joins nothing either, and then names neither
    items, links = merged(
        ("csv:a", "X", 1, ["imdb:tt0000001", "tmdb:5"]), ("csv:b", "Y", 1, ["imdb:tt0000002", "tmdb:5"])
    )
    assert items.height == 2
    assert "tmdb:5" not in links["ref"].to_list()
    # nor does a chain of rows: c shares one id with each
    chain = [("csv:a", "X", 1, ["imdb:tt0000001", "tmdb:5"]), ("csv:b", "X", 2, ["imdb:tt0000002", "tmdb:6"])]
    items, _ = merged(*chain, ("csv:c", "X", 1, ["tmdb:5", "tmdb:6"]))
    assert sorted(sum(ref.startswith("imdb:") for ref in refs) for refs in items["refs"]) == [1, 1]
    # nor one row that has both ids
    ambiguous = ("csv:c", "X", 1, ["imdb:tt0000001", "imdb:tt0000002"])
    for rows in itertools.permutations([*chain, ambiguous]):
        groups = [{"csv:a", "csv:b", "csv:c"} & set(refs) for refs in merged(*rows)[0]["refs"]]
        assert sorted(map(sorted, groups)) == [["csv:a", "csv:c"], ["csv:b"]]


@pytest.mark.slow
def test_no_order_of_rows_or_ids_decides_which_rows_are_one_item():
    def shelves(*rows):
        for order in itertools.permutations(rows):
            for turned in (False, True):
                turned_rows = [(*row[:3], row[3][::-1] if turned else row[3]) for row in order]
                yield {frozenset(refs) for refs in merged(*turned_rows)[0]["refs"]}

    # c has the ids of two films: it is one of them, and always the same
    films = [("csv:a", "Emma", 1996, ["imdb:tt1", "tmdb:5"]), ("csv:b", "Emma", 1997, ["imdb:tt2", "tmdb:6"])]
    results = list(shelves(*films, ("ddd:c", "Emma", 1996, ["tmdb:5", "tmdb:6"])))
    assert [items == results[0] for items in results] == [True] * 12
    # two rows have the ids of two films each
    films = [("csv:a", "Alien", 2000, ["imdb:tt2", "imdb:tt3"]), ("csv:d", "Heat", 2000, ["imdb:tt1", "imdb:tt3"])]
    films += [("movielens:b", "Heat", 2003, ["imdb:tt3"]), ("movielens:c", "Alien", 2003, ["imdb:tt2"])]
    results = list(shelves(*films))
    assert [items == results[0] for items in results] == [True] * 48
    # an id that two films share shows only that c is one of them: it joins neither
    films = [("csv:a", "Emma", 1995, ["imdb:tt1", "tmdb:5"]), ("csv:b", "Emma", 1997, ["imdb:tt2", "tmdb:5"])]
    expected = {frozenset((ref, refs[0])) for ref, _, _, refs in films} | {frozenset(["ddd:c"])}
    assert list(shelves(*films, ("ddd:c", "Emma", 1996, ["tmdb:5"]))) == [expected] * 12
    # nor if it agrees with each through another row, which is compared with one film only
    chain = [("Emma", ["imdb:tt1"]), ("Kim", []), ("Zulu", []), ("Big", ["imdb:tt2"])]
    rows = [(f"csv:{n}", title, 1995 + n, [*ids, "tmdb:5"]) for n, (title, ids) in enumerate(chain)]
    expected = {frozenset([f"csv:{n}", *ids]) for n, (_, ids) in enumerate(chain)}
    assert list(shelves(*rows)) == [expected] * 48


def test_a_later_source_renames_no_item():
    rows = [("movielens:1", "Alien", 1979, ["imdb:tt0078748"]), ("movielens:2", "Heat", 1995, ["imdb:tt0113277"])]
    more = [("redial:9", "Heat", 1995, ["imdb:tt0113277"]), ("redial:8", "Big", 1988, ["imdb:tt0094737"])]
    items_before, _ = merged(*rows)
    items_after, _ = merged(*rows, *more)
    assert items_after["item"].to_list()[:2] == items_before["item"].to_list()
    # in the other order the items are the same, named after the other rows
    assert merged(*more, *rows)[0]["refs"].list.sort().to_list()[0] == ["imdb:tt0113277", "movielens:2", "redial:9"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("Heat", 1996), ("Poison Ivy II", 1996), False),  # same id and year, but another film
        (("Heat", 1995), ("Heat", 1996), True),
        (("Heat", None), ("Heat", 1995), True),
        (("Mansfield Park", 2007), ("Mansfield Park", 1999), False),  # the same title, but the years differ
        (("Borat", 2006), ("Borat: Cultural Learnings", 2006), True),
        (("Borat", 2006), ("Borat: Cultural Learnings", None), False),
        (("Harry Potter", None), ("Harry Potter and the Chamber of Secrets", 2002), False),
        (("Van Wilder", 2002), ("National Lampoon's Van Wilder", 2002), True),
        (("Wanted", 2015), ("Hot Girls Wanted", 2015), False),
        (("Hate (Haine, La)", 1995), ("La Haine", 1995), True),
    ],
)
def test_an_id_joins_only_rows_that_agree_otherwise(one, other, same):
    shared = [("movielens:1", *one, ["imdb:tt0000001"]), ("redial:2", *other, ["imdb:tt0000001"])]
    items, links = merged(*shared)
    assert items.height == 2 - same
    # of two items with one id, the id means the one whose source did not find it by title and year
    assert dict(links.iter_rows())["imdb:tt0000001"] == tables.digest("item", "movielens", "1")
    merges = catalog.merges(shelf(*shared))["by", "row", "other"].rows()
    assert merges == [("imdb:tt0000001" if same else "id conflict", "redial:2", "movielens:1")]


def test_an_id_of_two_films_that_agree_but_for_their_imdb_ids_is_a_conflict():
    """Nothing listed the 16 TMDB ids that MovieLens and TMDB itself give to two films, though they name neither."""
    heat = ("Heat", 1995)
    rows = shelf(("movielens:1", *heat, ["imdb:tt1", "tmdb:5"]), ("demo:a", *heat, ["imdb:tt2", "tmdb:5"]))
    assert "tmdb:5" not in catalog.merge(rows)[1]["ref"]
    assert catalog.merges(rows)["row", "by", "other"].rows() == [("demo:a", "id conflict", "movielens:1")]


def test_a_film_and_a_series_of_one_tmdb_number_are_two_works():
    """ "Supernatural" and the film "Lemming" were one item: TMDB has both under 1622, of the same year."""
    series = ("csv:s", "Supernatural", 2005, ["tmdb:1622"], {"domain": "series"})
    film = ("movielens:1", "Lemming", 2005, ["imdb:tt1", "tmdb:1622"])
    assert catalog.merges(shelf(series, film)).is_empty()
    for rows, named in (((series,), "csv:s"), ((series, film), "movielens:1"), ((film, series), "movielens:1")):
        assert dict(merged(*rows)[1].iter_rows())["tmdb:1622"] == tables.digest("item", *named.split(":"))
    # two sources of series share it as two sources of films do
    assert merged(series, ("ddd:7", *series[1:]))[0].height == 1


def test_a_disputed_id_belongs_to_the_row_of_its_own_source():
    rows = [("redial:2", "Heat", 1996, ["imdb:tt0000001"]), ("imdb:tt0000001", "Poison Ivy II", 1996)]
    items, links = merged(*rows)
    by_ref = dict(links.iter_rows())
    assert items.height == 2
    assert by_ref["imdb:tt0000001"] == tables.digest("item", "imdb", "tt0000001")
    assert by_ref["redial:2"] == tables.digest("item", "redial", "2")
    # so it does not name Heat: mining stores the IMDb id of a named item if it has one
    assert items["refs"].to_list() == [["redial:2"], ["imdb:tt0000001"]]


GOODFELLAS = ("movielens:1213", "Goodfellas", 1990, ["imdb:tt0099685"])


@pytest.mark.parametrize(
    ("others", "meant"),
    [
        ([("redial:204794", "It", 1990, ["imdb:tt0099685"])], "movielens 1213"),
        ([("redial:1", "It", 1990, ["imdb:tt0099685"]), ("ddd:1", "It", 1990, ["imdb:tt0099685"])], "movielens 1213"),
        ([("csv:1", "It", 2017, ["imdb:tt0099685"])], "movielens 1213"),  # people's own tables have slips
        ([("demo:1", "It", 2017, ["imdb:tt0099685"])], None),  # an equally good source: either may be wrong
        # if an item has a row of such a source, the ids of that row count
        ([("redial:1", "It", 1990, ["imdb:tt0099685"]), ("csv:1", "It", 1990)], "movielens 1213"),
        ([("imdb:tt0099685", "It", 2017)], "imdb tt0099685"),
    ],
)
def test_an_id_that_was_found_by_title_takes_none_from_a_source_that_knows_it(others, meant):
    """35 films of MovieLens lost their statements to wrong ids of ReDial, and Goodfellas was clear."""
    for rows in ([GOODFELLAS, *others], [*others[::-1], GOODFELLAS]):
        owner = dict(merged(*rows)[1].iter_rows()).get("imdb:tt0099685")
        assert owner == (meant and tables.digest("item", *meant.split()))


def test_of_two_sources_that_found_an_id_by_title_neither_has_it():
    items, links = merged(("redial:1", "It", 1990, ["imdb:tt1"]), ("ddd:1", "Heat", 1995, ["imdb:tt1"]))
    assert "imdb:tt1" not in links["ref"]
    # nor is it listed as an id of either: `catalog show` would not find it
    assert items["refs"].to_list() == [["redial:1"], ["ddd:1"]]


def test_a_merge_can_be_undone_and_done_again():
    rows = shelf(("csv:a", "Alien", 1979), ("demo:b", "ALIEN", 1979), ("redial:c", "Alien", 1979))
    merges = [(row, "title", "csv:a") for row in ("demo:b", "redial:c")]
    assert catalog.merges(rows)["row", "by", "other"].rows() == merges
    apart = ruled(rows, "demo:b")
    assert catalog.merge(apart)[0]["refs"].to_list() == [["csv:a", "redial:c"], ["demo:b"]]
    undone = ruled(apart, "demo:b", undo=True)
    assert catalog.merge(undone)[0]["refs"].to_list() == [["csv:a", "demo:b", "redial:c"]]
    with pytest.raises(UsageError, match="csv:z"):
        catalog.ruling(rows, ["csv:z"], undo=False)


SHARED = [  # two rows of one IMDb id: sources, titles and years, one item?
    ("movielens", "Battleship Potemkin", 1925, "csv", "Bronenosets Potyomkin", 1925, True),  # both trusted, same year
    ("movielens", "Jezebel", 1938, "csv", "Een gevaarlijke vrouw", 1939, True),
    ("movielens", "Ear, The (Ucho)", 1970, "csv", "Ucho", 1990, True),  # the years differ, the titles are alike
    ("movielens", "Andrei Rublev", 1969, "csv", "Andrey Rublyov", 1962, True),
    ("movielens", "Jezebel", 1938, "csv", "Een gevaarlijke vrouw", 1940, False),
    ("movielens", "Heat", 1995, "redial", "It", 1995, False),  # ReDial found its ids by title and year
    ("movielens", "Mr. & Mrs. Smith", 1941, "redial", "Mr. &amp; Mrs. Smith", 1941, True),
    ("movielens", "Dracula's Daughter", 1936, "redial", "Dracula&x27;s Daughter", 1936, True),
]


@pytest.mark.parametrize(("source", "title", "year", "other", "called", "dated", "one"), SHARED)
def test_an_id_joins_as_far_as_its_sources_are_trusted(source, title, year, other, called, dated, one):
    rows = [(f"{source}:1", title, year, ["imdb:tt1"]), (f"{other}:2", called, dated, ["imdb:tt1"])]
    assert [merged(*order)[0].height for order in (rows, rows[::-1])] == [2 - one] * 2


def test_a_person_joins_two_rows_whatever_keeps_them_apart_and_takes_it_back():
    rows = shelf(("csv:a", "It", 1990, ["imdb:tt1"]), ("redial:b", "Es", 2017, ["imdb:tt2"]), ("csv:c", "Up", 2009))
    joined = ruled(rows, "redial:b", "csv:a")
    assert catalog.merge(joined)[0]["refs"].to_list() == [["csv:a", "imdb:tt1", "redial:b", "imdb:tt2"], ["csv:c"]]
    assert catalog.merges(joined).select("row", "by", "other").rows() == [("redial:b", "joined by a person", "csv:a")]
    assert catalog.ruling(joined, ["csv:a", "redial:b"], undo=False) is None  # the pair has no order
    assert catalog.merge(ruled(joined, "csv:a", "redial:b", undo=True))[0].height == 3
    # until `catalog add` has brought a lost shard back, the ruling waits for its rows
    assert catalog.merge(joined.filter(pl.col("source") != "redial"))[0].height == 2
    # a row set apart by a person stays out of every merge but this one
    assert catalog.merge(ruled(joined, "csv:a"))[0].height == 2


@pytest.mark.slow
def test_real_catalogs_that_share_ids_hardly_conflict(real_data):
    """396 films of MovieLens and MovieTweetings were there twice, and the statements under one id were lost."""
    lens = movielens.read(real_data / "movielens_small").rows
    assert catalog.merges(pl.concat([lens, linking_gold.tweeted(real_data)])).filter(by="id conflict").height <= 5


def test_a_row_that_is_set_apart_leaves_the_id_to_the_others():
    """A wrong row took IMDb's id from two sources that agree on it, and with it every warning under that id."""
    heat = [("movielens:6", "Heat", 1995, ["imdb:tt1"]), ("csv:h", "Heat", 1995, ["imdb:tt1"])]
    rows = shelf(*heat, ("demo:2", "Poison", 1979, ["imdb:tt1", "tmdb:5"]))
    assert "imdb:tt1" not in catalog.merge(rows)[1]["ref"]
    links = dict(catalog.merge(ruled(rows, "demo:2"))[1].iter_rows())
    assert links["imdb:tt1"] == tables.digest("item", "movielens", "6")
    assert links["tmdb:5"] == tables.digest("item", "demo", "2")  # no other row has it
    # the row of the id's own source keeps it, even if set apart
    rows = shelf(*heat, ("imdb:tt1", "Heat", 1995, ["imdb:tt1"]))
    links = dict(catalog.merge(ruled(rows, "imdb:tt1"))[1].iter_rows())
    assert links["imdb:tt1"] == tables.digest("item", "imdb", "tt1")


def test_a_row_that_is_set_apart_and_joined_with_another_gives_that_one_no_id():
    """Votes on Poison Ivy counted for Heat again, by the id because of which its row was set apart."""
    heat, poison = ("csv:6", "Heat", 1995, ["imdb:tt1"]), ("csv:7", "Poison Ivy", 1996, ["imdb:tt2"])
    for competitors in ([poison], []):
        rows = shelf(heat, *competitors, ("demo:8", "Heat", 1996, ["imdb:tt2"]))
        for refs in (["demo:8"], ["demo:8", "csv:6"]):
            rows = ruled(rows, *refs)
        items, links = catalog.merge(rows)
        assert items["refs"].to_list() == [["csv:6", "imdb:tt1", "demo:8"], *[["csv:7", "imdb:tt2"]] * len(competitors)]
        expected = [tables.digest("item", "csv", "7")] * len(competitors)
        assert links.filter(ref="imdb:tt2")["item"].to_list() == expected


def test_a_game_without_a_year_is_the_one_game_of_its_title():
    game = {"domain": "game"}
    for year in (1989, None):
        tetris = [("csv:a", "Tetris", year, [], game), ("esrb:b", "TETRIS®", None, [], game)]
        assert merged(*tetris)[0].select("year", "refs").rows() == [(year, ["csv:a", "esrb:b"])]
    doom = [("csv:a", "Doom", 1993, [], game), ("csv:b", "Doom", 2016, [], game), ("esrb:c", "DOOM", None, [], game)]
    items, links = merged(*doom)
    assert items.height == 3
    named = catalog.link(["title:Doom (2016)", "title:Doom"], links, catalog.index(items))
    assert named == {"title:Doom (2016)": tables.digest("item", "csv", "b")}


def test_no_rows_no_items():
    items, links = catalog.merge(tables.CATALOG_ROWS.empty)
    assert (items.height, links.height) == (0, 0)
    oracle, risk = catalog.risks(items, links, tables.WARNINGS.empty, TAXONOMY)
    assert (len(oracle.items), risk.shape) == (0, (0, 20))
