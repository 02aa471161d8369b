"""Five people work at once, each in a separate process: no row is lost and none is stored twice.

On SQLite, the default, and on a real PostgreSQL given by `[store] url`.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests import ROOT
from tests.conftest import Injected
from tests.servers.fixtures import empty
from tests.worlds import calm as world, release_world, review_world
from tests.worlds.csv_rows import as_proposed, edit
from tests.worlds.once import command
from tests.worlds.settings import add_settings

pytestmark = pytest.mark.slow

PEOPLE = ("ann", "bo", "cem", "dee", "eve")
ROUNDS = 5 if world.SOAK else 1
UNIT = ("kind", "subject", "trait")
Database = Callable[[Path], store.Workspace]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """Returns a function that makes a workspace with its small tables in an empty database of this kind."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres")

    def workspace(folder: Path) -> store.Workspace:
        ws = store.Workspace.create(folder)
        if url:
            empty(url)
            add_settings(folder, "store", f'url = "{url}"')
            ws = store.Workspace.open(folder)
        return ws

    return workspace


def pushed(ws: store.Workspace) -> list[Path]:
    """Returns the answered files of five people, each with different errors."""
    rows, _ = release_world.requests(60)
    release_world.fill(ws, rows, [])
    (ws.root / ".secret").write_bytes(b"the same for all: the draw hangs on it")
    options = ["-C", str(ws.root)]
    command("propose", *options)
    people = [word for name in PEOPLE for word in ("--reviewer", name)]
    command("review", "push", "--tool", "files", *people, "--all", *options)
    files = [ws.root / "review" / f"{name}.csv" for name in PEOPLE]
    for path in files:
        edit(path, as_proposed)
        rng = random.Random(path.name)
        text = path.read_text(encoding="utf-8-sig")
        flipped = [line.replace('"present"', '"unsure"') if rng.random() < 0.2 else line for line in text.split("\n")]
        path.write_text("\n".join(flipped), encoding="utf-8-sig")
    return files


def commands(ws: store.Workspace, path: Path) -> list[list[str]]:
    """Returns the commands of one person: pull their file, then adjudicate."""
    options = ["-C", str(ws.root)]
    return [["review", "pull", "--tool", "files", str(path), *options], ["adjudicate", *options]]


def verdicts(ws: store.Workspace) -> pl.DataFrame:
    """Returns the last label of each unit without its id, as ids depend on the order of the processes."""
    labels = tables.last(store.read(ws, tables.LABELS), *UNIT).drop("label")
    return labels.with_columns(pl.col("reviews").list.sort()).sort(UNIT)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> store.Workspace:
    """A workspace after the five people worked one after the other."""
    ws = store.Workspace.create(tmp_path_factory.mktemp("calm") / "ws")
    for path in pushed(ws):
        for words in commands(ws, path):
            command(*words)
    return ws


def test_five_pull_and_adjudicate_at_once(
    database: Database, calm: store.Workspace, tmp_path: Path, injected: Injected
) -> None:
    expected = store.read(calm, tables.REVIEWS).sort("review")
    assert expected["reviewer"].n_unique() == len(PEOPLE) and expected.height >= 60

    for n in range(ROUNDS):
        ws = database(tmp_path / f"team-{n}")
        files = pushed(ws)
        with ThreadPoolExecutor(len(files)) as pool:
            ended = list(pool.map(lambda path, ws=ws: [world.run(words) for words in commands(ws, path)], files))
        assert [result for results in ended for result in results if result.code] == []
        reviews, labels = store.read(ws, tables.REVIEWS), store.read(ws, tables.LABELS)
        assert reviews.sort("review").equals(expected)
        assert labels["label"].is_unique().all()
        assert verdicts(ws).equals(verdicts(calm))  # the last adjudication saw what everybody pulled
        assert "(0 added" in world.run(["adjudicate", "-C", str(ws.root)]).out
    injected("processes at once on one database", ROUNDS * len(PEOPLE) * 2)


def test_a_note_with_a_character_that_no_database_keeps(database: Database, tmp_path: Path) -> None:
    ws = database(tmp_path / "ws")
    review_world.fill(ws)
    options, file = ["--tool", "files", "-C", str(ws.root)], ws.root / "review" / "ann.csv"
    command("review", "push", "--reviewer", "ann", "--reviewer", "bo", *options)
    edit(file, lambda row: as_proposed(row) | {"note": "why\0not"})
    for _ in "ab":  # a second pull finds the same answers
        command("review", "pull", str(file), *options)
        reviews = store.read(ws, tables.REVIEWS)
        assert reviews.height == 4 and set(reviews["note"]) == {"why\ufffdnot"}


APPENDS = """
import sys
import polars as pl
from pathlib import Path
from saferec_builder.storage import tables, workspace as store
from tests.worlds.any_rows import rows
ws, first = store.Workspace.open(Path(sys.argv[1])), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(*(store.append(ws, t, rows(t, *range(n, n + 20))) for t in (tables.DROPS, tables.REPLIES)
        for n in range(first, first + 100, 10)))
"""


def test_five_append_the_same_rows_at_once(database: Database, tmp_path: Path, injected: Injected) -> None:
    """Each adds rows n .. n+110 in pieces that overlap with each other and with those of the others."""
    ws = database(tmp_path / "ws")
    words = [sys.executable, "-c", APPENDS, str(ws.root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen([*words, str(50 * n)], **pipes) for n in range(5)]
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    # the first starts before the last gets its line
    outputs = [process.communicate("go\n", timeout=300)[0] for process in processes]
    added = sum(int(word) for output in outputs for word in output.split())
    for table in (tables.DROPS, tables.REPLIES):
        rows = store.read(ws, table)
        assert rows.height == 4 * 50 + 110 and rows.unique(list(table.key)).height == rows.height
    assert added == 2 * (4 * 50 + 110)  # every process counted only its own rows
    injected("processes at once on one database", 5)
