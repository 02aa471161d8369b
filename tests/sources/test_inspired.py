"""INSPIRED's dialogues."""

from saferec_builder.sources import inspired
from tests.worlds.catalog_files import file
from tests.worlds.dialogues import TALK, said, tsv


def test_inspired_sentences_of_a_turn_are_one_turn(tmp_path):
    odd = [("d1", "x", "SEEKER", 2, "bad number", ""), ("d2", 2, "ROBOT", 1, "?", "")]
    result = inspired.read(file(tmp_path, "dev.tsv", tsv([*TALK, *odd])))
    assert said(result.rows) == [
        [
            ("recommender", "Hello!", []),
            ("seeker", 'Hi, my son Ethan and I want a calm film. We liked "Up"', ["title:Up (2009)"]),
            ("recommender", "Try these", ["title:Heat (1995)", "title:Ronin (1998)"]),
        ],
        [("seeker", "Anything?", [])],
    ]
    row = result.rows.row(0, named=True)
    assert (row["source_id"], row["place"], row["domain"]) == ("d1", "dev.tsv:2", "film")
    assert (row["recommended"], row["accepted"]) == (["title:Heat (1995)", "title:Ronin (1998)"], [])
    assert row["seen"] == ["title:Up (2009)"]
    left_out = [("dev.tsv:7", "not a number"), ("dev.tsv:8", "unknown speaker")]
    assert result.drops.select("place", "reason").rows() == left_out
