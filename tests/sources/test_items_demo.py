"""The demo's items."""

import json

from saferec_builder.sources import items_demo
from tests.worlds.catalog_files import file


def test_demo_items(tmp_path):
    rows = [
        {"title": "The Paper Tide", "year": 2011, "domain": "game", "genres": ["puzzle"], "plot": "Fold."},
        {"id": "own", "title": "B", "year": 1999, "domain": "film"},
        {"title": "C", "year": "1999", "domain": "film"},
        {"title": "D", "year": 1999, "domain": "opera"},
    ]
    result = items_demo.read(file(tmp_path, "d.jsonl", "\n".join(map(json.dumps, rows))))
    assert result.rows["source_id"].to_list() == ["game-paper-tide-2011", "own"]
    assert result.drops["reason"].to_list() == ["wrong type", "unknown domain"]
