"""Keywords of TMDB and tags of MovieLens."""

from saferec_builder.sources import keywords
from tests.worlds.catalog_files import file


def test_keywords_name_a_film_by_any_id_and_count_once(tmp_path):
    long = f"²,,gore\n{'1' * 5_000},,gore\n"  # no numbers
    text = f"tmdb,imdb,keywords\n862,tt0114709,toy|boy\n8.0,,Gore| gore |toy|slasher\n9,tt0000009,rape\n{long}"
    result = keywords.read(file(tmp_path, "k.csv", text))
    assert result.rows.select("ref", "kind", "topic").rows() == [
        ("tmdb:8", "keyword", "gore"),
        ("tmdb:8", "keyword", "slasher"),
        ("imdb:tt0000009", "keyword", "rape"),
    ]
    assert result.drops["reason"].to_list() == ["no rule", "no title", "no title"]


def test_tags_of_people_are_a_class_of_their_own(tmp_path):
    text = "userId,movieId,tag,timestamp\n2,60756,funny,1\n3,60756,Drugs,1\n4,60756,drugs,2\n"
    result = keywords.read(file(tmp_path, "tags.csv", text))
    assert result.rows.select("ref", "kind", "topic", "source").rows() == [("movielens:60756", "tag", "drugs", "tags")]
