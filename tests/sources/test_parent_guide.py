"""IMDb's parents guide."""

import json

import pytest

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import parent_guide
from tests.worlds.catalog_files import file

OFFICIAL = 'imdb,Sex & Nudity,Violence & Gore,Profanity,"Alcohol, Drugs & Smoking",Frightening & Intense Scenes\n'


@pytest.mark.parametrize("header", ["imdb,sex,violence,profanity,drugs,frightening\n", OFFICIAL])
def test_parent_guide(tmp_path, header):
    text = header + "tt0078748,None,Severe,mild,,MODERATE\ntt0113277,None,Extreme,3,,\ntt0000009,,,,,\nx,Mild,,,,\n"
    result = parent_guide.read(file(tmp_path, "guide.csv", text))
    rated = [("imdb:tt0078748", *r) for r in (("sex", 0), ("violence", 3), ("profanity", 1), ("frightening", 2))]
    assert result.rows.select("ref", "topic", "severity").rows() == [*rated, ("imdb:tt0113277", "sex", 0)]
    assert sorted(result.drops.select("place", "reason").rows()) == [
        ("guide.csv:3 profanity", "unknown severity"),
        ("guide.csv:3 violence", "unknown severity"),
        ("guide.csv:4", "nothing rated"),
        ("guide.csv:5", "bad imdb id"),
    ]


def test_two_columns_of_one_category(tmp_path):
    """A blank one is ignored in either place; if both are filled, it is unknown which is meant."""
    text = "imdb,violence,Violence & Gore\ntt1,Severe,\ntt2,,Severe\ntt3,Severe,None\n"
    result = parent_guide.read(file(tmp_path, "guide.csv", text))
    assert result.rows.select("ref", "severity").rows() == [("imdb:tt0000001", 3), ("imdb:tt0000002", 3)]
    assert result.drops.select("place", "reason").rows() == [("guide.csv:4", "category twice")]


def test_parent_guide_as_json_and_by_title(tmp_path):
    rows = [{"title": "Alien", "year": 1979, "Violence & Gore": "Severe ", "sex": None}, 5, {"imdb": "tt1"}]
    result = parent_guide.read(file(tmp_path, "guide.json", json.dumps(rows)))
    assert result.rows.select("ref", "topic", "severity").rows() == [("title:Alien (1979)", "violence", 3)]
    assert result.drops["reason"].to_list() == ["wrong type", "no category"]
    for text, message in (("[", "not a JSON file"), ("{}", "expected a list")):
        with pytest.raises(SourceError, match=message):
            parent_guide.read(file(tmp_path, "guide.json", text))
