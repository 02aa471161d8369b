"""The catalog from Python: files, rulings on merges, and faults that stop a fetch from the API."""

import json

import pytest

from saferec_builder import planning
from saferec_builder.catalog import adding, gaps, lookup, merging, rulings, verdicts
from saferec_builder.core.errors import SafeRecError, SourceError, UsageError
from saferec_builder.core.oracle import CLEAR, VIOLATED
from saferec_builder.mining import ingest
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.storage import tables, workspace as store
from tests.worlds import catalog_files
from tests.worlds.bars import Bar, drawn

ITEMS = "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Heat,1995,tt0113277\nfilm,Big,1988\nfilm,,1990,\n"


@pytest.fixture
def items(tmp_path):
    (tmp_path / "items.csv").write_text(ITEMS)
    return tmp_path / "items.csv"


def test_rows_are_added_once_and_what_is_left_out_has_its_reason(workspace, items):
    first, rerun = (adding.add_catalog(workspace, "csv", [items, str(items)]) for _ in range(2))
    assert (first.added, first.dropped, first.figures["items"]) == (3, {"no title": 1}, 3)
    assert first.examples["no title"].startswith("items.csv:5")
    assert (rerun.added, rerun.skipped, "id_conflicts" in first.figures) == (0, 3, False)
    for source, paths, message in (("netflix", [items], "no such source"), ("csv", ["gone.csv"], "no such file")):
        with pytest.raises(UsageError, match=message):
            adding.add_catalog(workspace, source, paths)


def test_each_file_and_what_comes_after_them_is_a_step_of_the_bar(workspace, items):
    """30,000 games took ten seconds, but the bar was full before the catalog was merged."""
    bars = list[Bar]()
    adding.add_catalog(workspace, "csv", items, progress=drawn(bars))
    assert [(bar.total, bar.done) for bar in bars] == [(3, 3)]


def test_what_is_counted_has_its_name():
    assert [adding.noun(name) for name in ("csv", "esrb", "keywords")] == ["rows", "items and statements", "statements"]


def test_a_file_that_gives_nothing_is_an_error_and_the_others_are_added(workspace, items, tmp_path):
    (tmp_path / "movies.csv").write_text("domain,title,year\nmovie,Alien,1979\nmovie,Heat,1995\nfilm,Big,88\n")
    message = r"nothing of .*movies\.csv was added: 3 rows were dropped: 2 as 'unknown domain', such as .*:2: .*; 1 as "
    with pytest.raises(SourceError, match=message):
        adding.add_catalog(workspace, "csv", [tmp_path / "movies.csv", items])
    assert store.read(workspace, tables.CATALOG_ROWS).height == 3
    assert store.read(workspace, tables.DROPS)["place"].to_list() == ["items.csv:5"]  # a refused file adds no drops


def test_a_file_in_another_encoding_is_refused_whole_and_one_with_a_wrong_row_is_not(workspace, items, tmp_path):
    """59 of 61 books were added, and the two with umlauts counted as dropped."""
    header, rows = "domain,title,year\n", ("film,Up,2009\n", "film,Amélie,2001\n")
    (tmp_path / "ansi.csv").write_bytes((header + "".join(rows)).encode("cp1252"))
    message = r"ansi\.csv was added: ansi\.csv:3: not UTF-8, nor .*: save the file in UTF-8: mend it.*3 rows were"
    with pytest.raises(SourceError, match=message):
        adding.add_catalog(workspace, "csv", [tmp_path / "ansi.csv", items])
    assert "Up" not in store.read(workspace, tables.CATALOG_ROWS)["title"]
    (tmp_path / "both.csv").write_bytes(header.encode() + rows[1].encode() + rows[1].encode("cp1252"))
    both = adding.add_catalog(workspace, "csv", tmp_path / "both.csv")
    assert (both.added, both.dropped) == (1, {"not UTF-8": 1})


@pytest.mark.parametrize(
    ("source", "name", "text", "message"),
    [
        ("ddd", "gone.txt", "", "no .json file in this folder: name the folder or files with some"),
        ("ddd", "own.json", "[]", "no row in it: expected items and statements: mend it"),
        ("csv", "own.csv", "domain,title,year,colour\n", "no row in it: expected rows: mend it"),
    ],
)
def test_what_has_no_row_is_an_error(workspace, tmp_path, source, name, text, message):
    """A wrong folder ended with exit code 0, "0 items and statements in" and the advice to add items."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(text)
    with pytest.raises(SafeRecError, match=message):
        adding.add_catalog(workspace, source, tmp_path / "in" / (name if text else ""))


def test_of_two_files_of_one_name_each_has_its_own_drops(workspace, items, tmp_path):
    """Line 5 of the second file was not in the table, as the first has such a row there."""
    other = tmp_path / "more" / "items.csv"
    other.parent.mkdir()
    other.write_text(ITEMS.replace("Alien", "Speed").replace("0078748", "0111257"))
    assert adding.add_catalog(workspace, "csv", [items, other]).dropped == {"no title": 2}
    assert {"items.csv:5", "more/items.csv:5"} <= {*store.read(workspace, tables.DROPS)["place"]}


def test_statements_that_no_trait_asks_about_are_no_fault_of_their_file(workspace, tmp_path):
    (tmp_path / "calm.csv").write_text("title,year,rating,reason\nBig,1988,PG,mild language\n")
    counts = adding.add_catalog(workspace, "rating-reasons", tmp_path / "calm.csv")
    assert (counts.added, counts.dropped) == (0, {"no rule": 1})


def test_two_works_under_one_id_are_two_items_and_no_drop(workspace, tmp_path):
    rows = "film,Alien,1979,tt0078748\nfilm,Heat,1995,tt0078748\nfilm,Le 8e passager,1979,tt0078748\n"
    (tmp_path / "own.csv").write_text(f"domain,title,year,imdb\n{rows}")
    counts = adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    assert (counts.added, counts.dropped, counts.figures["items"], counts.figures["id_conflicts"]) == (3, {}, 2, 1)
    assert counts.figures["id_of_another_row"] == 2 and "own.csv:3: imdb:" in counts.examples["id_of_another_row"]
    rulings.keep_apart(workspace, "csv:film:heat:1995")
    assert lookup.merges(workspace).conflicts.is_empty()
    assert "imdb:tt0078748" not in lookup.show(workspace, "Heat (1995)").item["refs"]


def test_two_tables_that_are_both_numbered_from_1_lose_no_item(workspace, tmp_path):
    """Only three of five works were added, and the others were reported as "already there"."""
    (tmp_path / "films.csv").write_text("domain,id,title,year\nfilm,1,Heat,1995\nfilm,2,Alien,1979\n")
    (tmp_path / "games.csv").write_text(
        "domain,id,title,year\ngame,1,Tetris,1989\ngame,2,Doom,1993\ngame,3,Halo,2001\n"
    )
    paths = [tmp_path / name for name in ("films.csv", "games.csv")]
    together = adding.add_catalog(workspace, "csv", paths)
    separate = [adding.add_catalog(workspace, "csv", path) for path in (*paths, *paths)]
    assert (together.added, together.figures["items"], [counts.added for counts in separate]) == (5, 5, [0] * 4)
    example = "games.csv: 1 is that of 'Heat' in the catalog: 'Tetris' is named game:tetris:1989"
    assert [counts.figures["id_of_another_row"] for counts in (together, separate[1])] == [2, 2]
    assert together.examples["id_of_another_row"] == example
    (tmp_path / "more.csv").write_text("domain,id,title,year\nfilm,2,Up,2009\nfilm,1,HEAT,\n")
    assert adding.add_catalog(workspace, "csv", tmp_path / "more.csv").added == 1


def test_a_table_of_statements_has_no_figures_of_items(workspace, items, tmp_path):
    """It reported "with external id: 0" for a table in which each row has one."""
    adding.add_catalog(workspace, "csv", items)
    (tmp_path / "dog.csv").write_text("imdbId,Clear Yes: Does the dog die\ntt0078748,1\n")
    figures = adding.add_catalog(workspace, "ddd", tmp_path / "dog.csv").figures
    assert "with_external_id" not in figures and (figures["rows_read"], figures["on_no_item_here"]) == (1, 0)


def test_files_about_other_works_are_told(workspace, items, tmp_path):
    """5,952 keywords of films were added to a catalog of books, and the next step was offered."""
    adding.add_catalog(workspace, "csv", items)
    for film, fits in (("tt0078748", False), ("tt9999999", True)):
        (tmp_path / "words.csv").write_text(f"imdb,keywords\n{film},gore\n")
        figures = adding.add_catalog(workspace, "keywords", tmp_path / "words.csv").figures
        assert str(figures.get("fits", "")).startswith("nothing of it: ") == fits and ("clears" in figures) != fits


def test_a_folder_of_answers_says_what_was_read_and_what_was_not(workspace, tmp_path):
    (folder := tmp_path / "ddd").mkdir()
    for name in ("a.json", "b.json"):
        (folder / name).write_text(json.dumps(catalog_files.media(7, "Alien")))
    (folder / "c.csv").write_text("imdbId,Clear Yes: Does the dog die\ntt0078748,1\n")
    figures = adding.add_catalog(workspace, "ddd", folder).figures
    assert (figures["files_read"], figures["passed_by"]) == (2, [str(folder / "c.csv")])
    assert "files_read" not in adding.add_catalog(workspace, "ddd", folder / "a.json").figures


def test_a_catalog_that_comes_after_the_conversations_says_that_they_are_to_be_mined_again(
    workspace, cli, items, tmp_path
):
    (tmp_path / "chats.jsonl").write_text('{"id": "a", "messages": [{"role": "user", "content": "hi", "name": "u"}]}\n')
    ingest.mine(workspace, "messages", tmp_path / "chats.jsonl")
    first, rerun = (cli("catalog", "add", "csv", items, "-C", workspace.root).out for _ in range(2))
    assert "1 conversation was read without it: delete tables/" in first and "next: mine again" in first
    assert "read without it" not in rerun and "next: mine again" not in rerun


@pytest.mark.slow
def test_real_keywords_and_reasons_violate_and_never_clear(workspace, tmp_path, real_data):
    adding.add_catalog(workspace, "movielens", [real_data / "movielens_small"])
    for source, name in (("keywords", "tmdb_keywords/keywords"), ("rating-reasons", "mpaa_reasons/mpaa_reasons")):
        adding.add_catalog(workspace, source, [real_data / f"{name}.csv.gz"])  # gzipped, as they are stored
    shown = lookup.show(workspace, "Saw III (2006)")
    kinds = set(shown.warnings.select("kind", "source").rows())
    assert {("reason", "rating_reasons"), ("keyword", "keywords")} <= kinds
    gore = next(t for t in shown.traits if t.trait == "gore")
    line = next(step for step in gore.steps if "names blood or gore" in step.text)
    assert gore.verdict == "violated" and line.decides
    assert line.text.endswith("right of 40 of 40 works read: violates")
    items, links = merging.merge(store.read(workspace, tables.CATALOG_ROWS))
    oracle, _ = verdicts.risks(items, links, store.read(workspace, tables.WARNINGS), workspace.taxonomy)
    assert not (oracle.codes == CLEAR).any()
    assert (oracle.codes[:, oracle.column("gore")] == VIOLATED).sum() > 1_500


@pytest.fixture
def talked(workspace, items, tmp_path):
    """A workspace with a conversation about three items."""
    adding.add_catalog(workspace, "csv", [items])
    turn = {"role": "assistant", "content": "Try.", "items": ["Alien (1979)", "Heat (1995)", "Big (1988)"]}
    (tmp_path / "a.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "A film, please."}, turn]}))
    ingest.mine(workspace, "messages", [tmp_path / "a.jsonl"])
    return workspace


def test_a_fetch_that_stops_counts_whom_it_asked_for(talked, monkeypatch):
    """A key that was refused at the first of 100 items was reported as "asked: 100"."""

    def media(site, item, agrees):
        raise UsageError("the key is refused")

    monkeypatch.setattr(ddd_api, "media", media)
    figures = planning.fetch(talked, ddd_api.Site("k"), limit=2).counts.figures
    assert (figures["asked"], figures["not_asked_yet"], figures["not_on_the_site"]) == (1, 1, 0)


@pytest.mark.slow
def test_what_stops_a_fetch_is_said_beside_what_came(talked, monkeypatch):
    workspace = talked

    def media(site, item, agrees):
        if item["title"] == "Big":
            raise UsageError("the key is refused")
        topics = [{"topic": {"name": "a dog dies"}, "yesSum": 0, "noSum": 20}]
        return {"item": {"id": item["year"], "name": item["title"]}, "topicItemStats": topics, "exact": True}

    monkeypatch.setattr(ddd_api, "media", media)
    bars = list[Bar]()
    fetched = planning.fetch(workspace, ddd_api.Site("k"), progress=drawn(bars))
    assert (fetched.counts.added, fetched.fault) == (4, "the key is refused")  # two items and a count on each
    assert [(bar.total, bar.done) for bar in bars] == [(3, 2)]
    assert lookup.show(workspace, "imdb:tt0113277").warnings["source"].to_list() == ["ddd"]
    monkeypatch.setenv(ddd_api.KEY, "k")
    rerun = planning.fetch(workspace, "ddd")  # the name that the command uses: Big is requested again
    assert (rerun.counts.figures["asked"], rerun.fault) == (1, "the key is refused")


@pytest.mark.slow
def test_a_film_that_the_site_has_under_a_wrong_id_is_asked_for_by_its_title(talked, monkeypatch):
    """ReDial's id of It is that of Goodfellas: the site's answer was stored as exact, and It was never requested."""
    sites = {"1": ("Alien", "tt0078748"), "2": ("Babe", "tt0113277"), "3": ("Heat", "tt9999999"), "4": ("Big", None)}
    years = {"Alien": "1980", "Babe": "1995", "Heat": "1995", "Big": "1988"}
    items = [{"id": n, "name": t, "releaseYear": years[t], "imdbId": imdb} for n, (t, imdb) in sites.items()]

    def get(site, path):
        if "dddsearch" in path:
            return {"items": [i for i in items if path.endswith((f"imdb={i['imdbId']}", f"q={i['name']}"))]}
        paths.append(path)
        return {"item": items[int(path[-1]) - 1], "topicItemStats": []}

    paths = list[str]()
    monkeypatch.setattr(ddd_api, "_get", get)
    planning.fetch(talked, ddd_api.Site("k"))
    assert paths == ["/media/1", "/media/3", "/media/4"]


def test_what_a_killed_fetch_left_is_no_answer(workspace):
    """The next run that got no answer either ended with `no .json file in this folder`, in place of its own error."""
    adding.answers(workspace).mkdir(parents=True)
    (adding.answers(workspace) / "x.json.7.tmp").touch()
    assert adding.ask(workspace, ddd_api.Site("k"), gaps.GAPS.to_frame()).counts.added == 0
