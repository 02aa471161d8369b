"""Titles without a year: the likeliest work, or none in the catalog; prose is no title."""

import pytest

from saferec_builder.core import titles, undated
from saferec_builder.core.titles import Match, Near
from saferec_builder.core.undated import Company, Known, Work


def _work(year, pull, *genres):
    return Work(year, frozenset(genres), frozenset(["the revenant"]), pull)


WORKS = {"r09": _work(2009, -1.0, "horror"), "r15": _work(2015, 4.0, "drama")}


def _shelf(*items):
    shelf = titles.index((item, "The Revenant", WORKS[item].year, "film", ()) for item in items)
    shelf.works = WORKS
    return shelf


def test_the_likeliest_work_is_linked_and_a_lone_obscure_one_is_not_sure():
    # besides its pull, a title of one word in exact spelling without a list has 2.41 - .54 * 1.5 + .86 * .15 = 1.729
    p, p_none = undated.chances("The Revenant", 1, [WORKS["r09"], WORKS["r15"]])
    # exp(.729) = 2.07, exp(5.729) = 307.7, and 1 for none of them: 310.8 in total
    assert p == pytest.approx([0.0067, 0.9901], abs=1e-3) and p_none == pytest.approx(0.0032, abs=1e-3)
    assert titles.find(_shelf("r09", "r15"), "The Revenant") == Match("found", "r15", (), True)
    match = titles.find(_shelf("r09"), "The Revenant")  # 1 / 3.07 for a work that the catalog lacks
    assert match == Match("found", "r09", (), False) and isinstance(titles.item_of(match), Near)
    # without facts about works nothing is weighed, and no work of the title is certain
    shelf = _shelf("r09", "r15")
    shelf.works = {}
    assert titles.find(shelf, "The Revenant") == Match("ambiguous", None, ("r09", "r15"), False)


def test_what_is_known_of_a_work():
    obscure, well_known = Known(1, 0, 0, 0), Known(3, 1, 2, 10)
    # -.39 - .24, and -.39 + .24 + .63 + 1.3 ln 3 + 1.97 ln 11 = 6.632
    assert (obscure.pull(), well_known.pull()) == (pytest.approx(-0.63), pytest.approx(6.632, abs=1e-3))
    company = undated.company([_work(1999, 0.0, "horror"), _work(None, 0.0, "horror", "drama"), _work(2001, 0.0)])
    assert company == Company(None, {"horror": 2 / 3, "drama": 1 / 3})  # two years are not enough for a period
    assert undated.company([_work(year, 0.0) for year in (1940, None, 1957, 1950)]).year == 1950
    assert undated.likely("abc", [0.05, 0.9, 0.049]) == ("b", "a")


def test_the_features_of_a_work_in_a_list():
    among = Company(2000, {"horror": 0.5})
    features = undated.features(' "The Revenant" ', 6, _work(2009, 0.0, "horror", "drama"), among)
    assert features == {"spelt": 1.0, "words": 3.0, "decades": 0.9, "genres": 0.25}
    unknown = {"spelt": 0.0, "words": 0.0, "decades": 1.5, "genres": 0.15}
    assert undated.features("Revenant", 1, _work(None, 0.0), among) == unknown
    assert undated.features("Revenant", 1, _work(2009, 0.0, "horror"), Company()) == unknown


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
        *(("Have I Told You Lately?", True), ("Have I Told You This Lately", False)),
        ("Who Framed Roger Rabbit This Time?", False),
        ("Night of the Day of the Dawn of the Son of Bride", True),
        ("Night of the Day of the Dawn of the Son of the Bride", False),
        ("and The Invisible Man.", False),
        ("The potential of technology to change the way in which all of us live and work", False),
        ("Great! Here are some recommendations for action movies: John Wick", False),
    ],
)
def test_prose_and_code_are_no_titles(text, is_one):
    assert undated.is_title(text) is is_one
