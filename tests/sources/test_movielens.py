"""MovieLens's films."""

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.sources import movielens
from tests.worlds.catalog_files import file


def movies(tmp_path, text, links=None):
    file(tmp_path, "movies.csv", text)
    if links is not None:
        file(tmp_path, "links.csv", links)
    return movielens.read(tmp_path)


def test_movielens(tmp_path):
    result = movies(
        tmp_path,
        "movieId,title,genres\n"
        '1,"Postman, The (Postino, Il) (1994)",Comedy|Drama\n'
        "2,Babylon 5,(no genres listed)\n"
        "x,Alien (1979),Horror\n"
        "3,Aliens (1986),Horror\n"
        "1,Heat (1995),Crime\n"
        "4, (1995),\n"
        "5,a,b,c\n",
        "movieId,imdbId,tmdbId\n1,0110877,11010.0\n2,0105946,\n3,abc,5\n",
    )
    assert result.rows.select("source_id", "title", "year", "refs", "genres").rows() == [
        ("1", "Postman, The (Postino, Il)", 1994, ["imdb:tt0110877", "tmdb:11010"], ["Comedy", "Drama"]),
        ("2", "Babylon 5", None, ["imdb:tt0105946"], []),
        ("3", "Aliens", 1986, [], ["Horror"]),
        ("4", "(1995)", None, [], []),
    ]
    assert sorted(result.drops.select("place", "reason").rows()) == [
        ("links.csv:4", "bad imdb id"),
        ("movies.csv:4", "no id"),
        ("movies.csv:6", "same id"),
        ("movies.csv:8", "too many fields"),
    ]
    assert result.figures == {"with_external_id": 2, "without_year": 2}


def test_movielens_alone_and_as_a_file(tmp_path):
    result = movies(tmp_path, "\ufeffmovieId,title,genres\r\n1,Alien (1979),Horror\r\n")
    assert result.rows["refs"].to_list() == [[]]
    assert movielens.read(tmp_path / "movies.csv").rows.equals(result.rows)
    with pytest.raises(UsageError, match="elsewhere: no such file"):
        movielens.read(tmp_path / "elsewhere")
