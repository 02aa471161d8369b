"""Films of ReDial's ids."""

import json

from saferec_builder.sources import redial_items
from tests.worlds.catalog_files import file


def test_films_of_the_ids(tmp_path):
    films = {
        "11": {"name": "Alien (1979)", "genre": ["horror"], "plot": "In space.", "imdb_id": "tt0078748"},
        "12": {"name": "Back to the Future", "genre": [], "plot": "", "imdb_id": "tt0088763"},
    }
    odd = (
        {"genre": []},
        {"name": " ", "imdb_id": "tt1"},
        {"name": "Odd (2000)", "imdb_id": "nm12"},
        5,
        {"name": 5},
        {"name": "(2015)"},
    )
    films |= {str(n): film for n, film in enumerate(odd, 13)}
    found = redial_items.read(file(tmp_path, "id2info.json", json.dumps(films)))
    assert found.rows.select("source_id", "title", "year", "refs", "genres", "plot").rows() == [
        ("11", "Alien", 1979, ["imdb:tt0078748"], ["horror"], "In space."),
        ("12", "Back to the Future", None, ["imdb:tt0088763"], [], None),
    ]
    reasons = ("wrong type", "no title", "bad imdb id", "wrong type", "wrong type", "no title")
    assert found.drops.select("place", "reason").rows() == [(f"id2info.json:{n}", r) for n, r in enumerate(reasons, 13)]
