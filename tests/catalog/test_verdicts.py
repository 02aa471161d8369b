"""From the sources' statements about an item to its risks and verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from saferec_builder import catalog
from saferec_builder.core import oracle as violations, taxonomy as traits
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables
from tests.worlds.shelves import ALIEN, HEAT, merged, said, statement

TAXONOMY = traits.load()


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


@pytest.mark.slow
def test_votes_reach_the_item_by_id_and_by_title():
    assert verdict(said(statement(ALIEN, yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(statement("title:Alien (1979)", yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(statement("title:Alien (1979)", yes=8, no=0, domain="film"))) == (1.0, "violated")
    for ref, domain in (("title:Alien (1979)", "game"), ("title:Alien (1999)", None), ("imdb:tt9999999", None)):
        assert verdict(said(statement(ref, yes=8, no=0, domain=domain))) == (None, "unknown")
    assert verdict(said(statement(ALIEN, yes=8, no=0)), n=1) == (None, "unknown")  # Heat
    # one year off, it may be about another work: it may violate, but clears nothing
    assert verdict(said(statement("title:Heat (1996)", yes=8, no=0)), n=1) == (1.0, "violated")
    assert verdict(said(*(statement("title:Heat (1996)", t, yes=0, no=8) for t in CORE)), n=1)[1] == "unknown"


def test_a_films_keyword_says_nothing_of_the_series_with_the_same_tmdb_number():
    """ "Grey's Anatomy" had the keyword "rape" of a film that TMDB has under the same number."""
    items, links = merged(("csv:s", "Grey's Anatomy", 2005, ["tmdb:1416"], {"domain": "series"}))
    of_film = statement("tmdb:1416", "rape", "keyword", "keywords", domain="film")
    of_series = statement("tmdb:1416", "rape", "keyword", "keywords", domain="series")
    assert [catalog.verdicts.linked(items, links, said(row)).height for row in (of_film, of_series)] == [0, 1]


def test_a_question_is_the_same_with_its_mark_and_without_capitals():
    assert verdict(said(statement(ALIEN, "is there  Blood/Gore?", yes=8, no=0))) == (1.0, "violated")


CORE = ("Is there blood/gore", "Is there excessive gore")
PAGE = "https://www.example.org/media/7"


def test_both_core_topics_clear_gore():
    blood, gore = (statement(ALIEN, topic, yes=0, no=8) for topic in CORE)  # P(no) = 9/10
    assert verdict(said(blood)) == (0.0, "unknown")
    assert verdict(said(blood, gore)) == (0.0, "clear")


def test_votes_of_several_pages_add_up_and_a_newer_count_replaces():
    # 4 + 4 yes on two pages: 9/10
    pages = [statement(ALIEN, yes=4, no=0, url=f"https://example.org/{n}") for n in (1, 2)]
    assert verdict(said(*pages))[1] == "violated"
    # the same page counted again: only 5 yes are 6/7
    newer = statement(ALIEN, yes=5, no=0, url="https://example.org/1")
    assert verdict(said(pages[0], newer))[1] == "unknown"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"url": PAGE}, {"url": PAGE, "source": "ddd"}),  # a table of the site's votes, and the site itself
        ({"url": PAGE}, {}),  # without a page the voters may be the same people
        ({}, {"url": PAGE, "source": "ddd"}),
        *(({"url": PAGE}, {"url": twin}) for twin in ("http://Example.org/media/7", f"{PAGE}/", f"{PAGE}#gore")),
    ],
)
def test_the_same_people_count_once_however_a_table_names_their_page(one, other):
    """Four no votes counted as eight, and the film was clear."""
    for pair in ((one, other), (other, one)):
        assert verdict(said(*(statement(ALIEN, t, yes=0, no=4, **at) for t in CORE for at in pair))) == (0, "unknown")
    pages = [{"url": "https://example.org/media/7"}, {"url": "https://example.org/Media/7"}]  # a path has capitals
    assert verdict(said(*(statement(ALIEN, t, yes=0, no=4, **at) for t in CORE for at in pages))) == (0, "clear")


@pytest.mark.slow
def test_the_newest_count_of_a_page_counts_whatever_was_added_last():
    def word(*dated, **page):
        rows = [statement(ALIEN, t, yes=y, no=n, retrieved=day, **page) for y, n, day in dated for t in CORE]
        return verdict(said(*rows))[1]

    newest, older, undated = (40, 0, "2026-01-01"), (0, 9, "2019-05-01"), (0, 9, None)
    for page in ({"url": PAGE}, {}):
        assert word(newest, older, **page) == word(older, newest, **page) == "violated"
        # without a date it is as new as the rows before it: it counts, and no older row replaces it
        assert word(newest, undated, **page) == word(newest, undated, (40, 0, "2019"), **page) == "clear"
        assert word(undated, newest, **page) == word((0, 9, "in May"), newest, **page) == "violated"
    guides = [
        statement(ALIEN, category, "guide", severity=severity, retrieved=day)
        for severity, day in ((3, "2026"), (0, "2025"))
        for category in ("violence", "frightening")
    ]
    assert verdict(said(*guides)) == verdict(said(*guides[::-1])) == (1.0, "violated")


@pytest.mark.slow
def test_of_counts_that_may_be_of_the_same_people_the_one_counts_by_which_it_is_likeliest_true():
    """3 of 3 are a larger share than 75 of 100, but settle nothing."""
    many, title = statement(ALIEN, yes=75, no=25), "title:Alien (1979)"
    for few in (statement(ref, yes=3, no=0) for ref in (title, "title:Alien (1980)", "title:Alien")):
        assert verdict(said(many, few)) == verdict(said(few, many)) == (0.0, "violated")
    # a statement that may be about another work replaces none about the item itself
    near = statement("title:Alien (1980)", yes=0, no=40, url=PAGE, retrieved="2026")
    assert verdict(said(statement(ALIEN, yes=40, no=0, url=PAGE, retrieved="2025"), near))[1] == "violated"


@pytest.mark.parametrize("title", ["title:Alien", "title:Alien (1980)"])
def test_a_newer_count_that_may_be_another_works_is_not_lost_beside_an_older_one(title):
    """0 of 80 in 2020 by its id, 90 of 95 in 2024 by its title: the older count was used, and the film was clear."""
    older = [statement(ALIEN, t, yes=0, no=80, url=PAGE, retrieved="2020") for t in CORE]
    newer = [statement(title, t, yes=90, no=5, url=PAGE, retrieved="2024") for t in CORE]
    assert verdict(said(*older, *newer))[1] == verdict(said(*newer, *older))[1] == "violated"


@pytest.mark.parametrize("pages", [("show#season-1", "show#season-2"), ("#/film/1", "#/film/2")])
def test_what_stands_behind_a_number_sign_may_be_a_page_of_its_own(pages):
    """60 yes for one page and 60 no for the other: only the newer count was used, and the film was clear."""
    first, second = (f"https://example.org/{page}" for page in pages)
    rows = [statement(ALIEN, t, yes=60, no=0, url=first, retrieved="2024-01-01") for t in CORE]
    rows += [statement(ALIEN, t, yes=0, no=60, url=second, retrieved="2024-01-02") for t in CORE]
    assert verdict(said(*rows))[1] == "violated"


@pytest.mark.slow
def test_no_order_of_rows_decides_between_two_names_of_an_item():
    """One table, the film once by its title and once by its id, and no page: it is unknown which count is newer."""
    film = "title:Alien (1979)"
    for of_title, of_id in (
        ({"yes": 40, "no": 0}, {"yes": 0, "no": 12}),
        ({"answer": "yes"}, {"answer": "no"}),
        ({"yes": 1, "no": 20}, {"answer": "yes"}),
    ):
        by_title, by_id = statement(film, **of_title), statement(ALIEN, **of_id)
        assert verdict(said(by_title, by_id)) == verdict(said(by_id, by_title)) == (1.0, "violated")
    guide = [statement(film, "violence", "guide", severity=3), statement(ALIEN, "violence", "guide", severity=0)]
    scares = statement(ALIEN, "frightening", "guide", severity=3)
    assert verdict(said(scares, *guide)) == verdict(said(scares, *guide[::-1])) == (1.0, "violated")
    # and four no votes are not eight: P(no) = 5/6 on both core topics
    four = [statement(ref, topic, yes=0, no=4) for topic in CORE for ref in (film, ALIEN)]
    assert verdict(said(*four)) == (0.0, "unknown")


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
    assert verdict(said(*guide), "needles") == (None, "unknown")  # no weights: the guide has nothing on needles
    assert verdict(said(guide[0])) == (None, "unknown")  # one weighted category is not rated
    mild = [statement(ALIEN, c, "guide", severity=0, source="other") for c in ("violence", "frightening")]
    assert verdict(said(*mild)) == (0.0, "clear")
    assert verdict(said(*mild, *guide))[1] == "violated"  # the worse of two guides


@pytest.mark.slow
def test_descriptors_of_a_rated_game():
    blood = statement(ALIEN, "blood_and_gore", "esrb")
    assert verdict(said(blood)) == (1.0, "violated")
    assert verdict(said(statement(ALIEN, "mild_blood", "esrb"))) == (0.33, "unknown")
    lyrics = statement(ALIEN, "lyrics", "esrb")
    assert verdict(said(lyrics, statement(ALIEN, "T", "rating"))) == (0.0, "clear")  # rated, and blood is not mentioned
    assert verdict(said(lyrics)) == (None, "unknown")  # a blank cell may have been an M
    adult = [statement(ALIEN, "lyrics", "esrb"), statement(ALIEN, "M", "rating")]
    assert verdict(said(*adult)) == (None, "unknown")
    assert verdict(said(*adult, blood)) == (1.0, "violated")
    # a pending rating or a blank row gives no information
    nothing = statement(ALIEN, "no_descriptors", "esrb")
    for rating, word in (("RP", (None, "unknown")), ("E", (0.0, "clear"))):
        assert verdict(said(nothing, statement(ALIEN, rating, "rating"))) == word
    assert verdict(said(nothing)) == (None, "unknown")
    assert verdict(said(nothing, blood)) == (1.0, "violated")
    assert verdict(said(statement(ALIEN, "lyrics", "esrb")), "needles") == (None, "unknown")  # it has no descriptors
    # a taxonomy with "strong" and no descriptor clears no game
    mute = Taxonomy("1", "d", (replace(TAXONOMY["gore"], esrb={}),))
    assert verdict(said(statement(ALIEN, "lyrics", "esrb")), taxonomy=mute) == (None, "unknown")


def test_reviewers_settle_what_is_open():
    def review(answer, source="review"):
        return statement(f"item:{SMALL[0]['item'][0]}", "gore", "review", source=source, answer=answer)

    assert verdict(said(review("yes"))) == (None, "violated")
    assert verdict(said(review("no"))) == (None, "clear")
    assert verdict(said(review("no")), "needles") == (None, "unknown")
    assert verdict(said(review("yes"), review("no"))) == (None, "clear")  # a changed mind: the last answer counts
    assert verdict(said(review("no"), statement(ALIEN, yes=8, no=0))) == (1.0, "violated")
    assert verdict(said(review("no"), review(None))) == (None, "unknown")  # taken back


def test_what_was_said_of_a_row_is_said_of_the_item_that_it_becomes_part_of():
    """Two rows were reviewed as two items; then a source with both ids makes them one."""
    first, later = tables.digest("item", "csv", "a"), tables.digest("item", "demo", "b")
    rows = [("csv:a", "Alien", 1979, ["tmdb:1"]), ("demo:b", "Alien", 1980, ["redial:2"])]
    joined = merged(*rows, ("movielens:3", "Alien", 1979, ["tmdb:1", "redial:2"]))
    assert (merged(*rows)[0].height, joined[0]["item"].to_list()) == (2, [first])

    def word(*answers):
        reviews = [statement(f"item:{item}", "gore", "review", source="review", answer=a) for item, a in answers]
        return violations.verdict(catalog.risks(*joined, said(*reviews), TAXONOMY)[0], first, ["gore"])

    assert word((later, "yes")) == "violated"
    assert word((later, "no")) == "clear"
    # if two items become one, the worse answer counts, in any order
    assert word((later, "yes"), (first, "no")) == word((first, "no"), (later, "yes")) == "violated"
    assert word((later, "yes"), (later, "no"), (first, "no")) == "clear"  # each item's last answer


def test_a_users_own_taxonomy_asks_its_own_questions():
    loud = replace(TAXONOMY["gore"], slug="loud", topics=("Is it loud",), core=("Is it loud",))
    taxonomy = Taxonomy("1", "d", (loud,))
    warnings = said(statement(ALIEN, "Is it loud", yes=0, no=20), statement(ALIEN, yes=9, no=0))
    assert verdict(warnings, "loud", taxonomy=taxonomy) == (0.0, "clear")
    assert catalog.unasked(warnings, taxonomy).height == 1


NO_BLOOD = [statement(ALIEN, t, yes=0, no=8) for t in CORE]
# a rule that people checked violates, any other prevents clear, silence means nothing
BY_CLASS = [
    ([statement(ALIEN, "names blood or gore", "reason")], "gore", "violated"),
    ([statement(ALIEN, "Dismemberment", "keyword")], "gore", "violated"),
    ([statement(ALIEN, "dismemberment", "tag")], "gore", "unknown"),  # tags were never checked
    ([statement(ALIEN, "names blood or gore", "reason")], "horror_scares", "unknown"),  # blood is not its core
    ([*NO_BLOOD, statement(ALIEN, "dismemberment", "tag")], "gore", "unknown"),  # would be clear without the tag
    ([*NO_BLOOD, statement(ALIEN, "toy", "keyword")], "gore", "clear"),
    ([statement(ALIEN, "names drugs", "reason")], "substance_use", "unknown"),
    # one of two core questions: both prior voters say no, P < .02, and the reason's rule is not certain
    ([NO_BLOOD[0], statement(ALIEN, "names blood or gore", "reason")], "gore", "unknown"),
]


@pytest.mark.parametrize(("warnings", "trait", "word"), BY_CLASS)
def test_a_class_of_statements_violates_where_it_was_read_and_never_clears(warnings, trait, word):
    assert verdict(said(*warnings), trait)[1] == word
    risk, _ = verdict(said(*[w for w in warnings if w["kind"] != "topic"]), trait)
    assert risk is None  # the paper's risk ignores them
