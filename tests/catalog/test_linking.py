"""Which item a ref or a title with its year names: one, or none."""

import json

import polars as pl
import pytest

from saferec_builder import catalog
from saferec_builder.catalog.linking import matches
from saferec_builder.sources import movielens, redial, redial_items
from tests.worlds.shelves import shelf

FILMS = shelf(
    ("redial:1", "Alien", 1979, ["imdb:tt0078748"]),
    ("redial:2", "Aliens", 1986),
    ("redial:3", "It", 2017),
    ("redial:4", "Birdman or (Ignorance)", 2014),
    ("redial:5", "(500) Days of Summer", 2009),
    ("redial:6", "Emma", 1996, ["imdb:tt0116191"]),
    ("redial:7", "Emma", 1996, ["imdb:tt0118308"]),
    ("csv:8", "Alien", 1979, [], {"domain": "game"}),
    ("csv:9", "Otherwise", 1990, ["imdb:tt0000009"]),
    ("demo:9", "In Another Way (Otherwise)", 1992, ["imdb:tt0000009"]),
    ("redial:10", "Shaun of the Dead", 2004),
    ("redial:11", "The Dead", 2010),
    ("csv:12", "The Thing", 2011, ["imdb:tt0000012"]),
    ("demo:12", "The Thing", 1982, ["imdb:tt0000012"]),  # with the year of another film
    ("redial:13", "The Thing", 1982, ["imdb:tt0000013"]),
)


ITEMS, LINKS = catalog.merge(FILMS)
INDEX = catalog.index(ITEMS)
ID = {ref: item for ref, item in LINKS.iter_rows()}


def test_link_answers_only_what_names_one_item():
    expected = {"redial:1": ID["redial:1"], "imdb:tt0078748": ID["redial:1"], "title:ALIENS (1987)": ID["redial:2"]}
    unknown = ("title:Emma (1996)", "title:Nope (2022)", "redial:99", "x")
    assert catalog.link([*expected, *unknown], LINKS, INDEX) == expected
    assert catalog.link(["title:Alien (1979)"], LINKS, INDEX) == {}  # a film and a game
    assert matches(["title:Alien (1979)"], LINKS, INDEX, "game")["title:Alien (1979)"].item == ID["csv:8"]
    assert catalog.link([f"item:{ID['redial:3']}"], LINKS, INDEX) == {f"item:{ID['redial:3']}": ID["redial:3"]}


def test_every_source_finds_the_item_under_its_own_title_and_year():
    expected = dict.fromkeys(("title:In Another Way (1992)", "title:Otherwise (1990)"), ID["csv:9"])
    # but where another item has that title and year itself, it is the one that is meant
    expected |= {"title:The Thing (1982)": ID["redial:13"], "title:Thing, The (2011)": ID["csv:12"]}
    assert catalog.link(list(expected), LINKS, INDEX) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I liked Aliens (1986) a lot", [("Aliens (1986)", "redial:2")]),
        ("Aliens (1986)", [("Aliens (1986)", "redial:2")]),
        ('1. "aliens" (1986)\n2. It [2017], really', [('aliens" (1986)', "redial:2"), ("It [2017]", "redial:3")]),
        ("- (500) Days of Summer (2009)", [("(500) Days of Summer (2009)", "redial:5")]),
        ("Birdman or (Ignorance) (2014)!", [("Birdman or (Ignorance) (2014)", "redial:4")]),
        ("It (1990), Emma (1996), Alien (1979)", []),  # another year; two of them; a film and a game
        ("I saw it in (2017)", []),
        ("Aliens\n(1986)", []),  # a title and its year must be on one line
        ("(1986)", []),
        ("", []),
        ("🧑‍🚀 The Aliens (1986)", [("The Aliens (1986)", "redial:2")]),
        # the end of a longer title is no film itself, unless it has that year and the longer one is in no catalog
        ("Try Shaun of the Dead (2008), Dawn of the Dead (2009)", []),
        ("shaun of the dead (2008) or Shaun of the Dead (2010)", []),
        ("Dawn of the Dead (2010)", [("the Dead (2010)", "redial:11")]),
        ("Loved The Dead (2009) and Aliens (1987)", [("The Dead (2009)", "redial:11"), ("Aliens (1987)", "redial:2")]),
    ],
)
def test_mentions_of_titles_with_their_year(text, found):
    mentions = [(text[start:end], item) for start, end, item in catalog.mentions(text, INDEX)]
    assert mentions == [(quote, ID[ref]) for quote, ref in found]


@pytest.mark.slow
def test_movielens_and_redial_together(real_data):
    films = movielens.read(real_data / "movielens_small")
    ids = redial_items.read(real_data / "redial" / "ievalm_id2info.json")
    # of ReDial's 6,583 films two have no name: "(2015)", "(2007)"
    assert (films.rows.height, films.drops.height, ids.rows.height, ids.drops.height) == (9742, 0, 6581, 2)
    rows = pl.concat([films.rows, ids.rows])
    items, links = catalog.merge(rows)
    imdb = items.select(pl.col("refs").list.eval(pl.element().filter(pl.element().str.starts_with("imdb:"))))["refs"]
    assert imdb.list.len().max() == 1
    # every row is in exactly one item; the ids of ReDial that name another film join nothing and are reported
    conflicts = catalog.merges(rows).filter(pl.col("by") == "id conflict")
    assert 100 < conflicts.height < 250
    claimed = imdb.explode().drop_nulls()
    assert claimed.len() - claimed.n_unique() <= conflicts.height
    heat = [i for i in items.filter(pl.col("title") == "Heat").to_dicts() if "movielens:6" in i["refs"]]
    assert [(i["year"], "imdb:tt0113277" in i["refs"]) for i in heat] == [(1995, True)]
    linked = links.filter(pl.col("ref").str.contains("^(movielens|redial):"))
    assert (linked.height, linked["item"].n_unique()) == (9742 + 6581, items.height)
    # titles with a year link to the right film without their id
    mentioned = {}
    for path in sorted((real_data / "redial").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            mentioned |= {k: redial.clean(v) for k, v in dict(json.loads(line)["movieMentions"] or {}).items() if v}
    gold = dict(links.iter_rows())
    dated = {f"title:{title}": gold.get(f"redial:{i}") for i, title in mentioned.items() if title.endswith(")")}
    dated = {ref: item for ref, item in dated.items() if item}
    found = catalog.link(dated, links, catalog.index(items))
    assert len(dated) > 2300
    # the film of 1988 is in MovieLens; ReDial's id of it is that of the remake
    assert [ref for ref, item in found.items() if item != dated[ref]] == ["title:The Bourne Identity (1988)"]
    assert len(found) / len(dated) >= 0.99
