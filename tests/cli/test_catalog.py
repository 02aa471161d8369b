"""The files that the catalog reads, and its two commands: what is odd in a file is counted, never guessed."""

import json

import pytest

from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.sources import Left, items_csv, items_demo, movielens, parent_guide, refs, warnings_csv
from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import VOTES, file


@pytest.mark.parametrize("value", ["tt0078748", "0078748", "78748", "https://www.imdb.com/title/tt0078748/"])
def test_an_imdb_id_has_one_form(value):
    assert refs.imdb(value) == "imdb:tt0078748"
    assert refs.imdb("tt10155932") == "imdb:tt10155932"


@pytest.mark.parametrize("value", ["", "tt", "nm0000001", "tt0000000", "Alien", "-5", "1.0"])
def test_what_is_no_imdb_id(value):
    with pytest.raises(Left, match="bad imdb id"):
        refs.imdb(value)


@pytest.mark.parametrize(
    "value", ["tmdb:nan", "tmdb:None", "tmdb:0", "tmdb:-1", "movielens:null", "tt0000000", "Alien"]
)
def test_a_blank_is_no_id_that_films_could_share(value):
    """Two films "Emma" of 1996 and 1997, both "tmdb:nan", were one item."""
    with pytest.raises(Left, match="^bad"):
        refs.external(value)
    assert [refs.external(v) for v in ("tmdb:348", "tmdb:10", "csv:0")] == ["tmdb:348", "tmdb:10", "csv:0"]


def test_a_ref_is_an_id_or_a_title():
    assert [
        refs.ref(v) for v in ("imdb:78748", " redial:5", "Alien  (1979)", "demo: the film (2001)", "Alien: Covenant")
    ] == [
        "imdb:tt0078748",
        "redial:5",
        "title:Alien (1979)",
        "title:demo: the film (2001)",
        "title:Alien: Covenant",
    ]


def movies(tmp_path, text, links=None):
    file(tmp_path, "movies.csv", text)
    if links is not None:
        file(tmp_path, "links.csv", links)
    return movielens.read(tmp_path)


def test_movielens(tmp_path):
    read = movies(
        tmp_path,
        "movieId,title,genres\n"
        '1,"Postman, The (Postino, Il) (1994)",Comedy|Drama\n'
        "2,Babylon 5,(no genres listed)\n"
        "x,Alien (1979),Horror\n"
        "3,Aliens (1986),Horror\n"
        "1,Heat (1995),Crime\n"
        "4, (1995),\n"
        "5,a,b,c\n",
        "movieId,imdbId,tmdbId\n1,0110877,11010\n2,0105946,\n3,abc,5\n",
    )
    assert read.rows.select("source_id", "title", "year", "refs", "genres").rows() == [
        ("1", "Postman, The (Postino, Il)", 1994, ["imdb:tt0110877", "tmdb:11010"], ["Comedy", "Drama"]),
        ("2", "Babylon 5", None, ["imdb:tt0105946"], []),
        ("3", "Aliens", 1986, [], ["Horror"]),
        ("4", "(1995)", None, [], []),
    ]
    assert sorted(read.drops.select("place", "reason").rows()) == [
        ("links.csv:4", "bad imdb id"),
        ("movies.csv:4", "no id"),
        ("movies.csv:6", "same id"),
        ("movies.csv:8", "too many fields"),
    ]
    assert read.figures == {"with_external_id": 2, "without_year": 2}


def test_movielens_alone_and_as_a_file(tmp_path):
    read = movies(tmp_path, "\ufeffmovieId,title,genres\r\n1,Alien (1979),Horror\r\n")
    assert read.rows["refs"].to_list() == [[]]
    assert movielens.read(tmp_path / "movies.csv").rows.equals(read.rows)
    with pytest.raises(UsageError, match="elsewhere: no such file"):
        movielens.read(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("movieId;title;genres\n1;Alien (1979);x\n", "column 'movieId' is missing.*found movieId;title;genres"),
        ("movieId,genres\n1,x\n", "column 'title' is missing"),
        ("", "no header line"),
        (b"PK\x03\x04\x00\xff\xfe", "missing"),
    ],
)
def test_a_file_of_another_kind_is_one_line(tmp_path, text, says):
    with pytest.raises(SourceError, match=says) as fault:
        movies(tmp_path, text)
    assert "\n" not in str(fault.value)


def test_csv_items(tmp_path):
    text = (
        b"domain,title,year,ids,aliases,plot,genres\n"
        b"film,Alien,1979,tt0078748 tmdb:348,Alien 1|Le 8e passager,In space.,horror\n"
        b"game,Tetris,,,,,\n"
        b"film,Heat (1995),,,,,\n"
        b"film,Heat (1995),,,,,\n"
        b"movie,Big,1988,,,,\n"
        b"film,,1988,,,,\n"
        b"film,Big,88,,,,\n"
        b"film,Big,1988,wikidata,,,\n"
        b"film,short\n"
        b"\n"
    ) + b"film,Am\xe9lie,2001,,,,\n"
    read = items_csv.read(file(tmp_path, "own.csv", text))
    assert read.rows.select("source_id", "title", "year", "refs", "aliases", "plot").rows() == [
        ("imdb:tt0078748", "Alien", 1979, ["imdb:tt0078748", "tmdb:348"], ["Alien 1", "Le 8e passager"], "In space."),
        ("game:tetris:", "Tetris", None, [], [], None),
        ("film:heat:1995", "Heat", 1995, [], [], None),
        ("film:short:", "short", None, [], [], None),
    ]
    assert read.drops.select("place", "reason").rows() == [
        ("own.csv:6", "unknown domain"),
        ("own.csv:7", "no title"),
        ("own.csv:8", "wrong year"),
        ("own.csv:9", "bad id"),
        ("own.csv:12", "not UTF-8"),
        ("own.csv:5", "same id"),
    ]


def test_a_description_is_a_plot(tmp_path):
    read = items_csv.read(file(tmp_path, "own.csv", "domain,title,year,description\nfilm,Alien,1979,In space.\n"))
    assert read.rows["plot"].to_list() == ["In space."]


def test_a_quote_that_nobody_closes_costs_the_lines_that_it_takes_and_not_the_run(tmp_path):
    text = 'domain,title,year\nfilm,Alien,1979\nfilm,"open,1980\n' + "x" * 1_100_000 + "\nfilm,Heat,1995\n"
    read = items_csv.read(file(tmp_path, "own.csv", text))
    assert read.rows["title"].to_list() == ["Alien", "Heat"]
    assert read.drops.select("place", "reason").rows() == [("own.csv:3", "not CSV"), ("own.csv:4", "not CSV")]


def test_a_column_that_stands_twice_is_refused(tmp_path):
    # the last one counted: Severe in one and None in the other gave severity 0, and a strong guide clears
    path = file(tmp_path, "g.csv", "title,year,violence,violence\nAlien,1979,Severe,None\n")
    with pytest.raises(SourceError, match="two columns are called 'violence'"):
        parent_guide.read(path)
    blank = file(tmp_path, "own.csv", "domain,title,year,,\nfilm,Alien,1979,,\n")  # what spreadsheets leave at the end
    assert items_csv.read(blank).rows["title"].to_list() == ["Alien"]


def test_demo_items(tmp_path):
    rows = [
        {
            "title": "The Paper Tide",
            "year": 2011,
            "domain": "game",
            "genres": ["puzzle"],
            "plot": "Fold.",
            "topics": [],
        },
        {"id": "own", "title": "B", "year": 1999, "domain": "film"},
        {"title": "C", "year": "1999", "domain": "film"},
        {"title": "D", "year": 1999, "domain": "opera"},
    ]
    read = items_demo.read(file(tmp_path, "d.jsonl", "\n".join(map(json.dumps, rows))))
    assert read.rows["source_id"].to_list() == ["game-paper-tide-2011", "own"]
    assert read.drops["reason"].to_list() == ["wrong type", "unknown domain"]


def test_votes(tmp_path):
    text = (
        "title,year,imdb,domain,topic,yes,no,url,retrieved\n"
        "Alien,1979,,film,Is there blood/gore,40,1,https://example.org/a,2024-01-01\n"
        ",,tt0078748,,Does the dog die,0,12,,\n"
        "Alien,,,,Is there blood/gore,,3,,\n"
        "Alien,1979,,film,Is there blood/gore,40,1,https://example.org/a,2024-01-01\n"
        ",,,film,Is there blood/gore,1,1,,\n"
        "Alien,1979,,film,,1,1,,\n"
        "Alien,1979,,film,Is there blood/gore,0,,,\n"
        "Alien,1979,,film,Is there blood/gore,many,1,,\n"
        "Alien,1979,,film,Is there blood/gore,-1,1,,\n"
        "Alien,1979,,opera,Is there blood/gore,1,1,,\n"
        "Alien,79,,film,Is there blood/gore,1,1,,\n"
        "Alien,1979,nm5,film,Is there blood/gore,1,1,,\n"
    )
    read = warnings_csv.read(file(tmp_path, "votes.csv", text))
    assert read.rows.select("ref", "domain", "topic", "yes", "no", "url").rows() == [
        ("title:Alien (1979)", "film", "Is there blood/gore", 40, 1, "https://example.org/a"),
        ("imdb:tt0078748", None, "Does the dog die", 0, 12, None),
        ("title:Alien", None, "Is there blood/gore", 0, 3, None),
    ]
    assert read.drops["reason"].to_list() == [
        "no title",
        "no topic",
        "no votes",
        "votes not a number",
        "votes not a number",
        "unknown domain",
        "wrong year",
        "bad imdb id",
        "same id",
    ]


OFFICIAL = 'imdb,Sex & Nudity,Violence & Gore,Profanity,"Alcohol, Drugs & Smoking",Frightening & Intense Scenes\n'


@pytest.mark.parametrize("header", ["imdb,sex,violence,profanity,drugs,frightening\n", OFFICIAL])
def test_parent_guide(tmp_path, header):
    text = header + "tt0078748,None,Severe,mild,,MODERATE\ntt0113277,None,Extreme,3,,\ntt0000009,,,,,\nx,Mild,,,,\n"
    read = parent_guide.read(file(tmp_path, "guide.csv", text))
    assert read.rows.select("ref", "topic", "severity").rows() == [
        ("imdb:tt0078748", "sex", 0),
        ("imdb:tt0078748", "violence", 3),
        ("imdb:tt0078748", "profanity", 1),
        ("imdb:tt0078748", "frightening", 2),
        ("imdb:tt0113277", "sex", 0),
    ]
    assert sorted(read.drops.select("place", "reason").rows()) == [
        ("guide.csv:3 profanity", "unknown severity"),
        ("guide.csv:3 violence", "unknown severity"),
        ("guide.csv:4", "nothing rated"),
        ("guide.csv:5", "bad imdb id"),
    ]


def test_two_columns_of_one_category(tmp_path):
    """One that is blank says nothing, where it stands; of two that are not nobody knows which is meant."""
    text = "imdb,violence,Violence & Gore\ntt1,Severe,\ntt2,,Severe\ntt3,Severe,None\n"
    read = parent_guide.read(file(tmp_path, "guide.csv", text))
    assert read.rows.select("ref", "severity").rows() == [("imdb:tt0000001", 3), ("imdb:tt0000002", 3)]
    assert read.drops.select("place", "reason").rows() == [("guide.csv:4", "category twice")]


def test_parent_guide_as_json_and_by_title(tmp_path):
    rows = [{"title": "Alien", "year": 1979, "Violence & Gore": "Severe", "sex": None}, 5, {"imdb": "tt1"}]
    read = parent_guide.read(file(tmp_path, "guide.json", json.dumps(rows)))
    assert read.rows.select("ref", "topic", "severity").rows() == [("title:Alien (1979)", "violence", 3)]
    assert read.drops["reason"].to_list() == ["wrong type", "no category"]
    for text, says in (("[", "not a JSON file"), ("{}", "wanted a list"), ("[{}]", "no column with a category")):
        with pytest.raises(SourceError, match=says):
            parent_guide.read(file(tmp_path, "guide.json", text))


# ---- the commands


@pytest.fixture
def catalogued(cli, workspace, tmp_path):
    """A workspace with four films, two of one title and year, and votes on the first."""
    own = "film,Alien,1979,tt0078748\nfilm,Emma,1996,tt0116191\nfilm,The Emma,1996,tt0118308\nfilm,Emma,1999,\n"
    file(tmp_path, "own.csv", "domain,title,year,ids\n" + own)
    votes = VOTES + "Alien,1979,,,Is there blood/gore?,40,1,https://example.org,2024-01-01\n"
    file(tmp_path, "votes.csv", votes + "Heat,1995,,,Is there blood/gore,1,1,,\n,,tt78748,,Is it in space,9,0,,\n")
    for source, name in (("csv", "own.csv"), ("warnings", "votes.csv")):
        ran = cli("catalog", "add", source, tmp_path / name, "-C", workspace.root, "--json")
        assert ran.code == 0, ran.err
    return workspace


def test_add_counts_and_a_rerun_adds_nothing(cli, catalogued, tmp_path):
    ran = cli("catalog", "add", "warnings", tmp_path / "votes.csv", "-C", catalogued.root, "--json").json
    assert ran == {
        "command": "catalog add",
        "in": 3,
        "out": 3,
        "added": 0,
        "skipped": 3,
        "dropped": {},
        "items": 4,
        "no_item_yet": 1,
        "such_items": ["title:Heat (1995)"],
        "topic_no_trait_asks_about": 1,
        "such_topics": ["Is it in space"],
    }
    assert store.read(catalogued, tables.WARNINGS).height == 3  # kept, so that a later taxonomy may ask


def test_a_statement_that_a_later_one_replaces_has_its_item(cli, catalogued, tmp_path):
    """The same page counted twice, and two ids of one item: `no_item_yet` is of those that name nobody."""
    rows = "".join(f"{named},Does the dog die,0,{n},,\n" for n, named in ((8, "Alien,1979,,"), (9, ",,tt78748,")))
    path = file(tmp_path, "again.csv", VOTES + rows + "Heat,1995,,,Does the dog die,1,1,,\n")
    ran = cli("catalog", "add", "warnings", path, "-C", catalogued.root, "--json").json
    assert (ran["added"], ran["no_item_yet"]) == (3, 1)  # Heat


def test_rejected_rows_are_kept(cli, workspace, tmp_path):
    path = file(tmp_path, "votes.csv", VOTES + "Alien,1979,,,,1,1,,\nAlien,19,,,a,1,1,,\n")
    for _ in range(2):
        ran = cli("catalog", "add", "warnings", path, "-C", workspace.root, "--json").json
        assert (ran["in"], ran["out"], ran["dropped"]) == (2, 0, {"no topic": 1, "wrong year": 1})
    drops = store.read(workspace, tables.DROPS).select("stage", "source", "place", "reason").rows()
    assert drops == [("catalog", "csv", "votes.csv:2", "no topic"), ("catalog", "csv", "votes.csv:3", "wrong year")]


def test_check_tells_the_verdict_and_its_sources(cli, catalogued):
    ran = cli("catalog", "check", "alien (1979)", "--trait", "gore", "-C", catalogued.root, "--json").json
    assert {k: ran[k] for k in ("title", "match", "candidates", "trait", "risk", "verdict")} == {
        "title": "Alien (1979)",
        "match": "found",
        "candidates": [],
        "trait": "gore",
        "risk": 1.0,
        "verdict": "violated",
    }
    assert ran["item"] == tables.digest("item", "csv", "imdb:tt0078748")
    assert [(s["topic"], s["yes"], s["no"], s["source"]) for s in ran["sources"]] == [
        ("Is there blood/gore?", 40, 1, "csv")
    ]
    text = cli("catalog", "check", "Alien (1979)", "--trait", "gore", "-C", catalogued.root).out
    assert "verdict  violated" in text and "40 yes, 1 no · csv · https://example.org · 2024-01-01" in text


def test_check_never_guesses(cli, catalogued):
    def check(title, *more):
        ran = cli("catalog", "check", title, "--trait", "gore", "-C", catalogued.root, "--json", *more)
        assert ran.code == 0, ran.err
        return ran.json

    for title in ("Nowhere (1999)", "Alien (1999)", "Alien (1979) extended"):
        found = check(title)
        assert (found["match"], found["verdict"], found["risk"], found["item"]) == ("not_found", "unknown", None, None)
    assert check("Alien (1979)", "--domain", "game")["match"] == "not_found"
    emma = check("Emma (1996)")
    assert (emma["match"], emma["verdict"], emma["item"]) == ("ambiguous", "unknown", None)
    assert [c["title"] for c in emma["candidates"]] == ["Emma (1996)", "The Emma (1996)"]
    silent = check("Emma (1999)")
    assert (silent["match"], silent["verdict"], silent["sources"]) == ("found", "unknown", [])


def test_mistakes_are_one_line(cli, catalogued, tmp_path):
    for words, code, says in (
        (("check", "Alien (1979)", "--trait", "gorre"), 1, "unknown trait 'gorre'"),
        (("check", "Alien (1979)"), 2, "--trait"),
        (("check", "Alien (1979)", "--trait", "gore", "--domain", "flim"), 2, "flim"),
        (("add", "csv", tmp_path / "none.csv"), 1, "no such file"),
        (("add", "redial", tmp_path / "own.csv"), 1, "not a JSON file"),
        (("add", "opera", tmp_path / "own.csv"), 2, "opera"),
        (("add", "demo", tmp_path / "own.csv"), 1, "demo workspace"),
    ):
        ran = cli("catalog", *words, "-C", catalogued.root)
        assert (ran.code, says in ran.err) == (code, True), ran.err
        assert code == 2 or ran.err.count("\n") == 1


def test_invented_items_go_into_demo_workspaces(cli, demo_workspace):
    from pathlib import Path

    import saferec_builder

    folder = Path(saferec_builder.__file__).parent / "demo"
    paths = [folder / "films.jsonl", folder / "games.jsonl"]
    ran = cli("catalog", "add", "demo", *paths, "-C", demo_workspace.root, "--json").json
    assert (ran["dropped"], ran["without_year"]) == ({}, 0)
    assert ran["added"] == ran["in"] == ran["items"] >= 360  # no two of them merge


@pytest.mark.slow
def test_real_catalogs_through_the_commands(cli, workspace, real_data):
    def add(*words):
        return cli("catalog", "add", *words, "-C", workspace.root, "--json").json

    assert add("movielens", real_data / "movielens_small")["added"] == 9742
    assert add("redial", real_data / "redial" / "ievalm_id2info.json")["added"] == 6583
    assert add("movielens", real_data / "movielens_small" / "movies.csv")["added"] == 0
    ran = cli("catalog", "check", "Suspiria (1977)", "--trait", "gore", "-C", workspace.root, "--json").json
    assert (ran["match"], ran["verdict"]) == ("found", "unknown")
