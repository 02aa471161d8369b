"""A user's own items as CSV."""

from saferec_builder.sources import items_csv
from tests.worlds.catalog_files import file

LEFT_OUT = {  # and why
    "movie,Big,1988,,,,": "unknown domain",
    "film,,1988,,,,": "no title",
    "film,Big,88,,,,": "wrong year",
    "film,Big,1988,wikidata,,,": "bad id",
    "film,Am\xe9lie,2001,,,,": "not UTF-8",
    "film,Heat (1995),,,,,": "same id",
}


def test_csv_items(tmp_path):
    valid = (
        "Film,Alien,1979,tt0078748 tmdb:348,Alien 1|Le 8e passager,In space.,horror",
        *("game,Tetris,,,,,", "film,Heat (1995),,,,,", "film,short", ""),
    )
    text = "\n".join(("domain,title,year,ids,aliases,plot,genres", *valid, *LEFT_OUT)).encode("latin1")
    result = items_csv.read(file(tmp_path, "own.csv", text))
    assert result.rows.select("source_id", "title", "year", "refs", "aliases", "plot").rows() == [
        ("imdb:tt0078748", "Alien", 1979, ["imdb:tt0078748", "tmdb:348"], ["Alien 1", "Le 8e passager"], "In space."),
        ("game:tetris:", "Tetris", None, [], [], None),
        ("film:heat:1995", "Heat", 1995, [], [], None),
        ("film:short:", "short", None, [], [], None),
    ]
    assert result.drops["detail"][2] == "found 88, expected four digits, 1800 to 2099, or nothing"
    left_out = [(f"own.csv:{n}", reason) for n, reason in enumerate(LEFT_OUT.values(), 7)]  # the sixth is blank
    assert result.drops.select("place", "reason").rows() == left_out


def test_a_tmdb_column_is_an_id_as_in_a_table_of_keywords(tmp_path):
    rows = "film,Alien,1979,tt0078748,348.0\nfilm,Heat,1995,,949\nfilm,Blank,2001,,\nfilm,Zero,2002,,0\n"
    result = items_csv.read(file(tmp_path, "own.csv", f"domain,title,year,imdb,tmdb\n{rows}"))
    assert result.rows["refs"].to_list() == [["imdb:tt0078748", "tmdb:348"], ["tmdb:949"], [], []]
    assert result.drops.is_empty()


def test_an_imdb_column_is_an_id_as_in_every_table_of_warnings(tmp_path):
    """The advice was `IMDB: did you mean id?`, but a column renamed so joined nothing."""
    rows = ("film,Alien,1979,tt0078748,", "film,Heat,1995,,tmdb:949", "film,Up,2009,1049413,tmdb:14160")
    result = items_csv.read(file(tmp_path, "own.csv", "\n".join(("Domain,Title,Year,IMDB,Ids", *rows))))
    assert result.rows["refs"].to_list()[:2] == [["imdb:tt0078748"], ["tmdb:949"]]
    assert result.rows["refs"][2].to_list() == ["imdb:tt1049413", "tmdb:14160"] and result.drops.is_empty()


def test_a_column_that_is_not_read_is_named(tmp_path):
    """`Genres` is read in any case; a misspelt column and an unknown one are reported, in one row of drops."""
    text = "domain,title,year,Genres,alias,shelf\nfilm,Alien,1979,horror,A,7\n"
    result = items_csv.read(file(tmp_path, "own.csv", text))
    assert result.rows.select("genres", "aliases").row(0) == (["horror"], [])
    expected = "id, imdb, tmdb, ids, aliases, genres, plot, description"
    message = f"alias, shelf: did you mean aliases? expected one of {expected}"
    assert result.drops.select("place", "reason", "detail").rows() == [("own.csv:1", "column not read", message)]


def test_commas_part_ids_and_genres_but_no_aliases(tmp_path):
    """An id that ends with a comma would match nothing; "The Good, the Bad" is one title. A description is a plot."""
    rows = 'film,Alien,1979,"imdb:tt0078748, tmdb:348","horror, drama","Good, Bad;Ugly",In space.\n'
    result = items_csv.read(file(tmp_path, "own.csv", f"domain,title,year,ids,genres,aliases,description\n{rows}"))
    expected = (["imdb:tt0078748", "tmdb:348"], ["horror", "drama"], ["Good, Bad", "Ugly"], "In space.")
    assert result.rows.select("refs", "genres", "aliases", "plot").row(0) == expected


def test_a_year_behind_the_title_is_no_part_of_it(tmp_path):
    """If it differs from the year column, nothing is guessed: "2012 (2009)" may be the real title."""
    rows = "film,Pari (1995),1995\nfilm,Alien (1979),1986\n"
    result = items_csv.read(file(tmp_path, "own.csv", f"domain,title,year\n{rows}"))
    assert result.rows.select("title", "year").rows() == [("Pari", 1995), ("Alien (1979)", 1986)]


def test_a_row_under_the_id_of_another_work_is_kept_and_told(tmp_path):
    """A slip in an id: 73 works of a table of 2,000 were dropped as `same id`. Rows with nothing new still are."""
    rows = (f"film,{work},tt0078748" for work in ("Alien,1979", "Heat,1995", "ALIEN,", "Heat,1995"))
    table = items_csv.read(file(tmp_path, "own.csv", "\n".join(("domain,title,year,imdb", *rows))))
    assert table.rows.select("source_id", "refs").rows() == [
        ("imdb:tt0078748", ["imdb:tt0078748"]),
        ("film:heat:1995", ["imdb:tt0078748"]),
    ]
    ((place, detail),) = table.drops.filter(reason=items_csv.SHARED).select("place", "detail").rows()[:1]
    assert place == "own.csv:3" and "is that of 'Alien' in line 2, too" in detail
    command = "`saferec-build catalog apart csv:film:heat:1995` (or the row of line 2, if its id is wrong)"
    assert detail.endswith(f": if they are two works, {command}")
    assert table.drops.filter(reason="same id")["place"].to_list() == ["own.csv:4", "own.csv:5"]


def test_an_imdb_id_that_rows_of_unlike_titles_share_is_told(tmp_path):
    """A slip in one cell silently made one film of Seven and Babe, which cleared it."""
    rows = ("1,Seven,1995,tt0114369", "2,Babe,1995,tt0114369", "3,Se7en,1995,tt0114369", "4,Up,2009,tt1049413")
    rows = [f"film,{row}" for row in rows]
    result = items_csv.read(file(tmp_path, "own.csv", "\n".join(("domain,id,title,year,imdb", *rows))))
    assert result.rows["source_id"].to_list() == ["1", "2", "3", "4"]
    ((place, reason, detail),) = result.drops.select("place", "reason", "detail").rows()
    assert (place, reason) == ("own.csv:3", items_csv.SHARED)
    assert detail.startswith("imdb:tt0114369 is that of 'Seven' in line 2, too: if they are two works, `saferec-build")


def test_an_id_of_ones_own_that_is_one_of_imdb_joins_as_such(tmp_path):
    """A table full of ids was reported as "with external id: 0", and joined nothing."""
    rows = ("film,Alien,1979,tt0078748", "film,Heat,1995,tmdb:949", "film,Up,2009,17", "film,Big,1988,shelf:9")
    result = items_csv.read(file(tmp_path, "own.csv", "\n".join(("domain,title,year,id", *rows))))
    assert result.rows["refs"].to_list() == [["imdb:tt0078748"], ["tmdb:949"], [], []]
    assert result.rows["source_id"].to_list() == ["tt0078748", "tmdb:949", "17", "shelf:9"]  # unchanged
    assert result.figures["with_external_id"] == 2
