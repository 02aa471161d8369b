"""Answers of Does the Dog Die."""

import json

import pytest

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import doesthedogdie as ddd
from tests.worlds.catalog_files import file, media


def test_ddd_answers(tmp_path):
    alien = media(7, "Alien", imdb="tt0078748", stats=[("Does the dog die", 0, 12), ("Are there ghosts", 0, 0)])
    stored = {"retrieved": "2026-01-02", "ids": ["imdb:tt0113277"], "media": media(8, "Heat", "Unknown")}
    nameless, named = {"yesSum": 3, "noSum": 1, "topic": {}}, {"yesSum": 2, "noSum": 0, "doesName": "A"}
    stored["media"]["topicItemStats"] = [nameless, named]
    book, podcast = media(11, "Alien", imdb=None, kind="Book"), media(9, "Alien", kind="Podcast")
    odd = {"item": {"id": 10, "name": "Odd"}, "topicItemStats": [{"yesSum": -1, "noSum": 0, "topic": {"name": "a"}}]}
    answers = [alien, stored, podcast, odd, {"absent": True}, alien, book]
    result = ddd.read(file(tmp_path, "d.json", json.dumps(answers)))
    assert result.items.rows.select("source_id", "title", "year", "refs", "domain").rows() == [
        ("7", "Alien", 1979, ["imdb:tt0078748"], "film"),
        ("8", "Heat", None, ["imdb:tt0113277"], "film"),
        ("11", "Alien", 1979, [], "book"),
    ]
    assert result.warnings.rows.select("ref", "topic", "yes", "no", "url", "retrieved").rows() == [
        ("ddd:7", "Does the dog die", 0, 12, "https://www.doesthedogdie.com/media/7", None),
        ("ddd:8", "A", 2, 0, "https://www.doesthedogdie.com/media/8", "2026-01-02"),
    ]
    assert sorted(result.items.drops["reason"]) == ["no topic", "other kind", "same id", "wrong type"]
    # a single answer, several as returned by the search, a folder of them
    for shape in (alien, [alien], {"items": [{**alien["item"], "topicItemStats": alien["topicItemStats"]}]}):
        (tmp_path / "one").mkdir(exist_ok=True)
        file(tmp_path / "one", "a.json", json.dumps(shape))
        assert ddd.read(tmp_path / "one").warnings.rows["yes"].to_list() == [0]
    with pytest.raises(SourceError, match="found int, expected answers"):
        ddd.read(file(tmp_path, "d.json", "[1]"))


def test_an_answer_under_another_id_is_not_that_of_the_item_that_was_asked_for(tmp_path):
    """Two films "Emma" of 1996: the site has one of them, and its answers do not apply to the other."""
    emma = media(7, "Emma", "1996", "tt0116191", [("Does the dog die", 0, 50)])
    for ids, others in ((["imdb:tt0118308", "tmdb:5"], []), (["imdb:tt0116191", "tmdb:5"], ["tmdb:5"])):
        result = ddd.read(file(tmp_path, "d.json", json.dumps({"retrieved": "2026-01-02", "ids": ids, "media": emma})))
        assert result.items.rows["refs"].to_list() == [["imdb:tt0116191", *others]]


def test_ddd_clear_answers(tmp_path):
    text = (
        "imdbId,title,year,Clear Yes: Does the dog die,Clear No: Does the dog die,Clear Yes: Are there ghosts\n"
        "tt0078748,Alien,1979,1,0,0\n"
        "113277,Heat,1995,0,1,\n"
        ",Big,1988,,,True\n"
        ",Up,2009,0,0,0\n"  # "not clearly yes" is no "no"
        ",,1999,1,,\n"
    )
    result = ddd.read(file(tmp_path, "ml-ddd.csv", text))
    assert result.warnings.rows.select("ref", "topic", "answer").rows() == [
        ("imdb:tt0078748", "Does the dog die", "yes"),
        ("imdb:tt0113277", "Does the dog die", "no"),
        ("title:Big (1988)", "Are there ghosts", "yes"),
    ]
    assert result.items.drops["reason"].to_list() == ["no clear answer", "no title"]
    for columns in ("Clear Yes: A,Clear No: A", "Clear No: A,Clear Yes: A"):  # both: yes counts, as the last row does
        cells = "tt1,https://example.org/1,2026-01-02,1,1\ntt2,,,1,1\n"
        rows = ddd.read(file(tmp_path, "both.csv", f"imdbId,url,retrieved,{columns}\n{cells}")).warnings.rows
        assert rows["answer"].to_list() == ["no", "yes"] * 2
        assert rows.select("url", "retrieved").rows()[1:3] == [("https://example.org/1", "2026-01-02"), (None, None)]
    by_movie_id = ddd.read(file(tmp_path, "lens.csv", "movieId,Clear Yes: A\n1.0,1\n"))  # MovieLens's ids
    assert by_movie_id.warnings.rows["ref"].to_list() == ["movielens:1"]
    with pytest.raises(SourceError, match="no column such as 'Clear Yes"):
        ddd.read(file(tmp_path, "x.csv", "title,year\nAlien,1979\n"))
