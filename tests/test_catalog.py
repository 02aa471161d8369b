"""The catalog in small shelves: what merges, what a ref or a text means, and where each risk comes from."""

import numpy as np
import polars as pl
import pytest

from saferec_builder import catalog, tables, traits, violations
from saferec_builder.sources import items as made
from saferec_builder.traits import Taxonomy

TAXONOMY = traits.load()


def shelf(*rows):
    """CATALOG_ROWS from (source:id, title, year, refs, more)."""
    built = []
    for name, title, year, *rest in rows:
        source, own = name.split(":")
        more = {"domain": "film"} | (rest[1] if len(rest) > 1 else {})
        built.append(made.item(source, own, "f:1", title=title, year=year, refs=rest[0] if rest else (), **more))
    return made.items_read(built, []).rows


def merged(*rows):
    return catalog.merge(shelf(*rows))


def statement(ref, topic="Is there blood/gore", kind="topic", source="csv", **said):
    return made.warning(source, "f:1", ref, kind=kind, topic=topic, **said)


def said(*rows):
    return made.warnings_read(list(rows), []).rows


# ---- merging


def test_rows_that_share_an_external_id_are_one_item():
    items, links = merged(
        ("movielens:1", "Postman, The (Postino, Il)", 1994, ["imdb:tt0110877", "tmdb:11010"]),
        ("redial:7", "Il postino", None, ["imdb:tt0110877"], {"plot": "A poet and his postman.", "genres": ["drama"]}),
    )
    item = items.row(0, named=True)
    assert items.height == 1
    assert (item["title"], item["year"], item["plot"]) == ("The Postman (Il Postino)", 1994, "A poet and his postman.")
    assert item["item"] == tables.digest("item", "movielens", "1")
    assert item["refs"] == ["movielens:1", "imdb:tt0110877", "tmdb:11010", "redial:7"]
    assert {"movielens:1", "redial:7", "imdb:tt0110877", "tmdb:11010"} < set(links["ref"])


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


def test_games_have_no_years_and_films_without_one_stay_apart():
    game = {"domain": "game"}
    items, _ = merged(("csv:a", "Tetris", None, [], game), ("demo:b", "Tetris", None, [], game))
    assert items.height == 1


def test_two_imdb_ids_are_never_one_item():
    emma = [("csv:a", "Emma", 1996, ["imdb:tt0116191"]), ("csv:b", "Emma", 1996, ["imdb:tt0118308"])]
    assert merged(*emma)[0].height == 2
    # a third row says only title and year: it could be either, so it is neither
    assert merged(*emma, ("csv:c", "Emma", 1996))[0].height == 3
    # a shared id elsewhere joins nothing either, and then names neither
    items, links = merged(
        ("csv:a", "X", 1, ["imdb:tt0000001", "tmdb:5"]), ("csv:b", "Y", 1, ["imdb:tt0000002", "tmdb:5"])
    )
    assert items.height == 2
    assert "tmdb:5" not in links["ref"].to_list()
    # and no chain of rows may do it: c shares one id with each
    chain = [("csv:a", "X", 1, ["imdb:tt0000001", "tmdb:5"]), ("csv:b", "Y", 1, ["imdb:tt0000002", "tmdb:6"])]
    items, _ = merged(*chain, ("csv:c", "Z", 1, ["tmdb:5", "tmdb:6"]))
    assert sorted(sum(ref.startswith("imdb:") for ref in refs) for refs in items["refs"]) == [1, 1]


def test_a_later_source_renames_no_item():
    first = [("movielens:1", "Alien", 1979, ["imdb:tt0078748"]), ("movielens:2", "Heat", 1995, ["imdb:tt0113277"])]
    later = [("redial:9", "Heat", 1995, ["imdb:tt0113277"]), ("redial:8", "Big", 1988, ["imdb:tt0094737"])]
    before, _ = merged(*first)
    after, _ = merged(*first, *later)
    assert after["item"].to_list()[:2] == before["item"].to_list()
    # in the other order the items are the same, named after the other rows
    assert merged(*later, *first)[0]["refs"].list.sort().to_list()[0] == ["imdb:tt0113277", "movielens:2", "redial:9"]


def test_no_rows_no_items():
    items, links = catalog.merge(tables.CATALOG_ROWS.empty)
    assert (items.height, links.height) == (0, 0)
    oracle, risk = catalog.risks(items, links, tables.WARNINGS.empty, TAXONOMY)
    assert (len(oracle.items), risk.shape) == (0, (0, 20))


# ---- links and mentions


FILMS = shelf(
    ("redial:1", "Alien", 1979, ["imdb:tt0078748"]),
    ("redial:2", "Aliens", 1986),
    ("redial:3", "It", 2017),
    ("redial:4", "Birdman or (The Unexpected Virtue of Ignorance)", 2014),
    ("redial:5", "(500) Days of Summer", 2009),
    ("redial:6", "Emma", 1996, ["imdb:tt0116191"]),
    ("redial:7", "Emma", 1996, ["imdb:tt0118308"]),
    ("csv:8", "Alien", 1979, [], {"domain": "game"}),
    ("csv:9", "Otherwise", 1990, ["imdb:tt0000009"]),
    ("demo:9", "In Another Way", 1994, ["imdb:tt0000009"]),
)
ITEMS, LINKS = catalog.merge(FILMS)
INDEX = catalog.index(ITEMS)
ID = {ref: item for ref, item in LINKS.iter_rows()}


def test_link_answers_only_what_names_one_item():
    refs = [
        "redial:1",
        "imdb:tt0078748",
        "title:ALIENS (1987)",
        "title:Emma (1996)",
        "title:Nope (2022)",
        "redial:99",
        "x",
    ]
    assert catalog.link(refs, LINKS, INDEX) == {
        "redial:1": ID["redial:1"],
        "imdb:tt0078748": ID["redial:1"],
        "title:ALIENS (1987)": ID["redial:2"],
    }
    assert catalog.link(["title:Alien (1979)"], LINKS, INDEX) == {}  # a film and a game
    assert catalog.link(["title:Alien (1979)"], LINKS, INDEX, "game") == {"title:Alien (1979)": ID["csv:8"]}
    assert catalog.link([f"item:{ID['redial:3']}"], LINKS, INDEX) == {f"item:{ID['redial:3']}": ID["redial:3"]}


def test_every_source_finds_the_item_under_its_own_title_and_year():
    assert catalog.link(["title:In Another Way (1994)", "title:Otherwise (1990)"], LINKS, INDEX) == {
        "title:In Another Way (1994)": ID["csv:9"],
        "title:Otherwise (1990)": ID["csv:9"],
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I liked Aliens (1986) a lot", [("Aliens (1986)", "redial:2")]),
        ('1. "aliens" (1986)\n2. It [2017], really', [('aliens" (1986)', "redial:2"), ("It [2017]", "redial:3")]),
        ("- (500) Days of Summer (2009)", [("(500) Days of Summer (2009)", "redial:5")]),
        (
            "Birdman or (The Unexpected Virtue of Ignorance) (2014)!",
            [("Birdman or (The Unexpected Virtue of Ignorance) (2014)", "redial:4")],
        ),
        ("It (1990), Emma (1996), Alien (1979)", []),  # another year; two of them; a film and a game
        ("I saw it in (2017)", []),
        ("Aliens\n(1986)", []),  # a title and its year stand on one line
        ("(1986)", []),
        ("", []),
        ("🧑‍🚀 The Aliens (1986)", [("The Aliens (1986)", "redial:2")]),
    ],
)
def test_mentions_of_titles_with_their_year(text, found):
    assert [(text[start:end], item) for start, end, item in catalog.mentions(text, INDEX)] == [
        (quote, ID[ref]) for quote, ref in found
    ]


# ---- risks


ALIEN, HEAT = "imdb:tt0078748", "imdb:tt0113277"
SMALL = merged(("movielens:1", "Alien", 1979, [ALIEN]), ("movielens:2", "Heat", 1995, [HEAT]))


def verdict(warnings, trait="gore", n=0, taxonomy=TAXONOMY):
    """(risk, word) of Alien for a trait."""
    oracle, risk = catalog.risks(*SMALL, warnings, taxonomy)
    item = SMALL[0]["item"][n]
    value = risk[n, oracle.column(trait)]
    return (None if np.isnan(value) else value), violations.verdict(oracle, item, [trait])


def test_without_a_word_from_anybody_everything_is_unknown():
    oracle, risk = catalog.risks(*SMALL, tables.WARNINGS.empty, TAXONOMY)
    assert set(oracle.codes.ravel()) == {violations.UNKNOWN}
    assert np.isnan(risk).all()


def test_votes_reach_the_item_by_id_and_by_title():
    assert verdict(said(statement(ALIEN, yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(statement("title:Alien (1979)", yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(statement("title:Alien (1979)", yes=8, no=0, domain="film"))) == (1.0, "violated")
    # of another domain, of another year, of nobody
    for other in (
        statement("title:Alien (1979)", yes=8, no=0, domain="game"),
        statement("title:Alien (1999)", yes=8, no=0),
        statement("imdb:tt9999999", yes=8, no=0),
    ):
        assert verdict(said(other)) == (None, "unknown")
    assert verdict(said(statement(ALIEN, yes=8, no=0)), n=1) == (None, "unknown")  # Heat


def test_a_question_is_the_same_with_its_mark_and_without_capitals():
    assert verdict(said(statement(ALIEN, "is there  Blood/Gore?", yes=8, no=0))) == (1.0, "violated")


def test_both_core_topics_clear_gore():
    one = statement(ALIEN, "Is there blood/gore", yes=0, no=8)  # P(no) = 9/10
    other = statement(ALIEN, "Is there excessive gore", yes=0, no=8)
    assert verdict(said(one)) == (0.0, "unknown")
    assert verdict(said(one, other)) == (0.0, "clear")


def test_votes_of_several_pages_add_up_and_a_newer_count_replaces():
    # 4 + 4 yes on two pages: 9/10
    pages = [statement(ALIEN, yes=4, no=0, url=f"https://example.org/{n}") for n in (1, 2)]
    assert verdict(said(*pages))[1] == "violated"
    # the same page counted again: 5 yes alone are 6/7
    newer = statement(ALIEN, yes=5, no=0, url="https://example.org/1")
    assert verdict(said(pages[0], newer))[1] == "unknown"


def test_a_clear_answer_weighs_as_certain_and_the_worse_word_counts():
    assert verdict(said(statement(ALIEN, answer="yes"))) == (1.0, "violated")
    no = statement(ALIEN, answer="no", source="a")
    assert verdict(said(no, statement(ALIEN, "Is there excessive gore", answer="no")))[1] == "clear"
    # one says no, eight voters say yes
    assert verdict(said(no, statement(ALIEN, yes=8, no=0, source="b")))[1] == "violated"
    assert verdict(said(no, statement(ALIEN, answer="yes", source="b")))[1] == "violated"


def test_severities_of_the_guide():
    # gore: violence 1.0, frightening .3: (3 + .6) / 3.9
    guide = [statement(ALIEN, "violence", "guide", severity=3), statement(ALIEN, "frightening", "guide", severity=2)]
    risk, word = verdict(said(*guide))
    assert (risk, word) == (pytest.approx(3.6 / 3.9), "violated")
    assert verdict(said(*guide), "needles") == (None, "unknown")  # no weights: the guide says nothing on needles
    assert verdict(said(guide[0])) == (None, "unknown")  # one weighed category is not rated
    mild = [statement(ALIEN, c, "guide", severity=0, source="other") for c in ("violence", "frightening")]
    assert verdict(said(*mild)) == (0.0, "clear")
    assert verdict(said(*mild, *guide))[1] == "violated"  # the worse of two guides


def test_descriptors_of_a_rated_game():
    blood = statement(ALIEN, "blood_and_gore", "esrb")
    assert verdict(said(blood)) == (1.0, "violated")
    assert verdict(said(statement(ALIEN, "mild_blood", "esrb"))) == (0.33, "unknown")
    assert verdict(said(statement(ALIEN, "lyrics", "esrb"))) == (0.0, "clear")  # rated, and no word of blood
    assert verdict(said(statement(ALIEN, "lyrics", "esrb")), "needles")[1] == "unknown"


def test_reviewers_settle_what_is_open():
    def review(answer, source="review"):
        return statement(f"item:{SMALL[0]['item'][0]}", "gore", "review", source=source, answer=answer)

    assert verdict(said(review("yes"))) == (None, "violated")
    assert verdict(said(review("no"))) == (None, "clear")
    assert verdict(said(review("no")), "needles") == (None, "unknown")
    assert verdict(said(review("yes"), review("no"))) == (None, "clear")  # a changed mind: the last word counts
    assert verdict(said(review("no"), statement(ALIEN, yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(review("no"), review(None))) == (None, "unknown")  # taken back


def test_a_users_own_taxonomy_asks_its_own_questions():
    from dataclasses import replace

    loud = replace(TAXONOMY["gore"], slug="loud", topics=("Is it loud",), core=("Is it loud",))
    own = Taxonomy("1", "d", (loud,))
    warnings = said(statement(ALIEN, "Is it loud", yes=0, no=20), statement(ALIEN, yes=9, no=0))
    assert verdict(warnings, "loud", taxonomy=own) == (0.0, "clear")
    assert catalog.unasked(warnings, own) == 1


def test_five_hundred_invented_titles_are_never_clear():
    warnings = said(*(statement(ALIEN, topic, yes=0, no=50) for topic in TAXONOMY.topics))
    oracle, _ = catalog.risks(*SMALL, warnings, TAXONOMY)
    assert violations.verdict(oracle, SMALL[0]["item"][0], TAXONOMY.slugs) == "clear"
    index = catalog.index(SMALL[0])
    for n in range(500):
        ref = f"title:The Alien of Nowhere {n} (1979)"
        item = catalog.link([ref], SMALL[1], index).get(ref)
        assert violations.verdict(oracle, item, ["gore"]) == "unknown"


# ---- the published catalogs


def test_movielens_and_redial_together(real_data):
    from saferec_builder.sources import movielens, redial_items

    films = movielens.read(real_data / "movielens_small")
    ids = redial_items.read(real_data / "redial" / "ievalm_id2info.json")
    assert (films.rows.height, films.drops.height, ids.rows.height, ids.drops.height) == (9742, 0, 6583, 0)
    items, links = catalog.merge(pl.concat([films.rows, ids.rows]))
    imdb = items.select(pl.col("refs").list.eval(pl.element().filter(pl.element().str.starts_with("imdb:"))))["refs"]
    assert imdb.list.len().max() == 1
    # an imdb id is one item, and every row is in exactly one
    assert imdb.explode().drop_nulls().n_unique() == imdb.explode().drop_nulls().len()
    rows = links.filter(pl.col("ref").str.contains("^(movielens|redial):"))
    assert (rows.height, rows["item"].n_unique()) == (9742 + 6583, items.height)


def test_titles_with_a_year_link_to_the_right_film_without_their_id(real_data):
    import json

    from saferec_builder.sources import movielens, redial, redial_items

    films = movielens.read(real_data / "movielens_small").rows
    items, links = catalog.merge(pl.concat([films, redial_items.read(real_data / "redial/ievalm_id2info.json").rows]))
    named = {}
    for path in sorted((real_data / "redial").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            named |= {k: redial.clean(v) for k, v in dict(json.loads(line)["movieMentions"] or {}).items() if v}
    gold, index = dict(links.iter_rows()), catalog.index(items)
    dated = {f"title:{title}": gold.get(f"redial:{i}") for i, title in named.items() if title.endswith(")")}
    dated = {ref: item for ref, item in dated.items() if item}
    found = catalog.link(dated, links, index)
    assert len(dated) > 2300
    assert [ref for ref, item in found.items() if item != dated[ref]] == []
    assert len(found) / len(dated) >= 0.99
