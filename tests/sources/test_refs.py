"""Refs: an id has one form, and anything else is refused."""

import pytest

from saferec_builder.sources import Left, refs

PAGE = "https://www.imdb.com/title/tt0078748/"


@pytest.mark.parametrize("value", ["tt0078748", "0078748", "78748", "78748.0", PAGE, f"{PAGE}?ref_=nv_sr_1"])
def test_an_imdb_id_has_one_form(value):
    assert refs.imdb(value) == "imdb:tt0078748"
    assert refs.imdb("tt10155932") == "imdb:tt10155932"


@pytest.mark.parametrize("value", ["", "tt", "nm0000001", "tt0000000", "Alien", "-5", "1.5"])
def test_what_is_no_imdb_id(value):
    with pytest.raises(Left, match="bad imdb id"):
        refs.imdb(value)


@pytest.mark.parametrize("value", "tmdb:nan tmdb:None tmdb:0 tmdb:0.0 tmdb:-1 movielens:null tt0000000 Alien".split())
def test_a_blank_is_no_id_that_films_could_share(value):
    """Two films "Emma" of 1996 and 1997, both with "tmdb:nan", became one item."""
    with pytest.raises(Left, match="^bad"):
        refs.external(value)
    assert [refs.external(v) for v in ("tmdb:862.0", "tmdb:10", "csv:0")] == ["tmdb:862", "tmdb:10", "csv:0"]


def test_a_ref_is_an_id_or_a_title():
    assert [refs.ref(value) for value in ("imdb:78748", " redial:5")] == ["imdb:tt0078748", "redial:5"]
    assert refs.ref("title: Alien (1979)") == refs.ref("title:Alien (1979)") == "title:Alien (1979)"
    titles = ("Alien  (1979)", "demo: the film (2001)", "Alien: Covenant")
    assert [refs.ref(value) for value in titles] == [f"title:{' '.join(value.split())}" for value in titles]


def test_a_row_without_an_item_is_told_the_columns_that_name_one():
    """A table with the column `imdbId` heard that "a row names its item by imdb id"."""
    with pytest.raises(Left) as left:
        refs.of_row({"imdbId": "tt0078748"}, {"movieId": "movielens"})
    assert left.value.detail == "a row names its item in one of the columns imdb, movieId, title"
