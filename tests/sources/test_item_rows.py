"""The readers of published item and warning files: a round trip each; odd rows are counted, never guessed."""

import pytest

from saferec_builder import sources
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import (
    doesthedogdie as ddd,
    esrb,
    imdb_titles,
    items_csv,
    items_demo,
    keywords,
    movielens,
    parent_guide,
    rating_reasons,
    warnings_csv,
)
from tests.worlds.catalog_files import BASICS, DESCRIBED, described, file

# ---- faults that every reader survives

READERS = {
    "movielens": (movielens.read, "movies.csv", "movieId,title,genres\n", '{n},"Film {n} (1999)",Drama\n'),
    "imdb": (imdb_titles.read, "b.tsv", BASICS, "tt{n}\tmovie\tFilm {n}\tFilm {n}\t0\t1999\t\\N\t9\tDrama\n"),
    "esrb": (esrb.read, "e.csv", DESCRIBED, described("Game {n},0,1,0,0,M")),
    "ddd": (ddd.read, "d.csv", "imdbId,Clear Yes: Does the dog die\n", "tt{n},1\n"),
    "csv": (items_csv.read, "o.csv", "domain,title,year\n", "film,Film {n},1999\n"),
    "demo": (items_demo.read, "d.jsonl", "", '{{"title":"Film {n}","year":1999,"domain":"film"}}\n'),
    "warnings": (warnings_csv.read, "w.csv", "imdb,topic,yes,no\n", "tt{n},Does the dog die,1,2\n"),
    "guide": (parent_guide.read, "g.csv", "imdb,violence\n", "tt{n},Mild\n"),
    "reasons": (rating_reasons.read, "r.csv", "imdb,rating,reason\n", "tt{n},R,for gore\n"),
    "keywords": (keywords.read, "k.csv", "imdb,keywords\n", "tt{n},gore|toy\n"),
}


def parts(read):
    """Returns (number of rows, drop reasons) of a reader's result, of both tables."""
    results = [read.items, read.warnings] if hasattr(read, "items") else [read]
    return sum(r.rows.height for r in results), [reason for r in results for reason in r.drops["reason"]]


@pytest.mark.parametrize("name", READERS)
def test_what_a_spreadsheet_or_pandas_writes_changes_nothing(tmp_path, name):
    """`Keywords` and `Title` were not read, and row 1 of pandas was a descriptor of that game."""
    reader, filename, header, row = READERS[name]
    rows, drops = parts(reader(file(tmp_path, filename, header + row.format(n=2) + row.format(n=3))))
    assert rows >= 2 and drops == []
    numbers = ("", "", "") if name in ("imdb", "demo") else (",", "1,", "2,")  # a column without a name
    lines = (header.title() if any(numbers) else header, row.format(n=2), row.format(n=3))
    odd = "\ufeff" + "".join(number + line for number, line in zip(numbers, lines, strict=True))
    assert parts(reader(file(tmp_path, filename, odd.replace("\n", "\r\n").encode()))) == (rows, [])


@pytest.mark.parametrize("name", READERS)
def test_the_same_row_twice_counts_once(tmp_path, name):
    reader, filename, header, row = READERS[name]
    rows, _ = parts(reader(file(tmp_path, filename, header + row.format(n=1))))
    doubled, drops = parts(reader(file(tmp_path, filename, header + row.format(n=1) * 2)))
    reasons = {"movielens": {"same id"}, "esrb": {"same id", "same statement"}, "imdb": {"same id"}}
    reasons |= {source: {"same id"} for source in ("csv", "demo")}
    assert doubled == rows and set(drops) == reasons.get(name, {"same statement"})


def test_rows_of_a_file_are_counted_beside_what_they_make(tmp_path):
    """Rows with two statements, with an unknown one, and with none: rows and drops do not add up to the rows read."""
    text = "imdb,sex,violence\ntt1,Mild,None\ntt2,odd,Mild\ntt3,,\n"
    result = parent_guide.read(file(tmp_path, "g.csv", text))
    assert (result.rows.height, result.drops.height, result.figures["rows_read"]) == (3, 2, 3)
    # a drop about the header is no row
    result = warnings_csv.read(file(tmp_path, "w.csv", "imdb,topic,yes,no,mood\ntt1,Does the dog die,1,2,sad\n"))
    assert (result.rows.height, result.drops.height, result.figures["rows_read"]) == (1, 1, 1)


@pytest.mark.parametrize("name", [n for n in READERS if n != "demo"])
def test_a_wrong_delimiter_and_a_missing_column_are_one_line(tmp_path, name):
    reader, filename, header, row = READERS[name]
    piped = (header + row.format(n=1)).replace(",", "|").replace("\t", "|")
    for text in (piped, "a,b\n1,2\n", "a,b\n", b"PK\x03\x04 of a spreadsheet"):
        with pytest.raises(SourceError) as fault:
            reader(file(tmp_path, filename, text))
        assert "\n" not in str(fault.value) and filename in str(fault.value)


@pytest.mark.parametrize("name", ["csv", "imdb", "demo"])  # by commas, by tabs, and JSON: the others read as `csv`
def test_a_line_that_is_too_long_costs_one_row(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sources, "LONGEST", 2**16)
    reader, filename, header, row = READERS[name]
    valid = parts(reader(file(tmp_path, filename, header + row.format(n=1) + row.format(n=2))))[0]
    long = "x" * 5 * 2**16 + "\n"
    rows, drops = parts(reader(file(tmp_path, filename, header + row.format(n=1) + long + row.format(n=2))))
    assert (rows, len(drops)) == (valid, 1)
