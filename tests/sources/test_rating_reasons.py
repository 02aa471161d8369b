"""Rating reasons."""

from saferec_builder.sources import rating_reasons
from tests.worlds.catalog_files import file


def test_a_reason_is_its_rules_and_silence_is_a_drop(tmp_path):
    rows = ("Saw,2004,R,Rated R for gore,tt0387564", "Up,2009,PG,Rated PG for peril,", "It,2017,r,bloody images,")
    text = "\n".join(("title,year,rating,reason,imdb", *rows))
    result = rating_reasons.read(file(tmp_path, "r.csv", text))
    assert result.rows.select("ref", "domain", "kind", "topic", "yes", "answer", "words", "place").rows() == [
        ("imdb:tt0387564", "film", "reason", "names blood or gore", None, None, "Rated R for gore", "r.csv:2"),
        ("title:It (2017)", "film", "reason", "names blood or gore", None, None, "bloody images", "r.csv:4"),
    ]
    assert result.drops["reason"].to_list() == ["no rule"]
    # of a row with two statements that another row makes, both are in the table of drops: its key has the place
    text = "rating,reason,imdb\n" + "R,gore and torture,tt0387564\n" * 2
    drops = rating_reasons.read(file(tmp_path, "r.csv", text)).drops
    assert drops["place"].to_list() == ["r.csv:3 names blood or gore", "r.csv:3 names torture"]


def test_two_reasons_of_one_item_that_name_different_things_are_told(tmp_path):
    """If two works share an id and year, both reasons count: the reason of one silently violated the other."""
    rows = ("PG-13,for a rape,tt0120338", "PG-13,for peril and violence,tt0120338", "R,for gore,tt1", "R,for blood,tt1")
    result = rating_reasons.read(file(tmp_path, "r.csv", "\n".join(("rating,reason,imdb", *rows))))
    (drop,) = result.drops.filter(reason=rating_reasons.SEVERAL).to_dicts()
    assert drop["place"] == "r.csv:3"  # the last two name the same
    reasons = "imdb:tt0120338 rated PG-13, names violence, and in r.csv:2 names sexual violence"
    assert drop["detail"] == f"{reasons}; both count: is it one work?"
    names = ["names sexual violence", "rated PG-13, names violence", "names blood or gore"]
    assert result.rows["topic"].to_list() == names
