"""mine: one row per id, no names, nothing lost; first the stage, then the command."""

import polars as pl
import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.mining import conversations as mine, removals
from saferec_builder.sources import conversations
from saferec_builder.storage import tables
from tests.worlds.source_lines import texts

EMPTY = tables.CONVERSATIONS.empty


def talk(name, *texts, seeker="ann", place="f:1", roles=("seeker", "recommender")):
    """A conversation in which seeker and recommender take turns."""
    turns = [{"role": roles[n % 2], "text": text, "items": []} for n, text in enumerate(texts)]
    return conversations.row("t", name, place, turns, seeker=seeker, recommended=[], accepted=[], seen=[])


def mined(*rows, have=EMPTY, secret=b"key"):
    return mine.mine(conversations.frame(list(rows)), have, secret)


def test_a_conversation_in_which_nobody_asks_is_dropped():
    rows, drops = mined(talk("a", "hi"), talk("b", "  ", "Heat", place="f:2"), talk("c", place="f:3"))
    assert rows["source_id"].to_list() == ["a"]
    assert drops.select("place", "reason", "detail").rows() == [
        ("f:2", "no seeker text", "b"),
        ("f:3", "no seeker text", "c"),
    ]


def test_the_finer_of_two_stays_whatever_the_order():
    coarse, fine = talk("a", "hi there"), talk("a", "hi", "there", place="f:2")
    forth, back = mined(coarse, fine), mined(fine, coarse)
    assert texts(forth[0]) == texts(back[0]) == [["hi", "there"]]
    assert forth[1].equals(back[1])
    assert forth[1].select("place", "reason").rows() == [("f:1", "same id")]


def test_the_very_same_row_twice_is_one_conversation_and_one_drop():
    # also where two files have one name, so that both rows stand at the same place
    rows, drops = mined(talk("a", "hi"), talk("a", "hi"))
    assert (rows.height, drops.height) == (1, 1)


def test_across_runs_the_finer_is_a_revision_and_the_coarser_is_dropped():
    coarse, fine = talk("a", "hi  there"), talk("a", "hi", "there")
    first, _ = mined(coarse)
    second, drops = mined(fine, have=first)
    assert (second.height, drops.height) == (1, 0)
    first_fine, _ = mined(fine)
    rows, drops = mined(coarse, have=first_fine)
    assert (rows.height, drops["reason"].to_list()) == (0, ["same id"])
    # an older revision that comes again is in the table already: nothing to drop, nothing to add
    rows, drops = mined(coarse, have=pl.concat([first, second]))
    assert (rows["digest"].to_list(), drops.height) == ([coarse["digest"]], 0)


def test_a_changed_text_is_a_revision_even_with_fewer_turns():
    had, _ = mined(talk("a", "hi", "Heat", "thanks"))
    rows, drops = mined(talk("a", "hello", "Heat"), have=had)
    assert (rows.height, drops.height) == (1, 0)


def test_pseudonyms_are_keyed_and_stable():
    rows, _ = mined(talk("a", "x"), talk("b", "x", seeker="bo"), talk("c", "x"), talk("d", "x", seeker=None))
    by = dict(rows.select("source_id", "seeker").rows())
    assert by["a"] == by["c"] != by["b"]
    assert by["d"] is None
    assert not {"ann", "bo"} & set(by.values())
    other, _ = mined(talk("a", "x"), secret=b"another key")
    assert other["seeker"][0] != by["a"]


# ---- the command


# ---- wishes to be taken out


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


@pytest.mark.parametrize("who", ["U/Some_Body", "/u/some_body/", "user/Some_Body", "@some_body", " some_body "])
def test_a_wish_is_honoured_however_the_author_is_written(tmp_path, who):
    wishes = wished(tmp_path, f"reddit,,{who}")
    assert "some_body" in wishes.of(wishes.authors, "reddit")


def test_blanks_around_an_id_keep_nobody_in(tmp_path):
    """A cell of removals.csv has none, so neither may what it is compared with."""
    read = conversations.frame([talk(" a1 ", "hi"), talk("b", "hi", place="f:2")])
    kept, drops = removals.without(read, wished(tmp_path, ",a1,"))
    assert (kept["source_id"].to_list(), drops["reason"].to_list()) == (["b"], [removals.REMOVED])
    rows, _ = mine.mine(read, EMPTY, b"key" * 11)
    gone = removals.gone(tmp_path / "removals.csv", rows, tables.ORIGINS.empty, b"key" * 11)
    assert gone.to_list() == rows.filter(source_id=" a1 ")["conversation"].to_list()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("redit,,Some_Body", "removals.csv:2: no source is called 'redit': expected one of ccpe, hf"),
        ("reddit,,Zoë", "removals.csv: cannot be read"),  # as Excel saves it
        (f'reddit,,"{"a" * 2_000_000}"', "removals.csv: cannot be read"),
        ("messages,,Smith, Ann", "removals.csv:2: expected as many cells as the header has"),
        ('reddit,"t3_a,\nreddit,t3_b,', "removals.csv: cannot be read"),  # a quote that nobody closes took the rest
        ('reddit,"t3_a,\nreddit,t3_b",', "removals.csv:3: expected as many cells"),
    ],
)
def test_a_wish_that_would_be_passed_by_is_one_line(tmp_path, row, told):
    with pytest.raises(UsageError) as fault:
        wished(tmp_path, row)
    assert told in str(fault.value)


def test_wishes_know_every_source_of_the_command(tmp_path):
    for source in conversations.Source:
        assert wished(tmp_path, f"{source},a,").wishes[0].source == source
