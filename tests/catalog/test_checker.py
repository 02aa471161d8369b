"""One title at a time: the same words as the plain way, for every way in which a title may be meant."""

from itertools import product

import numpy as np
import pytest

from saferec_builder.catalog import adding, checker as checking, lookup
from saferec_builder.core import oracle as violations, titles
from saferec_builder.core.errors import UsageError

# (title, year, domain, aliases): remakes, works of one title without a year, articles, brackets, a game, two years
WORKS = [
    ("Alien", 1979, "film", ["Alien (1980)"]),
    ("Emma", 1996, "film", []),
    ("Emma", 2000, "film", []),
    ("Emma", 2020, "film", ["Emma."]),
    ("The A-Team", 2010, "film", []),
    ("Team", 2012, "film", []),
    ("Postman, The (Postino, Il)", 1994, "film", []),
    ("The Postman", 1997, "film", []),
    ("Heat", 1995, "film", []),
    ("Heat", None, "film", []),
    ("Doom", 1993, "game", []),
    ("Doom", 2005, "film", []),
    ("Amélie", 2001, "film", ["Le Fabuleux Destin d'Amélie Poulain"]),
    ("Babel", None, "game", []),
    ("Far Future", 4096 + 1979, "film", []),  # a slip, whose lowest twelve bits are 1979
    ("Rocky II", 1979, "film", []),
]
ASKED = ["", "alien", "ALIEN", "Al-ien", "Emma", "emma.", "A Team", "The A-Team", "Team", "the team", "Il Postino"]
ASKED += ["The Postman", "Postman, The (Postino, Il)", "The Postman (uncut)", "Heat", "A Heat", "Doom", "Amelie"]
ASKED += ["Babel", "Far Future", "Rocky 2", "Nobody", "Nobody (part 2)", "Alien (1979)", "Emma (2020)"]
YEARS = [None, 1976, 1977, 1978, 1979, 1980, 1982, 1993, 1994, 1995, 1996, 1998, 2001, 2005, 2010, 2012, 2020, 6075]


@pytest.mark.slow
@pytest.mark.parametrize("n_traits", [3, 40])  # 40: more than one machine word holds
def test_a_checker_answers_what_find_and_the_verdicts_do(n_traits):
    index = titles.index((f"i{n}", *work) for n, work in enumerate(WORKS))
    codes = np.random.default_rng(2).choice(3, (len(WORKS), n_traits)).astype(np.int8)
    slugs = [f"t{n}" for n in range(n_traits)]
    oracle = violations.oracle([f"i{n}" for n in range(len(WORKS))], slugs, codes)
    people = [("t0",), ("t1", "t2"), (slugs[-1],), tuple(slugs)]
    seen = set()
    for domain in (None, "film", "game"):
        ask = checking.checker_of(oracle, index, domain)
        for title, year, traits in product(ASKED, YEARS, people):
            match = titles.find(index, *(titles.split_year(title) if year is None else (title, year)), domain)
            worst = violations.worst(violations.verdicts(oracle, match.candidates or (match.item,), traits)[None])
            code = violations.as_named(worst, np.array([not match.exact]))[0]
            assert ask(title, traits, year) == violations.VERDICTS[code], (title, year, traits, domain)
            seen |= {violations.VERDICTS[code], match.match, match.exact}
    assert seen == {*violations.VERDICTS, "found", "ambiguous", "not_found", True, False}


@pytest.mark.slow
def test_a_checker_of_a_workspace_answers_what_check_does(workspace, tmp_path):
    """Alien is violated by its votes; Emma without a year is both films; a year that is one off clears nothing."""
    films = "domain,title,year\nfilm,Alien,1979\nfilm,Emma,1996\nfilm,Emma,2020\nfilm,Babe,1995\n"
    topics = ("Is there blood/gore", "Is there excessive gore")
    votes = "title,year,topic,yes,no\n" + "".join(
        f"{title},{topic},{answers}\n"
        for title, answers in (("Alien,1979", "60,0"), ("Babe,1995", "0,60"), ("Emma,2020", "60,0"))
        for topic in topics
    )
    for name, text, source in (("items.csv", films, "csv"), ("votes.csv", votes, "warnings")):
        (tmp_path / name).write_text(text)
        adding.add_catalog(workspace, source, [tmp_path / name])
    ask = checking.checker(workspace)
    expected = {"Alien (1979)": "violated", "Babe (1995)": "clear", "Babe (1996)": "unknown", "Emma": "violated"}
    expected |= {"Babe": "unknown", "Nope (2022)": "unknown"}
    for title, word in expected.items():
        assert (ask(title, ("gore",)), lookup.check(workspace, title, "gore").word) == (word, word), title
    assert checking.checker(workspace, domain="game")("Alien", ("gore",), 1979) == "unknown"


def test_a_checker_refuses_what_could_never_be_answered(workspace, tmp_path):
    with pytest.raises(UsageError, match="the catalog is empty"):
        checking.checker(workspace)
    (tmp_path / "items.csv").write_text("domain,title,year\nfilm,Alien,1979\n")
    adding.add_catalog(workspace, "csv", [tmp_path / "items.csv"])
    with pytest.raises(UsageError, match="domain 'flm'"):
        checking.checker(workspace, domain="flm")
    ask = checking.checker(workspace)
    for _ in range(2):  # a mistake is no answer to keep
        with pytest.raises(UsageError, match="spiderz"):
            ask("Alien", ("spiderz",), 1979)
    with pytest.raises(UsageError, match="no traits"):  # it was "clear", even for titles that the catalog lacks
        ask("Nobody", (), 1979)
    with pytest.raises(UsageError, match="no traits"):
        ask("Nobody", iter(()), 1979)


def test_a_checker_takes_one_trait_or_a_list_of_them():
    """A list was a TypeError, and one name was read letter by letter."""
    oracle = violations.oracle(
        ["i0"], ["gore", "spiders"], np.array([[violations.VIOLATED, violations.UNKNOWN]], np.int8)
    )
    ask = checking.checker_of(oracle, titles.index([("i0", "Alien", 1979, "film", [])]), None)
    assert [ask("Alien", traits, 1979) for traits in ("gore", ["gore"], ("spiders",), "spiders")] == [
        "violated",
        "violated",
        "unknown",
        "unknown",
    ]
