"""A workspace of an older schema opens in a newer program with all of its rows, even after kills on the way."""

import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import polars as pl
import pytest
import sqlalchemy as sa

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import migrations, tables, workspace as store
from saferec_builder.storage.migrations import Step

# two later schemas: 2 adds a weight to gold and a language to drops; 3 adds told_by to drops
DB = replace(tables.GOLD, columns=tables.GOLD.columns | {"weight": (pl.Float64, "how much it counts")})
LATER = {"language": (pl.String, "of the text"), "told_by": (pl.String, "who said so")}
BULK = replace(tables.DROPS, columns=tables.DROPS.columns | LATER)


def weigh(db: sa.Connection) -> None:
    db.exec_driver_sql("ALTER TABLE gold ADD COLUMN weight DOUBLE PRECISION")
    db.exec_driver_sql("UPDATE gold SET weight = 0.5")


def tell(frame: pl.DataFrame) -> pl.DataFrame:
    """A rule that reads another column: rows dropped by mining were English, the language of the rest is null."""
    return frame.with_columns(language=pl.when(pl.col("stage") == "mine").then(pl.lit("en")))


STEPS = [
    Step("gold has a weight", weigh, {"drops": tell}),
    Step("drops say who told their language", None, {"drops": lambda f: f.with_columns(told_by=pl.lit("rule"))}),
]


def gold(*numbers: int) -> pl.DataFrame:
    rows = [("sensitivity", f"c{n}", ["gore"] if n % 2 else []) for n in numbers]
    return tables.GOLD.frame(rows)


def drops(*numbers: int) -> pl.DataFrame:
    rows = [("mine" if n % 2 else "propose", "messages", f"f:{n}", "empty", "") for n in numbers]
    return tables.DROPS.frame(rows)


@pytest.fixture
def old(either: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> store.Workspace:
    """A workspace that was filled at the first schema, on each database."""
    monkeypatch.setattr(migrations, "STEPS", [])
    fill(either)
    return either


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "STEPS", STEPS)


def fill(ws: store.Workspace) -> None:
    store.append(ws, tables.GOLD, gold(*range(50)))
    for first in range(0, 30, 10):
        store.append(ws, tables.DROPS, drops(*range(first, first + 10)))


def expected(numbers: range) -> pl.DataFrame:
    return tell(drops(*numbers)).with_columns(told_by=pl.lit("rule"))


def test_an_old_workspace_keeps_every_row(old: store.Workspace, newer: None) -> None:
    assert store.schemas(old) == {1, 3}  # its shards are unchanged, the database is up to date
    weighted = store.read(old, DB)
    assert weighted.drop("weight").equals(gold(*range(50))) and weighted["weight"].to_list() == [0.5] * 50
    assert store.read(old, BULK).equals(expected(range(30)))
    assert store.read(old, tables.REVIEWS).is_empty()  # a table that did not exist yet
    columns = pl.concat(store.parts(old, replace(BULK, columns=BULK.columns), "told_by"))
    assert columns.columns == [*tables.DROPS.key, "told_by"]


def test_a_row_that_is_there_is_not_added_again(old: store.Workspace, newer: None) -> None:
    rows = gold(49, 50).with_columns(weight=pl.lit(1.0))
    assert store.append(old, DB, rows) == 1  # c49 keeps the weight that the step gave it
    assert store.read(old, DB)["weight"].to_list() == [0.5] * 50 + [1.0]
    assert store.append(old, BULK, expected(range(29, 31))) == 1
    assert store.read(old, BULK).equals(expected(range(31)))


def test_shards_are_written_anew_by_the_next_append(old: store.Workspace, newer: None) -> None:
    folder = old.root / "tables" / "drops"
    assert store.append(old, BULK, expected(range(30, 31))) == 1
    assert store.schemas(old) == {3}
    assert len([*folder.glob("*.s3.parquet")]) == 3 and len([*folder.glob("*.parquet")]) == 3 + 3 + 1
    assert store.append(old, BULK, expected(range(31, 32))) == 1  # the replaced shards are deleted now
    assert len([*folder.glob("*.s3.parquet")]) == 3 and len([*folder.glob("*.parquet")]) == 3 + 1 + 1
    assert store.read(old, BULK).equals(expected(range(32)))


def test_a_shard_of_both_schemas_counts_once(old: store.Workspace, newer: None) -> None:
    """Killed after the new manifest was written, before the next append deleted the old one."""
    folder = old.root / "tables" / "drops"
    contents = {path.name: path.read_bytes() for path in folder.glob("*")}
    store.append(old, BULK, expected(range(30, 31)))
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    assert store.read(old, BULK).equals(expected(range(31)))
    # and killed before it: the new shard has no manifest yet
    next(folder.glob("*.s3.json")).unlink()
    assert store.read(old, BULK).sort("place").equals(expected(range(31)).sort("place"))
    assert store.append(old, BULK, expected(range(31, 32))) == 1
    assert store.read(old, BULK).sort("place").equals(expected(range(32)).sort("place"))


def test_the_database_is_copied_before_anything_changes(old: store.Workspace, newer: None) -> None:
    store.read(old, DB)
    copied = f"sqlite:///{old.root / 'workspace.db.schema-1.bak'}"
    url, copy = (old.config.store.url, "gold_schema_1") if old.config.store.url else (copied, "gold")
    engine = sa.create_engine(url)
    with engine.connect() as db:
        assert db.execute(sa.text(f"SELECT COUNT(*) FROM {copy}")).scalar() == 50
        assert "weight" not in {column["name"] for column in sa.inspect(db).get_columns(copy)}
    engine.dispose()


def test_a_step_of_bulk_tables_alone_copies_no_database(old: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "STEPS", STEPS[1:])
    assert store.read(old, tables.GOLD).equals(gold(*range(50))) and store.schemas(old) == {1, 2}
    assert not [*old.root.glob("*.bak")]


def test_each_step_is_made_once(old: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def first(db: sa.Connection) -> None:
        calls.append("first")
        weigh(db)

    monkeypatch.setattr(migrations, "STEPS", [Step("one", first)])
    store.read(old, DB)
    store.read(old, DB)
    monkeypatch.setattr(migrations, "STEPS", [Step("one", first), Step("two", lambda _: calls.append("second"))])
    store.read(old, DB)
    assert calls == ["first", "second"]


def test_a_step_that_fails_leaves_the_database_as_it_was(old: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(db: sa.Connection) -> None:
        weigh(db)
        raise ZeroDivisionError

    monkeypatch.setattr(migrations, "STEPS", [Step("one", fails)])
    with pytest.raises(ZeroDivisionError):
        store.read(old, DB)
    monkeypatch.setattr(migrations, "STEPS", [])
    assert store.read(old, tables.GOLD).equals(gold(*range(50)))  # SQLite rolls back a new column, too


def test_a_new_workspace_has_the_newest_schema_and_no_copy(workspace: store.Workspace, newer: None) -> None:
    rows = gold(1).with_columns(weight=pl.lit(2.0))
    assert store.append(workspace, DB, rows) == 1 and store.schemas(workspace) == {3}
    assert not [*workspace.root.glob("*.bak")]


def test_a_workspace_of_a_newer_program_is_refused(old: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "STEPS", STEPS)
    store.append(old, DB, gold(60).with_columns(weight=pl.lit(2.0)))
    store.append(old, BULK, expected(range(60, 61)))
    monkeypatch.setattr(migrations, "STEPS", [])
    for table in (tables.GOLD, tables.DROPS):
        with pytest.raises(StoreError, match=r"schema 3, this program reads 1 to 1: update it") as fault:
            store.read(old, table)
        assert "\n" not in str(fault.value)


KILLS = 25 if os.environ.get("SAFEREC_SOAK") else 8
KILLED = """
import sys, time
from pathlib import Path
from saferec_builder.storage import migrations, workspace as store
from tests.storage import test_migrations as t

def slow(db):
    t.weigh(db)
    for n in range(40):  # so that a kill may hit it anywhere
        db.exec_driver_sql("UPDATE gold SET weight = 0.1 * %d" % n)
        time.sleep(.002)
    db.exec_driver_sql("UPDATE gold SET weight = 0.5")

migrations.STEPS = [migrations.Step("slow", slow, t.STEPS[0].bulk), t.STEPS[1]]
ws = store.Workspace.open(Path(sys.argv[1]))
print("go", flush=True)
store.read(ws, t.DB)
store.append(ws, t.BULK, t.expected(range(30, 31)))
"""


@pytest.mark.slow
def test_whoever_is_killed_during_a_migration_finishes_on_the_next_start(
    workspace, tmp_path, injected, monkeypatch
) -> None:
    monkeypatch.setattr(migrations, "STEPS", [])
    fill(workspace)
    rng, kills, tries = random.Random(4), 0, itertools.count()
    while kills < KILLS:  # a fast machine may finish before the kill
        n = next(tries)
        assert n < 3 * KILLS
        root = tmp_path / f"w{n}"
        shutil.copytree(workspace.root, root)
        with subprocess.Popen([sys.executable, "-c", KILLED, root], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None and run.stdout.readline() == "go\n"
            time.sleep(rng.uniform(0, 0.35))
            run.kill()
        kills += run.returncode != 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migrations, "STEPS", STEPS)
            ws = store.Workspace.open(root)
            store.read(ws, DB)
            store.append(ws, BULK, expected(range(30, 31)))
        with closing(sqlite3.connect(root / "workspace.db")) as db:
            rows = db.execute("SELECT subject, weight FROM gold ORDER BY row_").fetchall()
            steps = db.execute("SELECT number FROM schema_ ORDER BY number").fetchall()
        assert rows == [(f"c{n}", 0.5) for n in range(50)] and steps == [(2,), (3,)]
        with closing(sqlite3.connect(root / "workspace.db.schema-1.bak")) as db:
            assert db.execute("SELECT COUNT(*) FROM gold").fetchone() == (50,)
            assert "weight" not in {row[1] for row in db.execute("PRAGMA table_info(gold)")}
        manifests = [*(root / "tables" / "drops").glob("*.s3.json")]
        assert len(manifests) == 3 and {json.loads(m.read_text())["schema"] for m in manifests} == {3}
        assert not [*root.rglob("*.tmp")]
    injected("kills during a migration", kills)
