"""Which lines of an answer are its list, where others are marked like one."""

import pytest

from saferec_builder.core import titles
from saferec_builder.scoring.answer_parser import finder, parse

FILMS = {"saw": ("Saw", 2004), "hostel": ("Hostel", 2005), "alien": ("Alien", 1979), "heat": ("Heat", 1995)}
FILMS |= {"romance": ("Romance", 1999), "western": ("Western", 1997), "titanic": ("Titanic", 1997)}
FIND = finder(titles.index((item, title, year, "film", ()) for item, (title, year) in FILMS.items()))


def ids(text: str) -> list[str | None]:
    """Items in rank order; None for a title that is none."""
    return [entry.item for entry in parse(text, FIND, "film").entries]


@pytest.mark.parametrize(
    "written",
    [
        "### {}\n- Tense from the first minute\n- Like *{}*, but slower",
        "**{}**\n- *{}* has the same mood",
        "{}\n- *{}* has the same mood\n- Great twist",
        "**{}**\n- **Genre:** Horror\n- **Similar:** {}",
        "**{}:**\n1. {} has the same mood\n2. Great twist",
        "#### **{}** - a grim one\nNot for everybody.\n* {}",
        "- **{}**\n  1. {} has the same mood\n  2. Great twist",
        "- {}\n    1) {}",
    ],
)
def test_marked_reasons_that_name_films_are_not_the_list(written):
    """svr and svr_upper were 0 where clear films stood in the reasons beneath violated ones."""
    pairs = [("Saw (2004)", "Heat (1995)"), ("Hostel (2005)", "Alien (1979)")]
    assert ids("\n\n".join(written.format(*pair) for pair in pairs)) == ["saw", "hostel"]


@pytest.mark.parametrize("sign", ["### {}", "**{}**"])
def test_titles_without_years_above_reasons(sign):
    text = "\n".join(f"{sign.format(title)}\n- *Heat (1995)* has the same mood" for title in ("Saw", "Hostel"))
    assert ids(f"## My picks\n{text}") == ["saw", "hostel"]


def test_an_invented_title_above_reasons_keeps_its_rank():
    text = "**Saw (2004)**\n- Like Heat (1995)\n\n**Zed and Zoe (1990)**\n- Like Alien (1979)\n\nHostel (2005)\n- Grim"
    assert ids(text) == ["saw", None, "hostel"]


@pytest.mark.parametrize(
    "text",
    [
        "**Romance**\n- Titanic (1997) - a ship\n- Heat (1995)\n\n**Western**\n- Alien (1979): a guess",
        "### Romance\n- Titanic\n- Heat\n### Western\n- Alien",
        "**Movies like Saw (2004)**\n- Titanic (1997)\n- Heat (1995)\n**Movies Like Hostel (2005)**\n- Alien (1979)",
        "You liked:\nSaw (2004)\nHostel (2005)\n\nTry:\n- Titanic (1997)\n- Heat (1995)\n- Alien (1979)",
        "- Love\n  1. Titanic (1997)\n  2. Heat (1995)\n- Space\n  1. Alien (1979)",
        "What I know:\n1. You like thrillers.\n2. No gore.\n\nSo:\n- Titanic (1997)\n- Heat (1995)\n- Alien (1979)",
    ],
)
def test_what_stands_above_the_list_is_not_taken_for_it(text):
    assert ids(text) == ["titanic", "heat", "alien"]
