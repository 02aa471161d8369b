"""Films of ReDial's ids."""

import json

from saferec_builder.sources import redial_items
from tests.worlds.catalog_files import file


def test_redial_ids_round_trip(tmp_path):
    rows = {
        "1": {"name": "Alien (1979)", "imdb_id": "tt0078748", "genre": ["horror"], "plot": "In space."},
        "2": {"name": 5},
    }
    read = redial_items.read(file(tmp_path, "id2info.json", json.dumps(rows)))
    assert read.rows.select("source_id", "title", "year", "refs", "genres", "plot").rows() == [
        ("1", "Alien", 1979, ["imdb:tt0078748"], ["horror"], "In space.")
    ]
    assert read.drops["reason"].to_list() == ["wrong type"]


def test_films_of_the_ids(tmp_path):
    path = tmp_path / "id2info.json"
    films = {
        "11": {"name": "Alien (1979)", "genre": ["horror"], "plot": "In space.", "imdb_id": "tt0078748"},
        "12": {"name": "Back to the Future", "genre": [], "plot": "", "imdb_id": "tt0088763"},
        "13": {"genre": []},
        "14": {"name": " ", "imdb_id": "tt1"},
        "15": {"name": "Odd (2000)", "imdb_id": "nm12"},
        "16": 5,
    }
    path.write_text(json.dumps(films))
    found = redial_items.read(path)
    assert found.rows.select("source_id", "title", "year", "refs", "genres", "plot").rows() == [
        ("11", "Alien", 1979, ["imdb:tt0078748"], ["horror"], "In space."),
        ("12", "Back to the Future", None, ["imdb:tt0088763"], [], None),
    ]
    assert found.drops.select("place", "reason").rows() == [
        ("id2info.json:13", "wrong type"),
        ("id2info.json:14", "no title"),
        ("id2info.json:15", "bad imdb id"),
        ("id2info.json:16", "wrong type"),
    ]
