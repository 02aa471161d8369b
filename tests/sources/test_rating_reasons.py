"""Rating reasons."""

from saferec_builder.sources import rating_reasons
from tests.worlds.catalog_files import file


def test_a_reason_is_its_rules_and_silence_is_a_drop(tmp_path):
    rows = ("Saw,2004,R,Rated R for gore,tt0387564", "Up,2009,PG,Rated PG for peril,", "It,2017,r,bloody images,")
    text = "\n".join(("title,year,rating,reason,imdb", *rows))
    read = rating_reasons.read(file(tmp_path, "r.csv", text))
    assert read.rows.select("ref", "domain", "kind", "topic", "yes", "answer").rows() == [
        ("imdb:tt0387564", "film", "reason", "names blood or gore", None, None),
        ("title:It (2017)", "film", "reason", "names blood or gore", None, None),
    ]
    assert read.drops["reason"].to_list() == ["no rule"]
    assert "bloody images" not in str(read.rows.to_dicts())  # the words are the source's
