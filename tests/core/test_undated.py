"""Titles without a year: the likeliest work, or none of the catalog, and prose is no title."""

import pytest

from saferec_builder.core import titles, undated
from saferec_builder.core.titles import Match, Near
from saferec_builder.core.undated import Company, Known, Work


def _work(year, pull, *genres, name="the revenant"):
    return Work(year, frozenset(genres), frozenset([name]), pull)


WORKS = {
    "r09": _work(2009, -1.0, "horror"),
    "r15": _work(2015, 4.0, "drama"),
    "w53": _work(1953, 1.6, name="war"),
    "w05": _work(2005, 1.6, name="war"),
}
SHELF = titles.index(
    [
        *(("r09", "The Revenant", 2009, "film", ()), ("r15", "The Revenant", 2015, "film", ())),
        *(("w53", "War", 1953, "film", ()), ("w05", "War", 2005, "film", ()), ("g", "War", None, "game", ())),
    ]
)


def _shelf(*items):
    rows = [(item, "The Revenant", WORKS[item].year, "film", ()) for item in items]
    made = titles.index(rows)
    made.works = WORKS
    return made


def test_the_likeliest_work_is_linked_and_a_lone_obscure_one_is_not_sure():
    # beside its pull a title of one word that is spelt so and stands alone has 2.41 - .54 * 1.5 + .86 * .15 = 1.729
    p, none = undated.chances("The Revenant", 1, [WORKS["r09"], WORKS["r15"]])
    # exp(.729) = 2.07, exp(5.729) = 307.7, and 1 for none of them: of 310.8
    assert p == pytest.approx([0.0067, 0.9901], abs=1e-3) and none == pytest.approx(0.0032, abs=1e-3)
    assert titles.find(_shelf("r09", "r15"), "The Revenant") == Match("found", "r15", (), True)
    alone = titles.find(_shelf("r09"), "The Revenant")  # 1 / 3.07 for a work that the catalog lacks
    assert alone == Match("found", "r09", (), False) and isinstance(titles.item_of(alone), Near)
    # without what is known of works nothing is weighed, and one work of the title is not surely the one
    assert titles.find(SHELF, "The Revenant") == Match("ambiguous", None, ("r09", "r15"), False)


@pytest.mark.parametrize("work", [Work(2013, frozenset(), frozenset(["the heat"]), 9.0), None])
def test_a_title_with_another_article_is_not_surely_the_work(work):
    """A clear "The Heat", well known or the one game of its title, cleared "Heat", which the catalogue lacked."""
    kind = "film" if work else "game"
    made = titles.index([("h", "The Heat", work and work.year, kind, ())])
    made.works = {"h": work or _work(None, 0.0, name="the heat")}
    found = {title: titles.find(made, title, None, kind) for title in ("Heat", "A Heat", "The Heat", "Heat, The")}
    assert {match.item for match in found.values()} == {"h"}
    assert [title for title, match in found.items() if match.exact] == ["The Heat", "Heat, The"]
    made = titles.index([("p", "Postman, The (Postino, Il)", work and work.year, kind, ())])
    made.works = {"p": work or _work(None, 0.0, name="Postman, The (Postino, Il)")}
    exact = [titles.find(made, title, None, kind).exact for title in ("Il Postino", "Postman", "The Postman")]
    assert exact[0] == exact[2]  # its other title has no other article


def test_equal_works_are_told_apart_by_the_list():
    made = titles.index([("w53", "War", 1953, "film", ()), ("w05", "War", 2005, "film", ())])
    made.works = WORKS
    assert titles.find(made, "War").match == "ambiguous"
    old = undated.company([_work(year, 0.0) for year in (1940, 1950, 1957)])
    assert titles.find(made, "War", None, None, old).item == "w53"
    # a game without a year is named as its catalog names it, and a year given is never weighed
    assert titles.find(SHELF, "War", None, "game") == Match("found", "g")
    assert titles.find(made, "War", 2005, None, old) == Match("found", "w05")
    # alone, the one that is well known; brackets may make it another work
    made.works = {"w53": _work(1953, 9.0, name="war"), "w05": _work(2005, 0.0)}
    assert (titles.find(made, "War").exact, titles.find(made, "War (uncut)").exact) == (True, False)


def test_what_is_known_of_a_work():
    bare, much = Known(1, 0, 0, 0), Known(3, 1, 2, 10)
    # -.39 - .24, and -.39 + .24 + .63 + 1.3 ln 3 + 1.97 ln 11 = 6.632
    assert (bare.pull(), much.pull()) == (pytest.approx(-0.63), pytest.approx(6.632, abs=1e-3))
    made = undated.company([_work(1999, 0.0, "horror"), _work(None, 0.0, "horror", "drama"), _work(2001, 0.0)])
    assert made == Company(None, {"horror": 2 / 3, "drama": 1 / 3})  # two years are no period


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        *((title, True) for title in ("The Mandalorian", "Dr. No", "Who Framed Roger Rabbit?", "I, Tonya", "M", "8½")),
        *((title, True) for title in ("You've Got Mail", "Sure Thing", "'71", "The Good Place", "Me, Myself & Irene")),
        *(
            (code, False)
            for code in ("```python", "[", "import random", "print(list)", "movies = []", "[|Human|] hi", "")
        ),
        ("Have you seen any movies that you didn't enjoy?", False),
        ("User: no you?", False),
        ("and The Invisible Man.", False),
        ("The potential of technology to change the way in which all of us live and work", False),
        ("Great! Here are some recommendations for action movies: John Wick", False),
    ],
)
def test_prose_and_code_are_no_titles(text, is_one):
    assert undated.is_title(text) is is_one
