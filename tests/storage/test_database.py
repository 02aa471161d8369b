"""Tables in a database: made once, and every problem is one line."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import database, migrations, tables, workspace as store
from tests.conftest import Patch
from tests.worlds.any_rows import rows


def test_processes_that_open_a_database_first_all_find_their_table(either: store.Workspace) -> None:
    barrier = Barrier(8)  # threads suffice: each has its own connection, and the race is in the database

    def add(n: int) -> int:
        barrier.wait()
        return store.append(either, tables.REPLIES, rows(tables.REPLIES, n))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(add, range(8))) == [1] * 8
    assert store.read(either, tables.REPLIES).height == 8


def test_a_zero_byte_in_a_note_stops_no_pull(either: store.Workspace) -> None:
    """PostgreSQL refused it, and with it every answer that was pulled together with that note, again and again."""
    review = rows(tables.REVIEWS, 1).with_columns(note=pl.lit("see\0above"))
    assert [store.append(either, tables.REVIEWS, review) for _ in range(2)] == [1, 0]
    assert store.read(either, tables.REVIEWS)["note"].to_list() == ["see\ufffdabove"]


def test_a_database_that_is_none_is_one_line(workspace: store.Workspace) -> None:
    (workspace.root / "workspace.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="not a database: put your copy of workspace.db back"):
        store.read(workspace, tables.REVIEWS)


@pytest.mark.parametrize(("column", "held"), [("spans", "[{"), ("time", "yesterday"), ("seconds", "long")])
def test_a_value_that_was_never_written_is_one_line(workspace: store.Workspace, column: str, held: str) -> None:
    store.append(workspace, tables.REVIEWS, rows(tables.REVIEWS, 1))
    with closing(sqlite3.connect(workspace.root / "workspace.db")) as db, db:
        db.execute(f"UPDATE reviews SET {column} = ?", (held,))
    with pytest.raises(StoreError, match="table reviews of the database holds what was never written"):
        store.read(workspace, tables.REVIEWS)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql+pg8000://ann:hush@db/name?password=hush", "the driver pg8000 is not installed: pip install"),
        ("mysql://ann:hush@db/name", "store.url names mysql: expected an address such as postgresql"),
        ("somewhere", "no database address"),
    ],
)
def test_a_database_that_cannot_be_spoken_to_is_one_line(workspace: store.Workspace, url: str, told: str) -> None:
    (workspace.root / "saferec.toml").write_text(f'[store]\nurl = "{url}"')
    with pytest.raises(StoreError, match=told) as fault:
        store.read(store.Workspace.open(workspace.root), tables.REVIEWS)
    assert "hush" not in str(fault.value)


def test_the_newest_row_moves_with_every_append_and_with_nothing_else(either: store.Workspace) -> None:
    watched = (tables.REPLIES, tables.REVIEWS)
    # no table exists yet
    assert database.last_rows(either.database, *watched) == {"replies": [0, 0], "reviews": [0, 0]}
    for n in range(2):
        before = database.last_rows(either.database, *watched)
        store.append(either, tables.REPLIES, rows(tables.REPLIES, n))
        store.read(either, tables.REVIEWS)
        after = database.last_rows(either.database, *watched)
        assert after["replies"] > before["replies"] and after["reviews"] == [0, 0]


def test_a_row_that_comes_or_goes_below_the_newest_is_seen(workspace: store.Workspace) -> None:
    """If two processes append to a server's database at once, the smaller row numbers may come later."""
    store.append(workspace, tables.REPLIES, rows(tables.REPLIES, 1, 2))
    before = database.last_rows(workspace.database, tables.REPLIES)
    with closing(sqlite3.connect(workspace.root / "workspace.db")) as file, file:
        file.execute("DELETE FROM replies WHERE row_ = 1")
    assert database.last_rows(workspace.database, tables.REPLIES) != before


def test_bytes_that_a_reader_keeps_in_the_file_are_told(workspace: store.Workspace, monkeypatch: Patch) -> None:
    """The checkpoint only reports that it was busy: `forget` reported success, and the words were still there."""
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    database._engine.cache_clear()
    path = workspace.root / "workspace.db"
    row = rows(tables.REPLIES, 1).with_columns(body=pl.lit("quetzalwing " * 9))
    store.append(workspace, tables.REPLIES, row)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM replies").fetchall()
        database.erase(workspace.database, [(tables.REPLIES, row.select("request"))], [])
        with pytest.raises(StoreError, match=r"workspace\.db: another program has it open.* run the command again"):
            database.scrub(workspace.database)
        assert b"quetzalwing" in path.read_bytes()
    database.scrub(workspace.database)
    assert b"quetzalwing" not in path.read_bytes()
    database._engine.cache_clear()


@pytest.mark.parametrize("url", ["", '[store]\nurl = "sqlite:///own.db"\n'])
def test_a_folder_named_from_where_one_is_has_its_own_database(tmp_path: Path, monkeypatch: Patch, url: str) -> None:
    """A notebook changes its folder, so `.` becomes another workspace."""
    for n, name in enumerate(("one", "two")):
        store.make(tmp_path / name, demo=False)
        (tmp_path / name / "saferec.toml").write_text(url)
        monkeypatch.chdir(tmp_path / name)
        store.append(store.Workspace.open("."), tables.SPEND, rows(tables.SPEND, n))
    for n, name in enumerate(("one", "two")):
        monkeypatch.chdir(tmp_path / name)
        assert store.read(store.Workspace.open("."), tables.SPEND).equals(rows(tables.SPEND, n))


def test_rows_are_replaced_and_erased_by_their_values(either: store.Workspace) -> None:
    place, table = either.database, tables.REPLIES
    first, other = rows(table, *range(900)), rows(table, 1, 900).with_columns(body=pl.lit("another"))
    database.append(place, table, first)
    database.replace(place, [(table, other)])  # there is no row 900
    expected = pl.concat([first[:1], other[:1], first[2:]])
    assert database.read(place, table).equals(expected)
    gone, spent = first[50:].select(table.key), rows(tables.SPEND, 1)  # 850 in slices of 400, 400 and 50
    for dry in (True, False):
        removed = [(table, gone), (tables.SPEND, spent.select(tables.SPEND.key))]
        counts = database.erase(place, removed, [(tables.REVIEWS, rows(tables.REVIEWS, 1))], dry=dry)
        assert counts == {"replies": 850, "spend": 0}
        assert database.read(place, table).equals(expected if dry else expected[:50])
        assert database.read(place, tables.REVIEWS).height == (not dry)
    assert database.last_rows(place, table) == {"replies": [50, 50]}


def test_single_rows_are_found_by_their_key(either: store.Workspace) -> None:
    row, later = rows(tables.REPLIES, 1), rows(tables.REPLIES, 1).with_columns(body=pl.lit("later"))
    with database.keyed(either.database, tables.REPLIES) as replies:
        assert replies.get(row["request"][0]) is None
        for frame in (row, later):
            replies.add(frame.row(0, named=True))
        stored = replies.get(row["request"][0])
        assert stored is not None and stored.body == row["body"][0]
        assert database.read(either.database, tables.REPLIES).equals(row)  # each is there at once


def test_what_no_other_table_names_and_the_largest_number(either: store.Workspace) -> None:
    place = either.database
    assert database.orphans(place, tables.REQUESTS, tables.REPLIES, "request") == []
    assert database.largest(place, tables.SPEND, "requests") == 0
    for table, numbers in ((tables.REQUESTS, (1, 2, 3)), (tables.REPLIES, (2,)), (tables.SPEND, (4, 6, 5))):
        assert database.append(place, table, rows(table, *numbers)) == len(numbers)
    names = rows(tables.REQUESTS, 1, 3)["request"].to_list()
    assert sorted(database.orphans(place, tables.REQUESTS, tables.REPLIES, "request")) == names
    spent = rows(tables.SPEND, 4, 5, 6)
    assert database.largest(place, tables.SPEND, "requests") == spent["requests"].max()
    assert database.largest(place, tables.SPEND, "requests", model=spent["model"][0]) == spent["requests"][0]
    assert database.schema(place) == migrations.newest()
