"""The files that the catalog reads, and its commands: odd rows of a file are counted, never guessed at."""

import re

import pytest

from saferec_builder.demo import world
from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import VOTES, file


@pytest.fixture
def catalogued(cli, workspace, tmp_path):
    """A workspace with four films, two of which share a title and year, and votes on the first."""
    items = "film,Alien,1979,tt0078748\nfilm,Emma,1996,tt0116191\nfilm,The Emma,1996,tt0118308\nfilm,Emma,1999,\n"
    file(tmp_path, "own.csv", "domain,title,year,ids\n" + items)
    votes = VOTES + "Alien,1979,,,Is there blood/gore?,40,1,https://example.org,2024-01-01\n"
    file(tmp_path, "votes.csv", votes + "Heat,1995,,,Is there blood/gore,1,1,,\n,,tt78748,,Is it in space,9,0,,\n")
    for source, name in (("csv", "own.csv"), ("warnings", "votes.csv")):
        run = cli("catalog", "add", source, tmp_path / name, "-C", workspace.root, "--json")
        assert run.code == 0, run.err
    return workspace


def test_add_counts_and_a_rerun_adds_nothing(cli, catalogued, tmp_path):
    result = cli("catalog", "add", "warnings", tmp_path / "votes.csv", "-C", catalogued.root, "--json").json
    counts = {"command": "catalog add", "in": 3, "out": 3, "added": 0, "skipped": 3, "dropped": {}}
    counts |= {"rows_read": 3, "items": 4}
    unmatched = {"on_no_item_here": 1, "such_items": ["title:Heat (1995)"]}
    assert result == counts | unmatched | {"on_what_no_trait_asks": 1, "such_topics": ["Is it in space"]}
    assert store.read(catalogued, tables.WARNINGS).height == 3  # kept, so that a later taxonomy can use them


def test_a_statement_that_a_later_one_replaces_has_its_item(cli, catalogued, tmp_path):
    """One page counted twice and two ids of one item: `on_no_item_here` counts only statements without an item."""
    rows = "".join(f"{columns},Does the dog die,0,{n},,\n" for n, columns in ((8, "Alien,1979,,"), (9, ",,tt78748,")))
    path = file(tmp_path, "again.csv", VOTES + rows + "Heat,1995,,,Does the dog die,1,1,,\n")
    result = cli("catalog", "add", "warnings", path, "-C", catalogued.root, "--json").json
    assert (result["added"], result["on_no_item_here"]) == (3, 1)  # Heat


def test_a_misspelt_topic_and_a_title_of_two_items_are_told_as_what_they_are(cli, catalogued, tmp_path):
    topics = ("Does the dog dies", "Is it in space")
    rows = "".join(f"Emma,1996,,,{topic},1,1,,\n" for topic in topics)
    run = cli("catalog", "add", "warnings", file(tmp_path, "odd.csv", VOTES + rows), "-C", catalogued.root)
    line = 'such topics: Does the dog dies (did you mean "Does the dog die"?), Is it in space\n'
    assert "on what no trait asks: 2\n" in run.out and line in run.out
    assert "on no one item here (none, or several of that title and year): 2\n" in run.out
    assert "catalog add: 2 statements in = " in run.out


def test_keywords_are_said_to_clear_nothing(cli, catalogued, tmp_path):
    """With keywords alone the items seemed known, yet nothing could be recommended to anybody with a trait."""
    path = file(tmp_path, "words.csv", "imdb,keywords\ntt0078748,gore|blood splatter\ntt0116191,love\n")
    run = cli("catalog", "add", "keywords", path, "-C", catalogued.root)
    assert "clears: no item" in run.out and " statements in = " in run.out
    assert "clears" not in cli("catalog", "add", "warnings", tmp_path / "votes.csv", "-C", catalogued.root).out


def test_a_table_under_the_name_of_another_source_is_sent_there(cli, workspace, tmp_path):
    """Of 3,702 warnings 3,526 were dropped as `same id` and the rest became items: no warning was stored."""
    rows = "film,Alien,1979,Is there blood/gore,9,1\n" * 2
    votes = file(tmp_path, "w.csv", f"domain,title,year,topic,yes,no\n{rows}")
    run = cli("catalog", "add", "csv", votes, "-C", workspace.root)
    message = f"csv reads a row per item: this file has topic, yes, no: `saferec-build catalog add warnings {votes}`"
    assert (run.code, run.err) == (1, f"error: {votes}: {message}\n")
    assert store.read(workspace, tables.CATALOG_ROWS).is_empty()
    # a table without the columns of `keywords` is sent there too
    run = cli("catalog", "add", "keywords", votes, "-C", workspace.root)
    assert run.code == 1 and run.err.endswith(f"; {message.split(': ', 1)[1]}\n")


@pytest.mark.parametrize(
    ("source", "header", "row"),
    [
        ("csv", "domain,title,year,movieId,tag,plot", "film,{},1979,{},gore,A plot."),
        ("movielens", "movieId,title,genres,tag", "{1},{0} (1979),Horror,gore"),
    ],
)
def test_a_table_with_the_columns_of_two_sources_is_read_unless_its_items_repeat(
    cli, workspace, tmp_path, source, header, row
):
    """A table with a row per film and a column for a tag was refused as if it were a table of tags."""
    path = file(tmp_path, "own.csv", "\n".join((header, *(row.format(t, n) for n, t in enumerate(("Alien", "Emma"))))))
    run = cli("catalog", "add", source, path, "-C", workspace.root)
    assert run.code == 0, run.err
    assert " 2 rows in = 2 out + 0 dropped" in run.out and "column not read: 1, such as own.csv:1: " in run.out
    assert f"; this file has movieId, tag: `saferec-build catalog add keywords {path}`\n" in run.out
    path.write_text("\n".join((header, *([row.format("Alien", 7)] * 3))))
    run = cli("catalog", "add", source, path, "-C", workspace.root)
    assert run.code == 1 and f"{path}: {source} reads a row per item: this file has movieId, tag: " in run.err


def test_a_remark_on_a_header_is_no_row(cli, workspace, tmp_path):
    """A file of 3,702 rows was reported as 3,703. A table of films may also have reasons, and is read as both."""
    path = file(tmp_path, "own.csv", "domain,title,year,rating,reason\nfilm,Alien,1979,R,for gore\n")
    result = cli("catalog", "add", "csv", path, "-C", workspace.root, "--json").json
    assert (result["in"], result["added"], result["dropped"]) == (1, 1, {})
    assert result["column_not_read"] == 1  # it was prose, which a program cannot count
    (message,) = re.findall(r"column not read: (1, .*)", cli("catalog", "add", "csv", path, "-C", workspace.root).out)
    assert message.startswith("1, such as own.csv:1: rating, reason: expected one of ")
    assert message.endswith(f"; this file has rating, reason: `saferec-build catalog add rating-reasons {path}`")
    assert store.read(workspace, tables.DROPS).is_empty()
    assert cli("catalog", "add", "rating-reasons", path, "-C", workspace.root, "--json").json["added"] == 1


def test_rejected_rows_are_kept(cli, workspace, tmp_path):
    path = file(tmp_path, "votes.csv", VOTES + "Alien,1979,,,,1,1,,\nAlien,19,,,a,1,1,,\nAlien,1979,,,a,1,1,,\n")
    for attempt in range(2):
        result = cli("catalog", "add", "warnings", path, "-C", workspace.root, "--json").json
        assert (result["in"], result["added"], result["dropped"]) == (3, 1 - attempt, {"no topic": 1, "wrong year": 1})
    drops = store.read(workspace, tables.DROPS).select("stage", "source", "place", "reason").rows()
    assert drops == [("catalog", "csv", "votes.csv:2", "no topic"), ("catalog", "csv", "votes.csv:3", "wrong year")]


def test_mistakes_are_one_line(cli, catalogued, tmp_path, monkeypatch):
    monkeypatch.delenv("DDD_API_KEY", raising=False)
    for words, code, message in (
        (("fetch", "dd"), 1, 'no such site: expected "ddd"'),
        (("add", "csv", tmp_path / "none.csv"), 1, "no such file"),
        (("add", "redial", tmp_path / "own.csv"), 1, "not a JSON file"),
        (("add", "opera", tmp_path / "own.csv"), 1, "catalog add opera: no such source: expected one of movielens, "),
        (("add", "ratingreasons", tmp_path / "own.csv"), 1, "did you mean rating-reasons?"),
        (("add", "demo", tmp_path / "own.csv"), 1, "demo workspace"),
        (("fetch", "ddd"), 1, "DDD_API_KEY is not set"),
    ):
        run = cli("catalog", *words, "-C", catalogued.root)
        assert (run.code, message in run.err) == (code, True), run.err
        assert code == 2 or run.err.count("\n") == 1


def test_invented_items_go_into_demo_workspaces(cli, demo_workspace):
    paths = [world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl"]
    result = cli("catalog", "add", "demo", *paths, "-C", demo_workspace.root, "--json").json
    assert (result["dropped"], result["without_year"]) == ({}, 0)
    assert result["added"] == result["in"] == result["items"] >= 360  # no two of them merge
