"""Answers of models and the items that they mean. Titles are real where a real title is the difficulty."""

import tomllib

import pytest

from saferec_builder.core import titles
from saferec_builder.scoring.answer_parser import MOST, finder, from_items, parse
from tests import DATA

WRITTEN = tomllib.loads((DATA / "answers.toml").read_text(encoding="utf-8"))
CATALOGUE = [
    *(("alien", "Alien", 1979), ("saw", "Saw", 2004), ("hostel", "Hostel", 2005), ("71", "'71", 2014)),
    ("500", "(500) Days of Summer", 2009),
    ("birdman", "Birdman or (The Unexpected Virtue of Ignorance)", 2014),
    *(("alive", "#Alive", 2020), ("runner", "Blade Runner 2049", 2017), ("2049", "2049", 2017), ("1917", "1917", 2019)),
    *(("2012", "2012", 2009), ("12", "12 Angry Men", 1957), ("300", "300: Rise of an Empire", 2014)),
    *(("mash", "M*A*S*H", 1970), ("mission", "Mission: Impossible", 1996), ("odyssey", "2001: A Space Odyssey", 1968)),
    ("yuma", "3:10 to Yuma", 2007),
    ("good", "The Good, the Bad and the Ugly", 1966),
    *(("schindler", "Schindler's List", 1993), ("matrix", "The Matrix", 1999), ("it", "It", 2017), ("up", "Up", 2009)),
    *(("a", "A", 1999), ("b", "B", 2003), ("or", "Or", 2004), ("reloaded", "The Matrix A", 1999)),
    *(("suspiria77", "Suspiria", 1977), ("suspiria18", "Suspiria", 2018)),
    ("chess", "Chess", None),
]
FIND = finder(titles.index((item, title, year, "film" if year else "game", ()) for item, title, year in CATALOGUE))


def ids(text: str) -> list[str | None]:
    """Returns the items in rank order; None for a title that is no item."""
    return [entry.item for entry in parse(text, FIND).entries]


@pytest.mark.parametrize("text", WRITTEN["three"])
def test_every_way_of_listing_gives_the_same_three_items(text):
    assert ids(text) == ["alien", "saw", "hostel"]


@pytest.mark.parametrize("text", WRITTEN["two"])
def test_tables_and_json(text):
    assert ids(text) == ["alien", "2049"]


@pytest.mark.parametrize(
    "form",
    [
        *(lambda text: text.replace("\n", "\r\n"), lambda text: text.replace("\n", "  \n") + "\t"),
        *(lambda text: f"```markdown\n{text}\n``` ", lambda text: "> " + text.replace("\n", "\n>> ")),
        *(lambda text: text.replace("    ", "\t"), lambda text: text.replace("**", "__")),
        *(lambda text: f"Here they are!\n\n{text}", lambda text: f"{text}\n\n---\n\nEnjoy the films!"),
    ],
    ids=["Windows", "blanks", "fence", "quotation", "tabs", "underscores", "greeting", "farewell"],
)
def test_what_stands_around_the_lines_changes_no_list(form):
    """A blank after each row of a table made two titles of its heading, and so did the lines of a fence, and of
    reasons below a tab; a film under "Avoid" counted as recommended with the line ends of Windows, a heading in
    underscores, or a greeting above it."""
    for text in (text for name in ("three", "two", "warned_of", "spoken_of") for text in WRITTEN[name]):
        assert ids(form(text)) == ids(text), text


@pytest.mark.parametrize("first", ["Alien (1979)\n    It is slow.", "*Alien*, a slow film", "No Such Film"])
def test_a_note_below_a_reason_or_an_unknown_film_is_no_heading(first):
    """It is a heading below a sentence such as "Here they are!" alone: else the next film was left out."""
    assert "up" in ids(f"{first}\n\nAvoid (gore)\n\nUp (2009)\n    It is kind.\n\nHeat (1995)\n    It is slick.")


SPELT = [(line, item) for item, lines in WRITTEN["spelt"].items() for line in lines]


@pytest.mark.parametrize(("line", "item"), SPELT)
def test_one_position_however_it_is_written(line, item):
    assert ids(f"1. {line}") == [item]
    assert ids(f"- {line}\n- Up (2009)") == [item, "up"]


@pytest.mark.parametrize(("text", "items"), WRITTEN["apart"].items())
def test_titles_that_only_the_catalogue_can_tell_apart(text, items):
    assert ids(text) == [item or None for item in items]  # TOML has no null


def test_a_number_that_begins_a_title_is_no_year_of_another():
    assert [entry.year for entry in parse("- 2001: A Space Odyssey - Sci-Fi", FIND).entries] == [None]


@pytest.mark.parametrize("line", WRITTEN["none"])
def test_what_is_no_item_keeps_its_rank_and_is_never_taken_for_one(line):
    assert ids(f"1. {line}\n2. Up (2009)") == [None, "up"]
    if "(" in line:
        assert ids(f"Watch {line}") == [None]


@pytest.mark.parametrize(
    "text",
    [
        "You might enjoy Alien (1979), a film about patience.",
        "Have you seen Alien (1979)?",
        "I think Alien (1979) would be a great fit for you.",
        "For you I picked Alien (1979).",
        "I would go for Alien (1979).",
    ],
)
def test_a_sentence_may_lead_up_to_a_title_with_its_year(text):
    """A recommender that writes sentences used to have no recommendations: svr was 0 for 32 of 32 people."""
    assert parse(text, FIND).ranked == ["alien"]


FIRST = "| # | Title | Year |\n|---|---|---|\n| 1 | Alien | 1979 |"


@pytest.mark.parametrize(
    "text",
    [
        f"### Space\n{FIRST}\n\n### Traps\n| Why | Film |\n|---|---|\n| grim | **Saw** (2004) |",
        f"{FIRST}\n| 2 | Saw | 2004 |\n|---|---|---|",
        f"{FIRST}\n\n| Film | Released |\n|---|---|\n| Saw | 2004 |",
        "| Why this film | Title | Year |\n|---|---|---|\n| slow | Alien | 1979 |\n| sly | Saw | 2004 |",
        "| Film genre | Title | Year |\n|---|---|---|\n| slow | Alien | 1979 |\n| sly | Saw | 2004 |",
        "| Why this film | Movie title |\n|---|---|\n| slow | Alien (1979) |\n| grim | Saw (2004) |",
    ],
)
def test_tables_with_headings_of_their_own_and_reasons_first(text):
    """The second heading and its rule used to be two titles, and "Why this film" the column of titles."""
    assert ids(text) == ["alien", "saw"]


def test_what_ends_like_a_title_is_another_work():
    for title in ("Zombie Alien", "Return of the Alien", "Waiting for Alien"):
        for text in (f"You might enjoy {title} (1979).", f"{title} (1979)"):
            assert parse(text, FIND).entries[0].item is None
    assert parse("You might enjoy Alien (1990).", FIND).entries[0].item is None  # another year


def test_unknown_titles_are_said_by_position():
    answer = parse("1. Alien (1979)\n2. Zed (1990)\n3. ALIEN (1979)\n4. zed (1990)\n5. Zed (1991)", FIND)
    assert [n for n, entry in enumerate(answer.entries) if entry.item is None] == [1, 3, 4]
    assert answer.ranked == ["alien", "title:zed (1990)", "alien", "title:zed (1990)", "title:zed (1991)"]
    assert [(e.title, e.year) for e in answer.entries[:2]] == [("Alien", 1979), ("Zed", 1990)]
    assert answer.problem is None


PROBLEMS = [(text, problem) for problem, texts in WRITTEN["problem"].items() for text in texts]


@pytest.mark.parametrize(("text", "problem"), PROBLEMS)
def test_an_answer_without_items_says_why(text, problem):
    answer = parse(text, FIND)
    assert (answer.entries, answer.problem) == ((), problem)


def test_the_domain_decides_only_between_items_that_share_a_title():
    find = finder(titles.index([("film", "Doom", 2005, "film", ()), ("game", "Doom", None, "game", ())]))
    assert [find("Doom", None, domain) for domain in (None, "film", "game", "series")] == [None, "film", "game", None]
    assert parse("- Chess", FIND, "film").ranked == ["chess"]  # a game in a request for films is still that game


def test_items_that_come_as_objects():
    answer = from_items([{"title": "Alien", "year": 1979}, {"title": "Nope", "year": 2030}, {"year": 1}, 5], FIND)
    assert [e.item for e in answer.entries] == ["alien", None]
    assert from_items([], FIND).problem == "empty"


@pytest.mark.timeout(60)  # a slow parser takes minutes
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(piece * (30_000 // len(piece)), id=repr(piece))
        for piece in (
            " ", "(", "'", "* ", "**a", "1. ", "a, ", "| ", "(1999", "(1999) ", "[1,", "a (1999) ", '"a"', "(a, ",
            "x\n", "a  -", "'a'b", "\x02", "1. a (1999) ", "|--", "Saw (2004), ", "_a", "{\"a\":", "<analysis>",
            '{"a":1}', 'x {"a":1} ', '[[""] x]', '"\\', "[\n", "**Saw (2004)**\n- a\n", "1. (2) ", "1 a\n",
        )
    ],
)  # fmt: skip
def test_a_text_made_to_be_slow_is_read_at_once_and_cut(text):
    assert len(parse(text, FIND).entries) <= MOST
