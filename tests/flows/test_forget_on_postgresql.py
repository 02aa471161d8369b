"""`forget` with the small tables in a real PostgreSQL: no byte in the files of its tables names the person."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds import release_world as world

WORDS = "quetzalwing"


@pytest.mark.slow
def test_no_heap_names_them_after_it_and_the_log_is_named(postgres: str, tmp_path: Path, cli: Cli) -> None:
    ws = store.Workspace.create(tmp_path / "ws")
    (ws.root / "saferec.toml").write_text(f'[store]\nurl = "{postgres}"\n')
    ws = store.Workspace.open(ws.root)
    rows, labels = world.requests(12)
    world.fill(ws, rows, labels)
    reviews = [world.review(row, note=notes(row["conversation"])) for row in rows]
    store.append(ws, tables.REVIEWS, world.reviews(*reviews))
    reply = {"request": "r7", "model": "m", "body": notes("reply"), "tokens_in": 1, "tokens_out": 1}
    store.append(ws, tables.REPLIES, tables.REPLIES.frame([reply]))
    words = [*notes("c007").split(), *notes("reply").split()]
    assert len(words) == 40
    assert {*words} == held(postgres, *words)
    run = cli("forget", "c007", "-C", ws.root, "--json")
    assert run.code == 0 and "(WAL) of PostgreSQL" in str(run.json)
    assert held(postgres, *words) == set() and held(postgres, notes("c008"))
    assert store.read(ws, tables.REVIEWS).height == 11 and store.read(ws, tables.FORGOTTEN).height > 0


def notes(name: str) -> str:
    return " ".join(f"{WORDS}-{name}-{n:02}" for n in range(20))


def held(url: str, *words: str) -> set[str]:
    """Returns the words that occur in the files of the tables, after the server has written them to disk."""
    engine = sa.create_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.execute(sa.text("CHECKPOINT"))
        folder = Path(db.execute(sa.text("SHOW data_directory")).scalar_one())
    engine.dispose()
    files = [path.read_bytes() for path in (folder / "base").rglob("*") if path.is_file()]
    return {word for word in words if any(word.encode() in file for file in files)}
