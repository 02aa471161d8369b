"""Votes on warnings as CSV."""

from saferec_builder.sources import warnings_csv
from tests.worlds.catalog_files import file


def test_votes(tmp_path):
    text = (
        "title,year,imdb,domain,topic,yes,no,url,retrieved\n"
        "Alien,1979,,film,Is there blood/gore,40,1,https://example.org/a,2024-01-01\n"
        ",,tt0078748,,Does the dog die,0,12,,\n"
        "Alien,,,,Is there blood/gore,,3,,\n"
        "Alien,1979,,film,Is there blood/gore,40,1,https://example.org/a,2024-01-01\n"
        ",,,film,Is there blood/gore,1,1,,\n"
        "Alien,1979,,film,,1,1,,\n"
        "Alien,1979,,film,Is there blood/gore,0,,,\n"
        "Alien,1979,,film,Is there blood/gore,many,1,,\n"
        "Alien,1979,,film,Is there blood/gore,-1,1,,\n"
        "Alien,1979,,opera,Is there blood/gore,1,1,,\n"
        "Alien,79,,film,Is there blood/gore,1,1,,\n"
        "Alien,1979,nm5,film,Is there blood/gore,1,1,,\n"
    )
    read = warnings_csv.read(file(tmp_path, "votes.csv", text))
    assert read.rows.select("ref", "domain", "topic", "yes", "no", "url").rows() == [
        ("title:Alien (1979)", "film", "Is there blood/gore", 40, 1, "https://example.org/a"),
        ("imdb:tt0078748", None, "Does the dog die", 0, 12, None),
        ("title:Alien", None, "Is there blood/gore", 0, 3, None),
    ]
    assert read.drops["reason"].to_list() == [
        "no title",
        "no topic",
        "no votes",
        "votes not a number",
        "votes not a number",
        "unknown domain",
        "wrong year",
        "bad imdb id",
        "same id",
    ]
