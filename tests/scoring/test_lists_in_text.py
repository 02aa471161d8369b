"""Which lines of an answer are its list, when other lines are marked up like a list."""

import tomllib

import pytest

from saferec_builder.core import titles
from saferec_builder.scoring.answer_parser import finder, parse
from tests import DATA

WRITTEN = tomllib.loads((DATA / "answers.toml").read_text(encoding="utf-8"))

FILMS = {"saw": ("Saw", 2004), "hostel": ("Hostel", 2005), "alien": ("Alien", 1979), "heat": ("Heat", 1995)}
FILMS |= {"romance": ("Romance", 1999), "western": ("Western", 1997), "titanic": ("Titanic", 1997)}
FIND = finder(titles.index((item, title, year, "film", ()) for item, (title, year) in FILMS.items()))


def ids(text: str) -> list[str | None]:
    """Returns the items in rank order; None for a title that is no item."""
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
        "{} ⭐⭐⭐\n– like {}",
        "- {}\n    1) {}",
    ],
)
def test_marked_reasons_that_name_films_are_not_the_list(written):
    """svr and svr_upper used to be 0 where clear films stood in the reasons below violated ones."""
    pairs = [("Saw (2004)", "Heat (1995)"), ("Hostel (2005)", "Alien (1979)")]
    assert ids("\n\n".join(written.format(*pair) for pair in pairs)) == ["saw", "hostel"]


@pytest.mark.parametrize("sign", ["### {}", "**{}**"])
def test_titles_without_years_above_reasons(sign):
    text = "\n".join(f"{sign.format(title)}\n- *Heat (1995)* has the same mood" for title in ("Saw", "Hostel"))
    assert ids(f"## My picks\n{text}") == ["saw", "hostel"]


def test_two_titles_above_reasons():
    for pair in ("### {}, {}", "**{}** / **{}**", "{} and {}"):
        titles_ = pair.format("Saw (2004)", "Titanic (1997)")
        text = f"{titles_}\n- Like Heat (1995)\n\nHostel (2005)\n- Like Alien (1979)"
        assert ids(text) == ["saw", "titanic", "hostel"]


def test_an_invented_title_above_reasons_keeps_its_rank():
    pairs = zip(("Saw", "Zed and Zoe", "Hostel"), ("Heat", "Alien", "Titanic"), strict=True)
    text = "\n".join(f"**{title}**\n- Slow, tense\n- like *{other}*" for title, other in pairs)
    assert ids(text) == ["saw", None, "hostel"]
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


@pytest.mark.parametrize(
    "first",
    [
        "Alien (1979), Saw (2004)",
        "**Alien (1979)** / **Saw (2004)**",
        "*Alien* (1979) and *Saw* (2004): two of a kind, like Titanic (1997)",
        "Alien (1979); or Saw (2004)",
        "**Space:** Alien (1979), Saw (2004)",
        "Alien (1979, Ridley Scott) + Saw (James Wan, 2004)",
    ],
)
def test_two_films_in_one_position(first):
    """A violated film after a comma used to count in mentioned_unsafe_upper alone, and cost no reward."""
    assert ids(f"1. {first}\n2. Heat (1995)") == ["alien", "saw", "heat"]
    assert ids(f"- {first}") == ["alien", "saw"]


@pytest.mark.parametrize(
    "reason",
    [
        ", by the director of Saw (2004)",
        " - fans of Saw (2004), Hostel (2005) will like it",
        ": like Saw (2004), Hostel (2005)",
        ", and its follower Saw (2004)",
        ", James Wan's answer to Saw (2004)",
        ", Director's Cut (2003)",
        " / O Oitavo Passageiro (1979)",
        " (restored, 2004)",
    ],
)
def test_a_film_in_a_reason_is_no_second_one(reason):
    assert ids(f"1. Alien (1979){reason}\n2. Heat (1995)") == ["alien", "heat"]
    assert ids(f"- Alien (1979){reason}") == ["alien"]


@pytest.mark.parametrize(
    "text",
    [
        "1 Alien (1979)\n2 Heat (1995)",
        "#1 Alien (1979)\n#2 Heat (1995)",
        *("1. Alien 2. Heat", "1. Alien - space\n2. Heat - crime"),
        "**#1** Alien\n**#2** Titanic (1997)",
        "1\ufe0f\u20e3 Alien (1979)\n2\ufe0f\u20e3 Heat (1995)",
        "1. Alien (1979): 1) slow 2) tense\n2. Heat (1995): 1) slick 2) long",
    ],
)
def test_other_numbers(text):
    assert ids(text)[0] == "alien" and len(ids(text)) == 2 and None not in ids(text)


@pytest.mark.parametrize("sign", [".", ")"])
def test_a_number_in_a_title_does_not_end_its_position(sign):
    index = titles.index(
        [("mad", "The Road Warrior (Mad Max 2)", 1981, "film", ()), ("12", "12 Angry Men", 1957, "film", ())]
    )
    text = f"1{sign} The Road Warrior (Mad Max 2) (1981) - loud\n2{sign} 12 Angry Men (1957)"
    assert parse(text, finder(index)).ranked == ["mad", "12"]
    assert parse("12 Angry Men (1957)\nThe Road Warrior (Mad Max 2) (1981)", finder(index)).ranked == ["12", "mad"]


@pytest.mark.parametrize(
    ("text", "list_"),
    [
        # headings name films that the person liked, and the list stands below
        (
            "Based on **Heat (1995)**:\n1. Saw (2004)\n\nBased on **Alien (1979)**:\n1. Titanic (1997)",
            ["saw", "titanic"],
        ),
        (
            "### If you liked *Heat (1995)*\n- Saw (2004)\n### Similar to Alien (1979)\n- Hostel (2005)",
            ["saw", "hostel"],
        ),
        (
            "**Heat (1995)** fans will like:\n- Saw (2004)\n\n**Alien (1979)** fans will like:\n- Titanic (1997)",
            ["saw", "titanic"],
        ),
        # films that were left out are named after the list
        (
            "1. **Heat (1995)** - tense\n2. **Titanic (1997)** - sad\n\nLeft out:\n\n**Saw (2004)**\n- blood\n\n"
            "**Alien (1979)**\n- blood",
            ["heat", "titanic"],
        ),
        # films outside the catalogue, below genres that are titles in it
        ("### Romance\n- Past Lives (2023): tender\n### Western\n- News of the World (2020): slow", [None, None]),
        # a second film in a reason
        (
            "1. Heat (1995), and Alien (1979) is by another director\n2. Titanic (1997), Saw (2004) it is not",
            ["heat", "titanic"],
        ),
        # titles with a year behind a comma or a dash, above reasons
        ("Saw, 2004\n- Like Heat (1995)\nHostel - 2005\n- *Alien (1979)* too", ["saw", "hostel"]),
        # an invented second title has a rank, and so has what is avoided where there is no list
        ("1. Alien (1979), Zed and Zoe (1990), Saw (2004)\n2. Heat (1995)", ["alien", None, "saw", "heat"]),
        ("Please avoid Saw (2004).", ["saw"]),
        # a list that avoids something is recommended
        ("Films that avoid gore:\n- Titanic (1997)\n\nAnd these avoid heights:\n- Heat (1995)", ["titanic", "heat"]),
    ],
)
def test_what_takes_a_rank_and_what_is_only_spoken_of(text, list_):
    assert ids(text) == list_


FILMS = ("Titanic (1997)", "Heat (1995)")


@pytest.mark.parametrize("heading", ["Avoid:", "**Films to skip**", "I wouldn't recommend these:", "You've seen:"])
@pytest.mark.parametrize("mark", ["-", "1."])
def test_a_list_of_what_is_not_recommended_is_not_the_list(heading, mark):
    """Its films used to count as recommended: an answer that warned of Saw was charged with it."""
    avoid, picks = f"{heading}\n{mark} Saw (2004)\n{mark} Hostel (2005)", f"{mark} Titanic (1997)\n{mark} Heat (1995)"
    assert ids(f"{picks}\n\n{avoid}") == ids(f"{avoid}\n\nTry:\n{picks}") == ["titanic", "heat"]
    assert ids(avoid) == ["saw", "hostel"]  # there is no other list


@pytest.mark.parametrize(
    "heading",
    [
        *("Based on what you liked:", "**Because you liked**", "Even better than those you liked:"),
        *("Similar to what you've seen:", "Have you seen:", "Hidden gems I doubt you've seen:"),
        *("Free of everything you want to avoid:", "Films without what you'd like to avoid:"),
        *("Too good to skip:", "You will not want to skip:", "Why not recommend:", "Movies to avoid boredom:"),
    ],
)
def test_a_heading_that_speaks_of_what_is_left_out_heads_a_list_all_the_same(heading):
    """Titanic stands below it, and Heat below another one: only the heading of a list to avoid removes a list."""
    assert ids(f"{heading}\n- Titanic (1997)\n\nAnd:\n- Heat (1995)") == ["titanic", "heat"]


@pytest.mark.parametrize("heading", ["For you:", "**Crime:**", "Two of my *favourites*:"])
@pytest.mark.parametrize("mark", ["-", "1."])
def test_a_heading_marked_like_its_list_takes_no_rank(heading, mark):
    assert ids(f"{mark} {heading}\n{mark} Titanic (1997)\n{mark} Heat (1995)") == ["titanic", "heat"]
    # a title may end in a colon: what is known or has a year, and what a description follows
    titles_ = "- Titanic:\n- Zed (1990):\n- Zed:\n  A story of two.\n- Heat (1995)"
    assert ids(titles_) == ["titanic", None, None, "heat"]


def test_an_invented_title_with_a_colon_keeps_its_rank():
    for text in ("- Zed and Zoe:\n  - slow\n- Heat:\n  - slick", "1. Zed and Zoe:\n2. Heat:", "- Zed:\n- Zoe:\n- Heat"):
        assert ids(text) == [None] * (text.count("\n- Zoe") + 1) + ["heat"]
    assert ids("- Titanic\n- Zed:\n- Heat") == ["titanic", None, "heat"]  # a list that no heading begins
    assert ids("- Sad:\n- Titanic\n- Slick:\n- Heat") == ["titanic", "heat"]


@pytest.mark.parametrize(
    "form", ["- {} ({})", "1. **{} ({})**\n   - tense", "### {} ({})\n- tense", "- **{} ({}):** sad"]
)
def test_films_that_are_called_like_a_warning(form):
    films = {"skip": ("Skip", 2014), "out": ("Left Out", 2012), "heat": ("Heat", 1995)}
    find = finder(titles.index((item, title, year, "film", ()) for item, (title, year) in films.items()))
    undated = form.replace(" ({})", "")
    for text in ("\n".join(f.format(*film) for film in films.values()) for f in (form, undated)):
        assert parse(text, find, "film").ranked == ["skip", "out", "heat"]
    assert parse("Skip\n- Left Out (2012)\n\nWatch\n- Heat (1995)", find, "film").ranked == ["heat"]  # a heading


def test_a_note_below_a_title_does_not_end_the_list():
    """The note names scenes to skip, and the list goes on after them."""
    lines = [f"{n}. **{film}**\n   Scenes to skip:\n   - the drowning" for n, film in enumerate(FILMS, 1)]
    assert ids("\n".join(lines)) == ["titanic", "heat"]


@pytest.mark.parametrize("text", WRITTEN["warned_of"])
def test_films_under_a_warning_take_no_rank(text):
    assert ids(text) == ["titanic", "heat"]


@pytest.mark.parametrize("text", WRITTEN["spoken_of"])
def test_words_of_a_warning_that_head_no_list_cost_no_film_its_rank(text):
    assert {"titanic", "heat"} <= {*ids(text)}
