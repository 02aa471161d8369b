"""Reads keywords of films: CSV with `keywords` joined by | (TMDB's), or one `tag` per row (MovieLens' tags.csv).

A row names its film by imdb, tmdb or movieId (of MovieLens), or by title,year. Only the words in keywords.csv count; a
film without them may still contain what they stand for.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import Left, Read, Rows, class_rules, item_rows as items, refs

SOURCES = {"keyword": "keywords", "tag": "tags"}


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `keyword` or `tag`."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCES["keyword"], _parse_row, expected=())
    if drops and not rows and all(drop["reason"] == "no keywords" for drop in drops):
        raise SourceError(f"{path}: no column keywords or tag, separated by commas")
    return items.warnings_read(rows, drops)


def _parse_row(place: str, row: dict[str, str]) -> Rows:
    kind = "tag" if "tag" in row else "keyword"
    cell = row.get("tag" if kind == "tag" else "keywords")
    if cell is None:
        raise Left("no keywords", "a row has keywords or a tag")
    words = dict.fromkeys(word.strip().lower() for word in (cell.split("|") if kind == "keyword" else [cell]))
    matches = [word for word in words if word in class_rules.keywords()]
    if not matches:
        raise Left("no rule", "no keyword that a trait asks about")
    ref, noted = _ref_of(row), items.noted(row)
    noted["domain"] = noted["domain"] or "film"
    return [items.warning(SOURCES[kind], place, ref, kind=kind, topic=word, **noted) for word in matches]


def _ref_of(row: dict[str, str]) -> str:
    for column, collection in (("tmdb", "tmdb"), ("tmdbId", "tmdb"), ("movieId", "movielens")):
        if (number := sources.digits(row.get(column, ""))) and not row.get("imdb"):
            return f"{collection}:{int(number)}"
    return refs.of_row(row)
