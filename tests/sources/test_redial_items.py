"""Films of ReDial's ids."""

import json

from saferec_builder.sources import redial_items
from tests.worlds.catalog_files import file
from tests.worlds.source_lines import REDIAL


def test_films_of_the_ids(tmp_path):
    films = {
        "11": {"name": "Alien (1979)", "genre": ["horror"], "plot": "In space.", "imdb_id": "tt0078748"},
        "12": {"name": "Back to the Future", "genre": [], "plot": "", "imdb_id": "tt0088763"},
    }
    odd = ({"name": name, "imdb_id": ref} for name, ref in ((" ", "tt1"), ("Odd (2000)", "nm12"), ("(2015)", None)))
    films |= {str(n): film for n, film in enumerate((*odd, {"genre": []}, 5, {"name": 5}), 13)}
    items = redial_items.read(file(tmp_path, "id2info.json", json.dumps(films)))
    assert items.rows.select("source_id", "title", "year", "refs", "genres", "plot").rows() == [
        ("11", "Alien", 1979, ["imdb:tt0078748"], ["horror"], "In space."),
        ("12", "Back to the Future", None, ["imdb:tt0088763"], [], None),
    ]
    reasons = ("no title", "bad imdb id", "no title", *["wrong type"] * 3)
    assert items.drops.select("place", "reason").rows() == [(f"id2info.json:{n}", r) for n, r in enumerate(reasons, 13)]


def test_films_of_the_dialogues_as_they_are_published(tmp_path):
    """id2info.json is from another repository: ReDial's own dialogues give the titles of their ids."""
    names = (
        {"187028": "It (2017)", "5": "Why Him%3F  (2016)", "9": None},
        [],  # the published form of no mentions
        {"187028": "It: Chapter One (2017)", "5": "Why Him? (2016)", "7": " (2015)", "8": "Heat"},
    )
    lines = [json.dumps(REDIAL | {"movieMentions": mentions}) for mentions in names]
    lines[1:1] = ["{broken", json.dumps({"messages": []})]
    items = redial_items.read(file(tmp_path, "train_data.jsonl", "\n".join(lines)))
    assert items.rows.select("source", "source_id", "domain", "title", "year", "aliases").rows() == [
        ("redial", "187028", "film", "It", 2017, ["It: Chapter One (2017)"]),
        ("redial", "5", "film", "Why Him?", 2016, []),
        ("redial", "8", "film", "Heat", None, []),
    ]
    assert items.drops.select("place", "reason").rows() == [
        ("train_data.jsonl:2", "not JSON"),
        ("train_data.jsonl:3", "wrong type"),
        ("train_data.jsonl:1", "no title"),
        ("train_data.jsonl:5", "no title"),
    ]


def test_an_id_is_what_any_dialogue_calls_it_best_with_a_year(tmp_path):
    """An id with a title in a third dialogue gave two drops; "Heat" had no year, although one dialogue has it."""
    names = ({"100": None, "8": "Heat", "9": None}, {"100": None, "9": ""}, {"100": "Saw (2004)", "8": "Heat (1995)"})
    lines = [json.dumps(REDIAL | {"movieMentions": mentions}) for mentions in (*names, {"8": "Heat, Part 1"})]
    items = redial_items.read(file(tmp_path, "train.jsonl", "\n".join(lines)))
    assert items.rows.select("source_id", "title", "year", "aliases").sort("source_id").rows() == [
        ("100", "Saw", 2004, []),
        ("8", "Heat", 1995, ["Heat, Part 1"]),
    ]
    assert items.drops.select("place", "reason").rows() == [("train.jsonl:1", "no title")]  # for 9, once
