"""Reads keywords of films: CSV with `keywords` joined by | (TMDB's), or one `tag` per row (MovieLens' tags.csv).

A row names its film by imdb, tmdb or movieId (of MovieLens), or by title,year. Only the words in keywords.csv count; a
film without them may still contain what they stand for.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Rows, class_rules, item_rows as items, refs

IDS = {"tmdb": "tmdb", "tmdbId": "tmdb", "movieId": "movielens"}  # column -> collection


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `keyword` or `tag`."""
    column = "tag" if "tag" in map(str.lower, sources.header(path)) else "keywords"
    kind, source = column.removesuffix("s"), "tags" if column == "tag" else column

    def parse_row(place: str, row: dict[str, str]) -> Rows:
        words = dict.fromkeys(word.strip().lower() for word in row[column].split("|"))
        if not (matches := [word for word in words if word in class_rules.keywords()]):
            raise Left("no rule", "no keyword that a trait asks about")
        ref = refs.of_row(row, IDS)
        return [items.warning(source, place, ref, kind=kind, topic=word, domain="film", cells=row) for word in matches]

    return items.warnings_read(*sources.csv_rows(path, items.STAGE, source, parse_row, expected=[column]))
