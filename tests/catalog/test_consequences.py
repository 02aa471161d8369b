"""What `catalog add` says that the rows it read did to the catalog."""

import pytest

from saferec_builder.catalog import adding, lookup, rulings
from saferec_builder.core.errors import UsageError


@pytest.fixture
def items(tmp_path):
    (tmp_path / "items.csv").write_text("domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Big,1988,\n")
    return tmp_path / "items.csv"


def test_a_slip_in_an_id_of_ones_own_table_takes_no_warning_and_is_named(workspace, cli, tmp_path):
    """Alien lost its warnings to "Bad Moms" under its IMDb id, and no output named the row."""
    (folder := tmp_path / "lens").mkdir()
    (folder / "movies.csv").write_text("movieId,title,genres\n1,Alien (1979),Horror\n2,Heat (1995),Drama\n")
    (folder / "links.csv").write_text("movieId,imdbId,tmdbId\n1,0078748,348\n2,0113277,949\n")
    adding.add_catalog(workspace, "movielens", folder)
    for name, rows in (("old", "film,Up,2009,tt0113277"), ("own", "film,Bad Moms,2016,tt0078748\nfilm,Big,1988,")):
        (tmp_path / f"{name}.csv").write_text(f"domain,title,year,imdb\n{rows}\n")
        counts = adding.add_catalog(workspace, "csv", tmp_path / f"{name}.csv")
    assert (counts.figures["id_conflicts"], counts.figures["id_conflicts_of_the_rows_read"]) == (2, 1)
    pair = "csv:imdb:tt0078748 Bad Moms (2016), movielens:1 Alien (1979)"
    remedy = "for a row with a wrong id, `saferec-build catalog apart csv:imdb:tt0078748`"
    expected = [f"{pair}: imdb:tt0078748 means Alien (1979)", remedy]
    assert counts.examples["id_conflicts_of_the_rows_read"] == expected
    listed = cli("catalog", "merges", "--conflicts", "-C", workspace.root).out.splitlines()
    assert [line.split()[0] for line in listed[:2]] == ["csv:imdb:tt0078748", "csv:imdb:tt0113277"]  # newest first
    (tmp_path / "reasons.csv").write_text("imdb,rating,reason\ntt0078748,R,strong bloody violence and gore\n")
    adding.add_catalog(workspace, "rating-reasons", tmp_path / "reasons.csv")
    assert lookup.check(workspace, "Alien (1979)", "gore").word == "violated"
    owners = rulings.keep_apart(workspace, "csv:imdb:tt0078748").figures["its_ids_mean"]
    assert owners == ["imdb:tt0078748 Alien (1979)"]


def test_many_id_conflicts_are_printed_one_per_line_with_where_the_rest_is(workspace, cli, tmp_path):
    """They were one line of 400 characters."""
    movies = (f"{n},{title} (199{n}),Drama" for n, title in enumerate(("Heat", "Big", "Saw", "Up"), 1))
    links = (f"{n},000000{n},{n}" for n in range(1, 5))
    own = (f"film,{title},200{n},tt000000{n}" for n, title in enumerate(("Emma", "Jaws", "Doom", "Alien"), 1))
    heads = ("movieId,title,genres", "movieId,imdbId,tmdbId", "domain,title,year,imdb")
    for name, head, rows in zip(("movies", "links", "own"), heads, (movies, links, own), strict=True):
        (tmp_path / f"{name}.csv").write_text("\n".join((head, *rows)))
    adding.add_catalog(workspace, "movielens", tmp_path)
    printed = cli("catalog", "add", "csv", tmp_path / "own.csv", "-C", workspace.root).out.splitlines()
    first = printed.index("  id conflicts of the rows read: 4:")
    *pairs, rest, remedy = printed[first + 1 : first + 6]
    assert len(pairs) == 3 and all(pair.startswith("    ") and " means " in pair for pair in pairs)
    assert rest == "    and 1 more: `saferec-build catalog merges --conflicts`" and "catalog apart" in remedy
    assert max(map(len, printed[first : first + 6])) < 120


def test_statements_on_an_id_of_two_rows_that_are_equally_good_say_how_to_leave_it_to_one(workspace, cli, tmp_path):
    rows = "film,Alien,1979,tt0078748,a\nfilm,Es,1990,tt0078748,b\n"
    (tmp_path / "own.csv").write_text(f"domain,title,year,imdb,id\n{rows}")
    counts = adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    assert counts.examples["id_conflicts_of_the_rows_read"][0].endswith("imdb:tt0078748 means neither")
    (tmp_path / "votes.csv").write_text(
        "imdb,topic,yes,no\n" + "".join(f"{i},Is there blood/gore,9,0\n" for i in ("tt0078748", "tt9999999"))
    )
    added = adding.add_catalog(workspace, "warnings", tmp_path / "votes.csv")
    assert (added.figures["on_no_item_here"], added.figures["on_an_id_of_several_items"]) == (2, 1)
    assert added.examples["on_an_id_of_several_items"].startswith("imdb:tt0078748: `saferec-build catalog merges --c")
    args = ("--trait", "gore", "-C", workspace.root)
    words = [cli("catalog", "check", name, *args).out.splitlines()[1] for name in ("tt0078748", "Up (2009)")]
    assert ["several works have this id: see " in text for text in words] == [True, False]


def test_a_merge_of_titles_without_a_common_word_is_told_with_its_remedy(workspace, cli, tmp_path):
    """Heat under Toy Story's id became an alias of it, and the advice was a list of id conflicts, which was empty."""
    rows = ["film,Toy Story,1995,tt0114709,movielens:1", "film,Heat,1995,tt0113277,movielens:6"]
    (tmp_path / "lens.csv").write_text("\n".join(("domain,title,year,imdb,id", *rows)))
    rows = ["film,Toy Story,1995,tt0114709", "film,Heat,1996,tt0114709", "film,Toy Stories,1995,tt0114709"]
    (tmp_path / "own.csv").write_text("\n".join(("domain,title,year,imdb", *rows)))
    figure = "merged_by_id_though_no_word_of_their_titles_is_the_same"
    first, own = (adding.add_catalog(workspace, "csv", tmp_path / name) for name in ("lens.csv", "own.csv"))
    assert (figure in first.figures, own.figures[figure]) == (False, 1)
    command = "if they are two works, `saferec-build catalog apart csv:film:heat:1996`"
    assert own.examples[figure].startswith(f"Heat (1996) and Toy Story (1995) (imdb:tt0114709): {command}")
    assert command in own.examples["id_of_another_row"]
    listing = cli("catalog", "merges", "-C", workspace.root).out.splitlines()
    assert listing[0].startswith("csv:film:heat:1996 ") and listing[0].endswith(": no word in common")
    # the pairs that fit are listed, too, and not as merges through Heat
    assert ["csv:film:heat:1996" in line for line in listing] == [True, False, False, False]
    assert listing[-1].startswith("catalog merges: 3 merges (1 with no word in common), 0 id conflicts")
    figures = rulings.keep_apart(workspace, "csv:film:heat:1996").figures
    parts = (figures["it_was_part_of"][:16], figures["it_is_part_of"])
    assert parts == ("Toy Story (1995)", "Heat (1996), with csv:film:heat:1996")
    join = "`saferec-build catalog join csv:film:heat:1996 csv:movielens:6`"
    assert figures["next"] == f"if it is Heat (1995), {join}"


@pytest.mark.slow
def test_statements_that_lose_their_item_to_another_are_told(workspace, items, tmp_path):
    """A film was violated, then unknown: a later row had taken its id, and no command reported it."""
    adding.add_catalog(workspace, "csv", items)
    (tmp_path / "votes.csv").write_text("imdb,topic,yes,no\ntt0078748,Is there blood/gore,40,0\n")
    adding.add_catalog(workspace, "warnings", tmp_path / "votes.csv")
    (tmp_path / "more.csv").write_text("domain,title,year,imdb,id\nfilm,Es,1990,tt0078748,es\n")
    (tmp_path / "up.csv").write_text("domain,title,year\nfilm,Up,2009\n")
    up, more = (adding.add_catalog(workspace, "csv", tmp_path / name) for name in ("up.csv", "more.csv"))
    lost = "statements_that_lost_their_item"
    assert (lost in up.figures, more.figures[lost]) == (False, 1)
    assert more.examples[lost].startswith("of imdb:tt0078748: two items have this id")
    # a title that another work takes is no conflict of ids
    (tmp_path / "votes.csv").write_text("title,year,topic,yes,no\nUp,2007,Is there blood/gore,40,0\n")
    adding.add_catalog(workspace, "warnings", tmp_path / "votes.csv")
    (tmp_path / "up.csv").write_text("domain,title,year\nfilm,Up,2005\n")
    told = adding.add_catalog(workspace, "csv", tmp_path / "up.csv").examples[lost]
    assert told.endswith("(`saferec-build catalog show 'Up (2007)'`): add its rows with an IMDb id")
    with pytest.raises(UsageError, match=r"Up \(2009\) .*Up \(2005\)"):
        lookup.show(workspace, "Up (2007)")


def test_an_undated_item_under_a_dated_title_is_told_with_its_remedy(workspace, tmp_path):
    """ReDial names films without a year: they were in the catalog twice, and no message named `catalog join`."""
    rows = ["film,Heat,", "film,Emma,", "film,Emma,1996", "film,Emma,2020", "game,Doom,", "game,Doom,2016", "film,Up,"]
    (tmp_path / "own.csv").write_text("\n".join(("domain,title,year", "film,Heat,1995", *rows)))
    counts = adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    pair, remedy = counts.examples["undated_under_a_title_of_another"]
    assert counts.figures["undated_under_a_title_of_another"] == 1 and "makes one item of two" in remedy
    assert pair == "'Heat': `saferec-build catalog join csv:film:heat: csv:film:heat:1995`"
    # later files say what they bring, not what was there
    (tmp_path / "more.csv").write_text("domain,title,year\nfilm,Alien,1979\nfilm,Alien,\n")
    more = adding.add_catalog(workspace, "csv", tmp_path / "more.csv")
    pair, _ = more.examples["undated_under_a_title_of_another"]
    assert more.figures["undated_under_a_title_of_another"] == 1 and pair.startswith("'Alien': ")
    rulings.join_rows(workspace, "csv:film:heat:", "csv:film:heat:1995")
    rerun = adding.add_catalog(workspace, "csv", tmp_path / "own.csv")
    assert (rerun.added, "undated_under_a_title_of_another" in rerun.figures) == (0, False)


@pytest.mark.slow
def test_a_severity_that_comes_back_is_told_where_it_does_not_count(workspace, items, tmp_path):
    """Severe, none, severe again: the last was "already there", and the film stayed clear without a warning."""
    adding.add_catalog(workspace, "csv", items)
    head = "imdb,violence,frightening,retrieved"

    def added(severity, day=""):
        (tmp_path / "guide.csv").write_text(f"{head}\ntt0078748,{severity},{severity},{day}\ntt9999999,None,None,\n")
        counts = adding.add_catalog(workspace, "parent-guide", tmp_path / "guide.csv")
        warning = (counts.figures.get("another_counts_instead"), counts.examples.get("another_counts_instead"))
        return warning, lookup.check(workspace, "tt0078748", "gore").word

    none = (None, None)
    assert [added(word) for word in ("Severe", "None")] == [(none, "violated"), (none, "clear")]
    (number, example), word = added("Severe")
    assert (word, number) == ("clear", 2)
    assert example.startswith("'violence' of imdb:tt0078748: if it holds again, add it with a")
    assert added("Severe", "2026-03-01") == (none, "violated")
    assert added("None", "2019")[1] == "violated"
