"""JSON as models write it: with words around it, cut off, or with more than the list in it."""

import json

import pytest

from saferec_builder.core import titles
from saferec_builder.core.errors import KeyTwice
from saferec_builder.scoring.answer_parser import finder, parse
from saferec_builder.scoring.json_in_text import found, replaced

FILMS = {"alien": ("Alien", 1979), "heat": ("Heat", 1995), "heat86": ("Heat", 1986), "saw": ("Saw", 2004)}
FIND = finder(titles.index((item, title, year, "film", ()) for item, (title, year) in FILMS.items()))
LIST = [{"title": "Alien", "year": 1979}, {"title": "Heat", "year": 1995}]
WIDE = json.dumps(LIST, indent=2)
NAMES = ["Alien (1979)", "Heat (1995)"]


def ids(text: str) -> list[str | None]:
    """Returns the items in rank order; None for a title that is no item."""
    return [entry.item for entry in parse(text, FIND, "film").entries]


@pytest.mark.parametrize(
    "text",
    [
        f"Here are my recommendations:\n\n{WIDE}",
        f"{WIDE}\n\nEnjoy! I left out Saw (2004).",
        f"Sure [as you asked]!\n```JSON\n{WIDE}\n```\nEnjoy!",
        f"```python\nfilms = {WIDE}\n```",
        f"Here they are: {json.dumps(LIST)} Have fun.",
        "\n".join(map(json.dumps, LIST)),
        ", ".join(map(json.dumps, LIST)),
        "Thrillers:\n```json\n" + json.dumps(LIST[:1]) + "\n```\nCrime:\n```json\n" + json.dumps(LIST[1:]) + "\n```",
        f"As strings:\n{json.dumps(NAMES)}\n(2 films)",
        f"{WIDE[:-2]}, // that is all\n]",
        WIDE[:-2] + ',\n  {"title": "Sa',
        f"Films:\n{json.dumps({'liked': ['Saw (2004)'], 'movies': NAMES})}",
        # JSON that is no list of titles is passed over
        '1. Alien (1979) ["space"]\n2. Heat (1995) ["crime", "1990s"]',
        '- Alien (1979)\n  - Tags: ["Saw", "space"]\n- Heat (1995)',
        '["thriller", "crime"]\n1. Alien (1979)\n2. Heat (1995)',
        '{"avoided": ["gore"], "k": 2}\n\n1. Alien (1979)\n2. Heat (1995)',
        'You liked: ["Saw (2004)", "Heat (1986)"]\n1. Alien (1979)\n2. Heat (1995)',
        'Avoid:\n```json\n["Saw"]\n```\n- Alien (1979)\n- Heat (1995)',
        '["Alien"](https://films.example/1) (1979)\n["Heat"](https://films.example/2) (1995)',
    ],
)
def test_the_list_is_found_among_words_and_other_json(text):
    """After a sentence recall used to fall from .75 to .25: brackets were read as titles, and every year was lost."""
    assert ids(text) == ["alien", "heat"]


@pytest.mark.parametrize(
    "value",
    [
        {"user_preferences": ["thriller", "funny"], "recommendations": LIST},
        {"liked": ["Saw (2004)"], "user_likes": ["Saw (2004)"], "movies": NAMES},
        {"thoughts": ["slow", "tense"], "for_tonight": LIST, "seen_before": ["Saw (2004)"]},
        {"name": "Saw", "movies": NAMES},
        {"user": {"age": 30}, "response": {"recommended_movies": NAMES}},
        {"recommendations": {"1": LIST[0], "2": "Heat (1995)"}},
        {"not_recommended": ["Saw (2004)"], "recommendations": {"space": LIST[:1], "crime": NAMES[1:]}},
        [{"title": "Alien", "year": 1979, "cast": ["Saw"]}, {"movie": {"title": "Heat", "year": 1995}}],
        {"rank_1": LIST[0], "rank_2": {"film_name": "Heat", "film_year": 1995}},
        [{"movie_title": "Alien"}, {"title": "Heat", "release_date": "1995-12-15"}],
    ],
)
def test_the_list_is_told_from_the_other_lists_of_an_object(value):
    assert ids(json.dumps(value)) == ["alien", "heat"]


def test_a_key_that_comes_twice_is_refused_among_words_too():
    assert parse('Here:\n{"title": "Alien (1979)", "title": "Saw (2004)"}', FIND).problem == "key twice"
    with pytest.raises(KeyTwice):
        found('Here:\n{"a": 1, "a": 2}')


def test_what_is_found_and_what_is_put_in_its_place():
    text = 'So:\n{"a": ["]"]}\nand\n[1]\n[2, 3]\nno [4] and no {b}'
    assert [match.value for match in found(text)] == [{"a": ["]"]}, [1], [2, 3]]
    assert replaced(text, lambda value: str(len(value))) == "So:\n1\nand\n1\n2\nno [4] and no {b}"
    assert found("[no] {json}") == []


def test_tags_beside_a_list_and_a_seed_beside_recommendations_are_not_the_list():
    tagged = '1. Heat (1995)\n   Keywords: ["Saw", "Crime"]\n2. Alien (1979)\n   Keywords: ["Saw"]'
    assert ids(tagged) == ["heat", "alien"]
    seeded = {"movie": "Heat (1995)", "recommendations": ["Alien (1979)", "Saw (2004)"]}
    assert ids(json.dumps(seeded)) == ["alien", "saw"]
    assert ids('1. Heat (1995)\n2. Alien (1979)\nDebug: {"a": 1, "a": 2}') == ["heat", "alien"]


@pytest.mark.parametrize(
    "words",
    [
        "Here are movies that avoid gore:",
        "Since you liked Jaws, three movies:",
        "A list that respects your sensitivities:",
    ],
)
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
def test_words_of_what_is_avoided_do_not_hide_the_json_below_them(words, fence):
    """A film in a reason is not part of the list, and a film outside the catalogue keeps its rank."""
    rows = [{"title": "Heat", "year": 1995, "reason": "Like Saw (2004), but calm"}, {"title": "Zed and Zoe"}]
    assert ids(f"{words}\n{fence.format(json.dumps(rows))}") == ["heat", None]


def test_a_film_with_a_list_of_other_things_is_that_film():
    assert ids(json.dumps({"title": "Alien", "items": ["a knife", "money"]})) == ["alien"]
