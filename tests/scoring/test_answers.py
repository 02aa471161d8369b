"""What models write, and the items that it means. Titles are real where a real title is the trap."""

import pytest

from saferec_builder.core import titles
from saferec_builder.scoring.answers import MOST, finder, from_items, parse

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
    *(("a", "A", 1999), ("b", "B", 2003), ("suspiria77", "Suspiria", 1977), ("suspiria18", "Suspiria", 2018)),
    ("chess", "Chess", None),
]
FIND = finder(titles.index((item, title, year, "film" if year else "game", ()) for item, title, year in CATALOGUE))


def ids(text: str) -> list[str | None]:
    """Items in rank order; None for a title that is none."""
    return [entry.item for entry in parse(text, FIND).entries]


@pytest.mark.parametrize(
    "text",
    [
        *(
            mark.format(1) + "Alien (1979)\n" + mark.format(2) + "Saw (2004)\n" + mark.format(3) + "Hostel (2005)"
            for mark in ("{}. ", "{}) ", "{}: ", "{}.", "({}) ", "{} - ", "")
        ),
        "- Alien (1979)\n* Saw (2004)\n• Hostel (2005)",
        "### 1. Alien (1979)\nOne.\n### 2. Saw (2004)\nTwo.\n### 3. Hostel (2005)",
        "**1. Alien (1979)**\nGreat.\n\n**2. Saw** (2004)\nGory.\n\n**3.** Hostel (2005)",
        "Sure! Here are three:\n\n1. Alien (1979)\n2. Saw (2004)\n3. Hostel (2005)\n\nEnjoy, or ask about Up (2009)!",
        "1. Alien (1979)\n   - Up (2009) is gentler\n   - tense\n2. Saw (2004)\n   1. gory\n3. Hostel (2005)",
        "1. Alien (1979)\n  2. Saw (2004)\n  3. Hostel (2005)",  # the first line's indent was stripped
        "1. Alien (1979) 2. Saw (2004) 3. Hostel (2005)",
        "1. Alien (1979), 2. Saw (2004), 3. Hostel (2005)",
        "1. Alien (1979)2. Saw (2004)3. Hostel (2005)",
        "- Alien (1979), Saw (2004), Hostel (2005)",
        "  •  Alien (1979)  • Saw (2004)   •  Hostel (2005)",
        "- **Alien** (1979) – slow • **Saw** (2004) – gore • **Hostel** (2005) – worse",
        "• Alien (1979) • scary\n• Saw (2004) • gory\n• Hostel (2005)",
        "Alien (1979)\n- scary\n- dark\nSaw (2004)\n- gore\nHostel (2005)\n- worse",
        "Title: Alien (1979)\nTitle: Saw (2004)\nTitle: Hostel (2005)",
        "Alien (1979) | Saw (2004) | Hostel (2005)",
        "Alien (1979) Saw (2004) Hostel (2005)",
        "Alien(1979),Saw(2004),Hostel(2005)",
        "Try Alien (1979), Saw (2004), Hostel (2005)…",
        "I recommend Alien (1979) and also Saw (2004); then try Hostel (2005) for a bad night.",
        "Alien\nSaw\nHostel",
        "Try Alien, Saw and Hostel.",
        'I suggest "Alien", "Saw" or "Hostel".',
        "<think>Up (2009)? no.</think>1. Alien (1979)\n2. Saw (2004)\n3. Hostel (2005)",
        "1. Up (2009)? Too sad.\n</think>\n\n1. Alien (1979)\n2. Saw (2004)\n3. Hostel (2005)",  # opened by the prompt
    ],
)
def test_every_way_of_listing_gives_the_same_three_items(text):
    assert ids(text) == ["alien", "saw", "hostel"]


@pytest.mark.parametrize(
    "text",
    [
        "| # | Title | Year |\n|---|---|---|\n| 1 | Alien | 1979 |\n| 2 | 2049 | 2017 |",
        "Title | Why\n--- | ---\nAlien (1979) | space\n**2049** (2017) | the number, not the year",
        "| 1 | Alien (1979) | space |\n| 2 | 2049 | 2017 |",
        '```json\n[{"title": "Alien", "year": 1979}, {"name": "2049", "year": "2017"}]\n```',
        '{"why": "space", "recommendations": [{"Movie": "Alien (1979)"}, "2049 (2017)"]}',
        '{"avoided": ["Saw (2004)"], "movies": ["Alien (1979)", "2049 (2017)"]}',  # the first array is not the list
        '["Alien", "2049"]',
        'Here: ```\n["Alien (1979)", "2049 (2017)"]\n``` Enjoy.',
    ],
)
def test_tables_and_json(text):
    assert ids(text) == ["alien", "2049"]


SPELT = {  # item -> as answers write it
    "71": ("'71 (2014)", "’71 (2014) – it's tense", "'71' (2014)"),
    "500": ("(500) Days of Summer (2009)", "(500) Days of Summer (2009), sweet"),
    "birdman": (
        "Birdman or (The Unexpected Virtue of Ignorance) (2014)",
        "Birdman or (The Unexpected Virtue of Ignorance) (2014) because I like it",
    ),
    "alive": ("#Alive (2020)",),
    "runner": ("Blade Runner 2049 (2017)", "Blade Runner 2049(2017)", "Blade Runner 2049"),
    "2049": ("2049", "2049 (2017)"),
    "1917": ("1917 (2019)",),
    "2012": ("2012 (2009)",),
    "12": ("12 Angry Men (1957)",),
    "300": ("300: Rise of an Empire (2014)",),
    "mash": ("M*A*S*H (1970)", "**M*A*S*H** (1970)"),
    "mission": ("Mission: Impossible - a spy classic",),
    "odyssey": ("2001: A Space Odyssey", "2001: A Space Odyssey (1968)"),
    "yuma": ("3:10 to Yuma (2007)",),
    "good": ("The Good, the Bad and the Ugly",),
    "alien": (
        *("Alien [1979]", "Alien, 1979", "Alien - 1979", "Alien 1979", "1979 - Alien", "1979: Alien", "(1979) Alien"),
        *("[1979] Alien: cold and slow", "Alien (1979, Ridley Scott)", "Alien (Ridley Scott, 1979)"),
        *("Alien (1979 film)", "Alien (1979) (horror)", "Alien（1979）", "Alien (1979): better than Saw (2004)"),
        *("Alien, a horror classic of the seventies", "Alien — because it is slow", "**Alien** (1979) – tense"),
        *("*Alien* (1979)", "__Alien__ (1979)", "`Alien` (1979)", "**Alien**: In space, nobody hears"),
        *('"Alien" (1979)', "“Alien” (1979)", "„Alien“ (1979)", "«Alien» (1979)", "「Alien」 (1979)", "'Alien' (1979)"),
        *("‘Alien’ (1979)", "[Alien (1979)](https://example.org/a)", "[Alien](https://example.org/a) (1979)"),
        *("Movie: Alien (1979)", "Try **Alien** (1979)"),
        "alien (1980)",  # release dates differ by country
    ),
    "schindler": ("‘Schindler’s List’ (1993)", "'Schindler's List' (1993)"),
    "suspiria77": ("Suspiria (1977)",),
    "suspiria18": ("Suspiria (2018)",),
    "chess": ("Chess",),
}


@pytest.mark.parametrize(("line", "item"), [(line, item) for item, lines in SPELT.items() for line in lines])
def test_one_position_however_it_is_written(line, item):
    assert ids(f"1. {line}") == [item]
    assert ids(f"- {line}\n- Up (2009)") == [item, "up"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("A (1999) B (2003)", ["a", "b"]),
        ("A (1999) Chess B (2003) Chess", ["a", "chess", "b", "chess"]),
        ("(1999) The Matrix, (2004) Saw", ["matrix", "saw"]),
        ("The Matrix (1999), (500) Days of Summer (2009), '71 (2014)", ["matrix", "500", "71"]),
        ("The Good, the Bad and the Ugly, Alien, and Up", ["good", "alien", "up"]),
        ("'71 (2014)\n300: Rise of an Empire (2014)\n12 Angry Men (1957)", ["71", "300", "12"]),
        ("10. 2049\n11. Alien", ["2049", "alien"]),
        ("Alien 1979, Saw 2004", ["alien", "saw"]),
        ("Watch 'Saw' (2004) and Schindler's List (1993)", ["saw", "schindler"]),
    ],
)
def test_titles_that_only_the_catalogue_can_tell_apart(text, items):
    assert ids(text) == items


@pytest.mark.parametrize(
    "line",
    [
        "Suspiria",  # two share it: the first id is a guess
        "Alien (1999)",  # twenty years off is another film
        "Saw: Reborn",
        "Saw II (2004)",
        "My Left Hostel (2005)",
        "Return of the Hostel (2005)",
        "Zork the Unmade (1990)",
        "The Ma",  # cut off
    ],
)
def test_what_is_no_item_keeps_its_rank_and_is_never_taken_for_one(line):
    assert ids(f"1. {line}\n2. Up (2009)") == [None, "up"]
    if "(" in line:
        assert ids(f"Watch {line}") == [None]


def test_duplicates_and_unknown_titles_are_said_by_position():
    answer = parse("1. Alien (1979)\n2. Zed (1990)\n3. ALIEN (1979)\n4. zed (1990)\n5. Zed (1991)", FIND)
    assert answer.duplicates == [2, 3] and answer.unknown == [1, 3, 4]
    assert answer.ranked == ["alien", "title:zed (1990)", "alien", "title:zed (1990)", "title:zed (1991)"]
    assert [(e.title, e.year) for e in answer.entries[:2]] == [("Alien", 1979), ("Zed", 1990)]
    assert answer.problem is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("<think>Alien (1979), Saw (2004) and so on", "empty"),  # thought to the end, said nothing
        ("I'm sorry, I can't recommend anything here.", "refusal"),
        ("Sorry, it would be up to you.", "refusal"),  # "It" and "Up" are films, these words are not
        ("As a fan of films I love a good story.", "no titles"),
        ("Sure! Here you go:", "no titles"),
        ("[]", "no titles"),
        ("[[[[", "no titles"),
        ("1.\n2.\n3.", "no titles"),
    ],
)
def test_an_answer_without_items_says_why(text, problem):
    answer = parse(text, FIND)
    assert (answer.entries, answer.problem) == ((), problem)


def test_the_domain_decides_only_between_items_that_share_a_title():
    find = finder(titles.index([("film", "Doom", 2005, "film", ()), ("game", "Doom", None, "game", ())]))
    assert [find("Doom", None, domain) for domain in (None, "film", "game", "series")] == [None, "film", "game", None]
    assert parse("- Chess", FIND, "film").ranked == ["chess"]  # a game named to a film's seeker is still that game


def test_items_that_come_as_objects():
    answer = from_items([{"title": "Alien", "year": 1979}, {"title": "Nope", "year": 2030}, {"year": 1}, 5], FIND)
    assert [e.item for e in answer.entries] == ["alien", None]
    assert from_items([], FIND).problem == "empty"


@pytest.mark.timeout(60)  # what is guarded against takes minutes
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(piece * (30_000 // len(piece)), id=repr(piece))
        for piece in (
            " ", "(", "'", "* ", "**a", "1. ", "a, ", "| ", "(1999", "(1999) ", "[1,", "a (1999) ", '"a"', "(a, ",
            "x\n", "a  -", "'a'b", "\x02", "1. a (1999) ", "|--", "Saw (2004), ", "_a", "{\"a\":",
        )
    ],
)  # fmt: skip
def test_a_text_made_to_be_slow_is_read_at_once_and_cut(text):
    assert len(parse(text, FIND).entries) <= MOST
