"""Reads DoesTheDogDie: answers of its API as fetched by a user (JSON), or a table with "Clear Yes: T" columns (CSV).

JSON: one answer of /media/ID ({"item": ..., "topicItemStats": [...]}), what `catalog fetch ddd` saved, a list of them,
or {"items": [...]} with topicItemStats in each item; of a folder, all .json files. Votes are yesSum and noSum.
CSV: rows named by imdbId, movieId (of MovieLens), or title and year; 1 in "Clear Yes: T" or "Clear No: T" is a clear
answer, anything else says nothing, as "not clearly yes" is no "no". `url` and `retrieved` may say where and when.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from saferec_builder import sources
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import Left, Row, Rows, input_files, item_rows as items, refs
from saferec_builder.sources.item_rows import Both

SOURCE = "ddd"
SITE = "https://www.doesthedogdie.com"
KINDS = {"movie": "film", "tv show": "series", "video game": "game", "book": "book"}
CLEAR = {"Clear Yes: ": "yes", "Clear No: ": "no"}
MOST = 10**9  # the most votes that a topic may have
YES = ("1", "1.0", "true", "yes")


class _Named(BaseModel):
    name: str | None = None
    doesName: str | None = None


class _Stat(BaseModel):
    yesSum: int = Field(0, ge=0, le=MOST)
    noSum: int = Field(0, ge=0, le=MOST)
    doesName: str | None = None
    topic: _Named = _Named()


class _Item(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str
    name: str
    releaseYear: str | None = None
    imdbId: str | None = None
    tmdbId: str | None = None
    itemType: _Named = _Named()
    topicItemStats: list[object] = Field(default_factory=list)


def read(path: Path) -> Both:
    """Items as CATALOG_ROWS (JSON only: a table names items by ids of others) and WARNINGS, kind `topic`."""
    if path.is_dir() or path.suffix.lower() == ".json":
        rows, drops = sources.parse_rows(items.STAGE, SOURCE, _answers(path), _media)
    else:
        if not any(name.startswith(tuple(CLEAR)) for name in sources.header(path)):
            raise SourceError(f"{path}: no column such as 'Clear Yes: Does the dog die', separated by commas")
        rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _parse_row, expected=())
    return items.both_read(rows, drops)


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that are read."""
    return input_files.of_folder(folder, (".json",))


def _answers(path: Path) -> Iterator[tuple[str, Row | Left]]:
    expected = "answers of the DoesTheDogDie API"
    for file in files_of(path) if path.is_dir() else [path]:
        data = sources.json_file(file, expected)
        if isinstance(data, dict) and isinstance(data.get("items"), list):
            data = data["items"]
        for n, answer in enumerate(data if isinstance(data, list) else [data], 1):
            if not isinstance(answer, dict):
                raise SourceError(f"{file}: found {type(answer).__name__}, expected {expected}")
            if "absent" not in answer:  # `catalog fetch` asked, and the site has no such item
                yield f"{file.name}:{n}", sources.without_surrogates(answer)


def _media(place: str, raw: Row) -> list[Row | Left]:
    saved = raw.get("media")
    media = saved if isinstance(saved, dict) else raw
    fields = item if isinstance(item := media.get("item"), dict) else media
    row = _Item.model_validate({**fields, "topicItemStats": media.get("topicItemStats", [])})
    kind = (row.itemType.name or "movie").casefold()
    if kind not in KINDS:
        raise Left("other kind", f"found {kind!r}, expected one of {', '.join(KINDS)}")
    written_year = row.releaseYear or ""
    year = refs.year(written_year) if written_year.isdigit() else None  # "Unknown"
    ids = [refs.imdb(row.imdbId)] if row.imdbId else []
    ids += [f"tmdb:{row.tmdbId}"] if re.fullmatch(r"0*[1-9][0-9]{0,11}", row.tmdbId or "") else []
    asked_ids = raw.get("ids")  # of the item that was asked for
    expected = [refs.external(i) for i in asked_ids if isinstance(i, str)] if isinstance(asked_ids, list) else []
    ids += expected if _agree(ids, expected) else []  # else the site answered with another item
    rows: list[Row | Left] = []
    rows.append(items.item(SOURCE, row.id, place, domain=KINDS[kind], title=row.name, year=year, refs=ids))
    for stat in row.topicItemStats:
        rows += _votes(place, row, stat, raw.get("retrieved"))
    return rows


def _agree(ids: list[str], expected: list[str]) -> bool:
    """Whether no collection has different ids in the two lists."""
    by_collection = {ref.partition(":")[0]: ref for ref in ids}
    return all(by_collection.get(ref.partition(":")[0], ref) == ref for ref in expected)


def _votes(place: str, row: _Item, raw: object, retrieved: object) -> Sequence[Row | Left]:
    stat = _Stat.model_validate(raw)
    topic = stat.doesName or stat.topic.doesName or stat.topic.name
    if not topic:
        return [Left("no topic", "a count without a name", f"{place} {row.id}")]
    if stat.yesSum + stat.noSum == 0:
        return []  # nobody voted: the API lists every topic
    cells = {"url": f"{SITE}/media/{row.id}", "retrieved": retrieved if isinstance(retrieved, str) else ""}
    yes, no, ref = stat.yesSum, stat.noSum, f"ddd:{row.id}"
    return [items.warning(SOURCE, place, ref, kind="topic", topic=topic, yes=yes, no=no, cells=cells)]


def _parse_row(place: str, row: dict[str, str]) -> Rows:
    names = {"imdb": row.get("imdbId") or row.get("imdb", ""), "title": row.get("title") or row.get("name", "")}
    ref = refs.of_row(row | names, {"movieId": "movielens"})
    # no before yes: if a row has both, the worse answer is last and counts
    columns = ((prefix, name) for prefix in sorted(CLEAR) for name in sorted(row) if name.startswith(prefix))
    clear = [(name.removeprefix(prefix), CLEAR[prefix]) for prefix, name in columns if row[name].casefold() in YES]
    if not clear:
        raise Left("no clear answer", "no topic is clearly yes or no")
    cells = {name: row.get(name, "") for name in ("url", "retrieved")}
    return [items.warning(SOURCE, place, ref, kind="topic", topic=t, answer=a, cells=cells) for t, a in clear]
