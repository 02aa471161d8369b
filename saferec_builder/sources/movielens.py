"""Reads MovieLens: films in movies.csv (movieId,title,genres), their IMDb and TMDB ids in links.csv beside it.

A title keeps the source's spelling ("Postman, The (Postino, Il)") without its year.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.sources import Left, Read, Rows, item_rows as items, refs

SOURCE = "movielens"
NEEDED = ("movieId", "title", "genres")
NO_GENRE = "(no genres listed)"


def read(path: Path) -> Read:
    """Rows of CATALOG_ROWS from a folder or its movies.csv; without links.csv the films have no external ids."""
    movies = path / "movies.csv" if path.is_dir() else path
    links, drops = _links(movies.with_name("links.csv"))

    def parse_row(place: str, row: dict[str, str]) -> Rows:
        if not row["movieId"].isdigit():
            raise Left("no id", f"found {row['movieId']!r}, expected the number of a film")
        title, year = titles.split_year(row["title"])
        genres = [g for g in row["genres"].split("|") if g != NO_GENRE]
        source_id, ids = row["movieId"], links.get(row["movieId"], ())
        return [items.item(SOURCE, source_id, place, domain="film", title=title, year=year, genres=genres, refs=ids)]

    rows, more_drops = sources.csv_rows(movies, items.STAGE, SOURCE, parse_row, expected=NEEDED)
    return items.items_read(rows, drops + more_drops)


def _links(path: Path) -> tuple[dict[str, list[str]], Rows]:
    if not path.exists():
        return {}, []

    def parse_row(place: str, row: dict[str, str]) -> list[tuple[str, list[str]]]:
        ids = [refs.imdb(row["imdbId"])] if row["imdbId"] else []
        ids += [f"tmdb:{number}"] if (number := sources.digits(row["tmdbId"])) else []
        return [(row["movieId"], ids)]

    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, parse_row, expected=("movieId", "imdbId", "tmdbId"))
    return dict(rows), drops
