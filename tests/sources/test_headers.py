"""A table's header tells which source reads it, if the user named another one."""

import gzip
import shlex

import pytest

from saferec_builder import sources
from saferec_builder.sources import headers
from saferec_builder.sources.item_rows import Source
from tests.worlds.catalog_files import BASICS, DESCRIBED, VOTES, file

TABLES = {
    Source.warnings: VOTES,
    Source.parent_guide: "imdb,Sex,Violence,Profanity,Drugs,Frightening\n",
    Source.rating_reasons: "sep=;\ntitle;year;Rating;Reason\n",
    Source.keywords: "tmdb,imdb,keywords\n",
    Source.movielens: "movieId,title,genres\n",
    Source.imdb: BASICS,
    Source.esrb: DESCRIBED,
    Source.csv: "\ufeffdomain,title,year\n",
}


@pytest.mark.parametrize("source", TABLES)
def test_a_table_is_known_by_its_columns(tmp_path, source):
    path = file(tmp_path, "some.csv.gz", gzip.compress(TABLES[source].encode()))
    matches = headers.others(Source.ddd, path)
    assert matches[0].source == source and headers.others(source, path) == []
    assert headers.advice(matches, path).endswith(f": `saferec-build catalog add {source} {path}`")


def test_a_table_of_clear_answers_is_told_by_any_of_its_questions(tmp_path):
    """With another source's name it was refused, and `ddd` was not suggested."""
    path = file(tmp_path, "dog.csv", "title,year,Clear Yes: Does the dog die,Clear No: Does the dog die\n")
    matches = headers.others(Source.warnings, path)
    advice = f"this file has Clear Yes: Does the dog die: `saferec-build catalog add ddd {path}`"
    assert headers.advice(matches, path) == advice
    assert headers.others(Source.ddd, path) == []


def test_what_is_no_table_is_no_other_sources(tmp_path):
    odd = (b"", b"{}", b"\x00\xff", b'"' + b"x" * 1_100_000)
    assert [headers.others(Source.csv, file(tmp_path, "odd.csv", text)) for text in odd] == [[]] * 4
    assert (headers.others(Source.csv, tmp_path), headers.advice([], tmp_path)) == ([], "")


def test_the_advice_can_be_pasted(tmp_path):
    path = file(tmp_path, "my warn.csv", VOTES)
    command = headers.advice(headers.others(Source.csv, path), path).split("`")[1]
    assert shlex.split(command) == ["saferec-build", "catalog", "add", "warnings", str(path)]


def test_no_line_is_read_whole_to_tell_what_it_is(tmp_path, monkeypatch):
    """A file of 60 MB in one line was kept in memory as one row of a table."""
    monkeypatch.setattr(sources, "LONGEST", 2**16)
    long = file(tmp_path, "long.csv", VOTES.rstrip() + "," * 2**17)
    assert headers.others(Source.csv, long) == []
    assert headers.others(Source.csv, file(tmp_path, "votes.json", VOTES)) == []
