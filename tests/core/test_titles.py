"""Titles: one normal form, nearest year, and never a guess."""

import pytest
from hypothesis import given, strategies as st

from saferec_builder.core import titles, undated
from saferec_builder.core.titles import Index, Match, Near, find, forms, index, item_of, normal, split_year, spoken
from saferec_builder.core.undated import Work


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("Suspíria", "SUSPIRIA"), ("Spider-Man", "Spider Man"), ("Fast & Furious", "Fast and Furious")),
        *(("Romeo + Juliet", "Romeo & Juliet"), ("Postman, The", "The Postman"), ("Avventura, L'", "L’Avventura")),
        *(("Haine, La", "La Haine"), ("Schindler´s List", "Schindler's List"), ("“The Thing”", "Thing")),
        *(("WALL·E", "WALL-E"), ("Brødre", "Brodre"), ("8½", "8 1/2"), ("Amélie", "Ame\u0301lie")),
        *(("Straße", "STRASSE"), ("A-Team, The", "The A-Team"), ("FATAL FURY™ Battle®", "Fatal Fury: Battle")),
        *(("Rocky II", "Rocky 2"), ("It Chapter Two", "It: Chapter 2"), ("Kramer vs. Kramer", "Kramer v Kramer")),
        *(("ﾊﾟﾘ", "パリ"), ("パリ", "ハ\u309aリ")),
    ],
)
def test_spellings_of_one_title_agree(one, other):
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("Alien", "Aliens"), ("2012", "2049"), ("#Alive", "Alive"), ("The A-Team", "Team"), ("It", "Us")),
        *(("Saw II", "Saw"), ("Malcolm X", "Malcolm 10"), ("Rocky V", "Rocky 4"), ("パリ", "バリ"), ("ガス", "カス")),
    ],
)
def test_different_titles_stay_apart(one, other):
    assert normal(one) != normal(other)


@pytest.mark.parametrize(
    ("text", "title", "year"),
    [
        *(("Alien (1979)", "Alien", 1979), ("Alien  [1979] ", "Alien", 1979), ("2049(2017)", "2049", 2017)),
        ("2001: A Space Odyssey (1968)", "2001: A Space Odyssey", 1968),
        ("Death Note (2006–2007)", "Death Note", 2006),
        ("(500) Days of Summer (2009)", "(500) Days of Summer", 2009),
        ("Birdman or (Ignorance) (2014)", "Birdman or (Ignorance)", 2014),
        *((text, text, None) for text in ("1917", "2049", "'71", "Class of 1984", "(2019)", "Alien (3019)", "")),
    ],
)
def test_only_a_year_in_brackets_at_the_end_is_one(text, title, year):
    assert split_year(text) == (title, year)


def test_spoken_moves_an_article_to_the_front():
    assert spoken("Postman, The (Postino, Il)") == "The Postman (Il Postino)"
    assert spoken("Avventura, L'") == "L'Avventura"
    for title in ("Alien", "(500) Days of Summer", "#Alive", "'71", "Good, the Bad and the Ugly", "Me, Myself & I"):
        assert spoken(title) == title


def test_a_bracket_is_another_title_but_a_note_is_none():
    assert forms("Seven (a.k.a. Se7en)") == ["seven a k a se7en", "seven", "se7en"]
    assert forms("Hate (Haine, La)") == ["hate haine la", "hate", "la haine"]
    assert forms("Mockingjay (Part 2)") == ["mockingjay part 2", "mockingjay"]
    assert forms("[REC]") == ["rec"]


SHELF = index(
    [
        *(("s77", "Suspiria", 1977, "film", []), ("s18", "Suspiria", 2018, "film", [])),
        ("alien", "Alien", 1979, "film", ["Le huitième passager"]),
        ("hate", "Hate (Haine, La)", 1995, "film", []),
        *(("noyear", "Cosmos", None, "film", []), ("game", "Tetris", None, "game", [])),
        *(("twin1", "Emma", 1996, "film", []), ("twin2", "Emma", 1996, "film", [])),
        ("days", "(500) Days of Summer", 2009, "film", []),
        ("otherwise", "Ring", 1998, "film", ["Ringu (2002)"]),
        ("g", "Alien", 1984, "game", []),
        ("kill", "Kill Bill (Vol. 1)", 2003, "film", []),
        *(("doom93", "Doom", 1993, "game", []), ("doom16", "Doom", 2016, "game", [])),
        ("doom", "Doom", None, "game", []),
    ]
)


@pytest.mark.parametrize(
    ("title", "year", "domain", "match"),
    [
        ("Suspiria", 1977, None, Match("found", "s77")),  # the paper's code returns the film of 2018
        ("Suspiria", 2017, None, Match("found", "s18", (), False)),  # one year off: perhaps another work
        ("Suspiria", 1990, None, Match("not_found")),
        ("Suspiria", None, None, Match("ambiguous", None, ("s77", "s18"), False)),
        ("alien", 1981, "film", Match("found", "alien", (), False)),  # within two years
        ("alien", 1982, "film", Match("not_found")),
        ("Alien", 1982, None, Match("found", "g", (), False)),
        ("Alien", None, "game", Match("found", "g")),
        ("Le Huitieme Passager", 1979, None, Match("found", "alien")),
        ("La Haine", 1995, None, Match("found", "hate")),
        ("Hate (La Haine)", 1995, None, Match("found", "hate")),
        ("Something (La Haine)", 1995, None, Match("found", "hate", (), False)),  # it has no title "Something"
        ("Something (La Haine)", None, None, Match("not_found")),  # a bracket alone is not enough
        ("Emma", 1996, None, Match("ambiguous", None, ("twin1", "twin2"))),
        ("Tetris", 1989, None, Match("found", "game", (), False)),  # games have no years, and a film may be meant
        ("Tetris", 1989, "game", Match("found", "game")),
        ("Doom", 2016, None, Match("found", "doom16")),
        ("Doom", 2005, None, Match("ambiguous", None, ("doom",), False)),  # no year, while others have one
        ("Kill Bill (Volume 1)", 2003, None, Match("not_found")),
        ("Kill Bill", 2003, None, Match("found", "kill")),
        ("Kill Bill (Vol. 2)", 2004, None, Match("not_found")),  # another part is another film
        ("Kill Bill (uncut)", 2003, None, Match("found", "kill", (), False)),
        ("Alien (1979)", 1979, None, Match("found", "alien")),
        ("Cosmos", 1980, None, Match("ambiguous", None, ("noyear",), False)),  # may be another film of this name
        ("Cosmos", None, None, Match("found", "noyear")),
        ("500 Days of Summer", 2009, None, Match("found", "days")),
        ("Ringu", 2002, None, Match("found", "otherwise")),  # an alias with its own year
        *(("Ringu", 1998, None, Match("not_found")), ("", None, None, Match("not_found"))),
        ("...", 1999, None, Match("not_found")),
    ],
)
def test_find(title, year, domain, match):
    assert find(SHELF, title, year, domain) == match


def test_titles_are_shown_with_their_year_and_alike_from_four_fifths_of_their_letters():
    assert [titles.dated({"title": "Up", "year": year}) for year in (2009, None)] == ["Up (2009)", "Up"]
    assert (titles.alike("abcde", "abcdx"), titles.alike("abcd", "abcx")) == (True, False)


def test_an_id_that_a_title_names_inexactly_says_so():
    exact, near = (item_of(find(SHELF, "Suspiria", year)) for year in (2018, 2017))
    assert (exact, near, item_of(Match("not_found"))) == ("s18", "s18", None)
    assert isinstance(near, Near) and not isinstance(exact, Near)


def test_the_nearest_year_wins_and_a_tie_is_ambiguous():
    remakes = index([("a", "Emma", 2000, "film", []), ("b", "Emma", 2002, "film", [])])
    assert find(remakes, "Emma", 1999).item == "a"
    assert find(remakes, "Emma", 2001).candidates == ("a", "b")  # one year from both
    assert find(Index(), "Emma", 2001) == Match("not_found")


@given(st.text(max_size=40), st.integers(1870, 2030) | st.none())
def test_any_title_finds_itself(title, year):
    """Every title of a catalog is found under its own spelling, unless it has no letter or digit."""
    shelf = index([("x", title, year, "film", [])])
    assert find(shelf, title, year).item == ("x" if forms(title) else None)


def _work(year, pull, name):
    return Work(year, frozenset(), frozenset([name]), pull)


@pytest.mark.parametrize("work", [Work(2013, frozenset(), frozenset(["the heat"]), 9.0), None])
def test_a_title_with_another_article_is_not_surely_the_work(work):
    """A clear "The Heat", well known or the only game of its title, cleared "Heat", which the catalog lacked."""
    kind = "film" if work else "game"
    shelf = index([("h", "The Heat", work and work.year, kind, ())])
    shelf.works = {"h": work or _work(None, 0.0, "the heat")}
    matches = {title: find(shelf, title, None, kind) for title in ("Heat", "A Heat", "The Heat", "Heat, The")}
    assert {match.item for match in matches.values()} == {"h"}
    assert [title for title, match in matches.items() if match.exact] == ["The Heat", "Heat, The"]
    shelf.works = {}  # without facts about works, a film that has a year is never sure
    exact_titles = [title for title in matches if find(shelf, title, None, kind).exact]
    assert exact_titles == ([] if work else ["The Heat", "Heat, The"])
    shelf = index([("p", "Postman, The (Postino, Il)", work and work.year, kind, ())])
    shelf.works = {"p": work or _work(None, 0.0, "Postman, The (Postino, Il)")}
    exact = [find(shelf, title, None, kind).exact for title in ("Il Postino", "Postman", "The Postman")]
    assert exact[0] == exact[2]  # its other title has no different article


def test_equal_works_are_told_apart_by_the_list():
    shelf = index([("w53", "War", 1953, "film", ()), ("w05", "War", 2005, "film", ())])
    shelf.works = {"w53": _work(1953, 1.6, "war"), "w05": _work(2005, 1.6, "war")}
    assert find(shelf, "War").match == "ambiguous"
    company = undated.company([_work(year, 0.0, "") for year in (1940, 1950, 1957)])
    assert find(shelf, "War", None, None, company).item == "w53"
    # a game without a year is found as its catalog names it, and a given year is never weighed
    assert find(SHELF, "Tetris", None, "game") == Match("found", "game")
    assert find(shelf, "War", 2005, None, company) == Match("found", "w05")
    # without a list, the well known one, e^2 times as likely as the other; brackets may mean another work
    shelf.works = {"w53": _work(1953, 7.0, "war"), "w05": _work(2005, 9.0, "war")}
    assert find(shelf, "War") == Match("found", "w05", ("w05", "w53"))
    assert [find(shelf, title).exact for title in ("War (uncut)", "War [uncut]")] == [False, False]
