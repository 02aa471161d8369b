"""Removal requests are honoured in every spelling of a source, an author or an id."""

import json
from dataclasses import replace

import polars as pl
import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.mining import conversations as mine, removals
from saferec_builder.sources import conversation_rows as conversations
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump as dump
from tests.worlds.mined import EMPTY, talk
from tests.worlds.source_lines import chat


def wished(tmp_path, *rows):
    path = tmp_path / "removals.csv"
    path.write_bytes("\n".join(("source,source_id,author", *rows)).encode("cp1252"))
    return removals.read_removals(path)


def test_a_wish_is_honoured_however_its_source_is_spelt(tmp_path):
    wishes = wished(tmp_path, "Reddit,,u/Some_Body", "HF,d1,", "hf:NS/Films,d2,", ",everywhere,")
    assert "some_body" in wishes.of(wishes.authors, "reddit")
    assert wishes.of(wishes.ids, "hf:ns/Films") == {"d1", "d2", "everywhere"}
    assert wishes.of(wishes.ids, "hf:ns/other") == {"d1", "everywhere"}
    assert wishes.of(wishes.ids, "messages") == {"everywhere"}


@pytest.mark.parametrize(
    ("text", "coding"),
    [
        ("source;source_id;author\r\nreddit;;Somebody\r\n", "utf-8-sig"),
        ("source\tsource_id\tauthor\r\nreddit\t\tSomebody\r\n", "utf-16"),
        # the most frequent mark of the first line was taken for the separator: such files were refused
        ("source,source_id,author\rreddit,,somebody; a; b; c; d; e\r", "utf-8"),  # lines as old spreadsheets end them
        ('source,source_id,author,"why; by whom; when; where; how"\nreddit,,somebody,\n', "utf-8"),
        ("source;source_id;author;a,b,c,d,e\nreddit;;somebody;\n", "utf-8"),
    ],
)
def test_a_spreadsheet_may_have_saved_it_with_other_marks(tmp_path, text, coding):
    path = tmp_path / "removals.csv"
    path.write_bytes(text.encode(coding))
    assert any(author.startswith("somebody") for _, author in removals.read_removals(path).authors)


@pytest.mark.parametrize("who", ["U/Some_Body", "/u/some_body/", "user/Some_Body", "@some_body", " some_body "])
def test_a_wish_is_honoured_however_the_author_is_written(tmp_path, who):
    wishes = wished(tmp_path, f"reddit,,{who}")
    assert "some_body" in wishes.of(wishes.authors, "reddit")


def test_blanks_around_an_id_keep_nobody_in(tmp_path):
    """Cells of removals.csv are stripped, so the ids they are compared with are stripped, too."""
    talks = conversations.frame([talk(" a1 ", "hi"), talk("b", "hi", place="f:2")])
    remaining, drops = removals.without(talks, wished(tmp_path, ",a1,"))
    assert (remaining["source_id"].to_list(), drops["reason"].to_list()) == (["b"], [removals.REMOVED])
    rows, _ = mine.mine(talks, EMPTY)
    wishes = replace(wished(tmp_path, ",a1,"), secret=b"key" * 11)
    gone = removals.gone(wishes, rows, tables.ORIGINS.empty)
    assert gone.to_list() == rows.filter(source_id=" a1 ")["conversation"].to_list()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("redit,,Some_Body", "removals.csv:2: no source is called 'redit': expected one of ccpe, hf"),
        ("reddit,,Zoë", "removals.csv:2: not UTF-8: save the file as CSV in UTF-8"),  # as Excel saves it
        (f'reddit,,"{"a" * 2_000_000}"', "removals.csv:2: not CSV: field larger"),
        ("messages,,Smith, Ann", "removals.csv:2: too many fields: found 4, expected 3"),
        ('reddit,"t3_a,\nreddit,t3_b,', "removals.csv:2: not CSV"),  # an open quote swallowed the rest
        ('reddit,"t3_a,\nreddit,t3_b",', "removals.csv:3: a cell of two lines"),
    ],
)
def test_a_wish_that_would_be_passed_by_is_one_line(tmp_path, row, told):
    with pytest.raises(UsageError) as fault:
        wished(tmp_path, row)
    assert told in str(fault.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'source,source_id,author,,\nreddit,t3_a,,"x\nreddit,t3_b,,y",\n', "removals.csv:3: a cell of two lines"),
        ("source,source_id,author\nreddit,,bob".encode("utf-16")[:-1], "removals.csv:2: not readable"),
        (b'source,source_id,author,why\n,,ann,"asked\nby mail"\n', "removals.csv:3: a cell of two lines"),
    ],
)
def test_no_wish_is_lost_in_a_nameless_column_a_cut_file_or_a_second_line(tmp_path, data, told):
    """`forget` deleted the last line of a row of two: the name stayed, before a quote that nobody closes."""
    (tmp_path / "removals.csv").write_bytes(data)
    with pytest.raises(UsageError, match=told):
        removals.read_removals(tmp_path / "removals.csv")


def test_wishes_know_every_source_of_the_command(tmp_path):
    for source in conversations.Source:
        assert wished(tmp_path, f"{source},a,").wishes[0].source == source


@pytest.mark.slow
def test_removals_stay_readable_for_whom_they_were(workspace, tmp_path, cli):
    """A private file with names in clear was rewritten so that everybody could read it."""
    (tmp_path / "own.jsonl").write_text("\n".join(chat(name, "A calm film?", user=name) for name in ("a1", "b2")))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    path = workspace.root / "removals.csv"
    for mode, coding in ((0o600, "utf-8-sig"), (0o664, "utf-16")):
        path.write_text("source,source_id,author\nmessages,a1,\nmessages,,somebody-who-waits\n", coding)
        path.chmod(mode)
        assert cli("forget", "a1", "-C", workspace.root).code == 0
        assert path.stat().st_mode & 0o777 == mode
        header, *rest = path.read_bytes().decode(coding.removesuffix("-sig")).splitlines()
        assert rest == ["messages,,somebody-who-waits"]
        assert header.startswith("\ufeff") == (coding == "utf-8-sig")  # a spreadsheet knows UTF-8 by this mark


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ann", "a1"])
@pytest.mark.parametrize("source", ["messages", "reddit"])
def test_a_file_that_names_no_author_or_another_brings_nobody_back(workspace, tmp_path, cli, source, name):
    """An author was known by name alone: with their id, but another author, their conversation was mined again. Whoever
    they have answered keeps a conversation, without the answer."""

    def mined(author):
        if source == "messages":
            mine = {"id": "a1", "messages": [{"role": "user", "content": f"A calm film? {author}"}]}
            rows = [mine | ({"user": author} if author else {}), json.loads(chat("b2", "Any?", user="bo"))]
        else:
            author = author or "renamed"
            rows = [dump.submission(1, id="a1", author=author), dump.submission(2, id="b2", author="bo")]
            rows += [dump.comment(3, "b2", author=author)]
        path = dump.write(tmp_path / "dump.jsonl", rows)
        counts = cli("mine", source, path, "-C", workspace.root, "--json").json
        ids = store.read(workspace, tables.CONVERSATIONS)["source_id"].sort().to_list()
        return counts["dropped"].get(removals.REMOVED, 0), [i.removeprefix("t3_") for i in ids]

    assert mined("ann") == (0, ["a1", "b2"])
    assert cli("forget", name, "-C", workspace.root).code == 0
    for author in (None, "somebody-else", "ann"):
        dropped, ids = mined(author)
        assert dropped and ids == ["b2"], author
    drops = store.read(workspace, tables.DROPS).filter(pl.col("reason") == removals.REMOVED)
    assert "dump.jsonl:1" in drops["place"].to_list()
