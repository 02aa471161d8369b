"""Several processes give the tables of one."""

from pathlib import Path
from typing import Any

import pytest

from saferec_builder.proposing import workers as shards
from saferec_builder.storage import parallel as engine, tables, workspace as store
from saferec_builder.storage.workspace import make
from tests.conftest import Ran
from tests.servers.llm_stub import SEA, Handler, Stub, completion, probe, status
from tests.worlds.model_replies import Cli, answer, claim, fill, options, speaks


@pytest.mark.slow
def test_two_processes_give_the_tables_of_one(cli: Cli, workspace, tmp_path: Path, stub: Stub, monkeypatch) -> None:
    monkeypatch.setattr(shards.How, "__init__", lambda self, engine: _how(self, engine))
    stub.usual = speaks_plainly
    texts = [f"text {n}, {'no blood please' if n % 2 else 'funny'}" for n in range(25)] + [" "]
    make(tmp_path / "other [2]", demo=False)
    one, other = workspace, store.Workspace.open(tmp_path / "other [2]")
    for ws, words in ((one, ()), (other, ("--workers", 2))):
        options(ws, f'base_url = "{stub.url}"')
        fill(ws, *texts)
        for proposer in ("rules", "openai:m"):
            ran = cli("propose", "-C", ws.root, "--proposer", proposer, "--json", *words)
            assert ran.code == 0, ran.err
            assert (ran.json["added"], ran.json["dropped"]) == (25, {"nothing to read": 1})
    for table in (tables.PROPOSALS, tables.READINGS, tables.REPLIES, tables.DROPS):
        ours, theirs = (store.read(ws, table).sort(table.key) for ws in (one, other))
        assert ours.equals(theirs), table.name
    assert not list((other.root / "shards").rglob("*.parquet"))
    assert len(list((other.root / "tables" / "readings").glob("*.json"))) == 2  # three shards of a proposer in one
    assert store.read(other, tables.SPEND)["requests"].sum() == 25
    assert cli("propose", "-C", other.root, "--proposer", "openai:m", "--workers", 2, "--json").json["added"] == 0


def _how(self: Any, engine: Any) -> None:
    object.__setattr__(self, "engine", engine)
    object.__setattr__(self, "shard", 10)


def speaks_plainly(handler: Handler) -> None:
    handler.reply(200, completion(answer(*[claim("gore", "blood")] * ("blood" in handler.text))))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "spark"), "expected local or ray"),
        (("--engine", "ray", "--ray-address", "10.0.0.1:6379"), "PostgreSQL"),
    ],
)
def test_a_cluster_needs_what_it_shares(ask: Any, words: Any, said: str) -> None:
    ran: Ran = ask("--proposer", "rules", *words)
    assert ran.code == 1 and said in ran.err


def test_a_shard_that_lacks_answers_is_not_done(blank: Any, workspace, stub: Stub, monkeypatch) -> None:
    """The server went away: the shard in which it did was kept for the next run, which asked nothing of it again."""
    monkeypatch.setattr(shards, "plan", lambda *_: shards.How(engine.How("local", 1), 2))
    options(workspace, "retries = 0")
    fill(workspace, "one", "two", "three", "four")
    stub.scripts = {SEA: [probe, status(500), probe]}  # it answers at the start of one shard, not of the other
    stub.usual = lambda h: (status(500) if "two" in h.text else speaks)(h)
    ran = blank("--proposer", "openai:small")
    assert ran.code == 1 and "server error" in ran.err
    stub.usual = speaks
    ran = blank("--proposer", "openai:small").json
    assert (ran["added"], ran["dropped"], ran["requests"], ran["already_paid"]) == (4, {}, 3, 1)
