"""IMDb's table of titles."""

import gzip

import pytest

from saferec_builder.sources import imdb_titles
from tests.worlds.catalog_files import BASICS, file


def basics(*rows):
    return BASICS + "".join("\t".join(row) + "\n" for row in rows)


def title(tconst, kind, primary, original, year, genres="Drama"):
    return (tconst, kind, primary, original, "0", year, "\\N", "90", genres)


@pytest.mark.parametrize("zipped", [False, True])
def test_imdb_titles(tmp_path, zipped):
    rows = (
        title("tt0110877", "movie", "The Postman", "Il postino", "1994", "Comedy,Drama"),
        title("tt0903747", "tvSeries", "Breaking Bad", "Breaking Bad", "2008"),
        title("tt0959621", "tvEpisode", "Pilot", "Pilot", "2008"),
        title("tt0959622", "tvEpisode", "Cat", "Cat", "2008"),
        title("tt1", "movie", 'A "quoted', 'A "quoted', "\\N", "\\N"),
        title("tt0110877", "movie", "Again", "Again", "1999"),
        title("x", "movie", "No id", "No id", "1999"),
        title("tt0000005", "movie", "Odd year", "Odd year", "19x4"),
        ("tt0000006", "movie", "too few"),
        title("tt0000007", "movie", "Am\xe9lie", "A", "2001"),
        title("tt0000008", "movie", "A\ttab", "A tab", "2002"),
    )
    text = basics(*rows).encode("latin1") + b"\n"  # a blank line is ignored
    path = file(tmp_path, "title.basics.tsv", gzip.compress(text) if zipped else b"\xef\xbb\xbf" + text)
    result = imdb_titles.read(path)
    assert result.rows.select("source_id", "domain", "title", "year", "refs", "aliases", "genres").rows() == [
        ("tt0110877", "film", "The Postman", 1994, ["imdb:tt0110877"], ["Il postino"], ["Comedy", "Drama"]),
        ("tt0903747", "series", "Breaking Bad", 2008, ["imdb:tt0903747"], [], ["Drama"]),
        ("tt0000001", "film", 'A "quoted', None, ["imdb:tt0000001"], [], []),
    ]
    assert sorted(result.drops.select("place", "reason", "detail").rows()) == [
        ("title.basics.tsv tvEpisode", "no film or series", "2 of tvEpisode"),
        ("title.basics.tsv:10", "too few fields", "no cell of this table is blank: is the line cut?"),
        ("title.basics.tsv:11", "not UTF-8", "save the file as CSV in UTF-8, and read it again"),
        ("title.basics.tsv:12", "too many fields", "found 10, expected 9: is a tab in a cell?"),
        ("title.basics.tsv:7", "same id", "tt0110877"),
        (
            "title.basics.tsv:8",
            "bad imdb id",
            "found something like 'x' (x: a letter, 9: a digit), expected tt and digits",
        ),
        (
            "title.basics.tsv:9",
            "wrong year",
            "found something like '99x9' (x: a letter, 9: a digit), expected four digits, 1800 to 2099, or nothing",
        ),
    ]
