"""`saferec-build propose` with a model: what it reads once, keeps and counts, and never sends without consent.

The model is the stub of servers/llm_stub.py, which answers as each test needs; a real one in servers/test_propose.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from saferec_builder.proposing import runner
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.llm_stub import Stub, says, status
from tests.worlds.batched import Killed
from tests.worlds.model_replies import Cli, answer, claim, fill, options, own_taxonomy, speaks


@pytest.fixture
def ask(cli: Cli, workspace: store.Workspace, stub: Stub) -> Callable[..., Ran]:
    fill(workspace, *TEXTS)
    stub.usual = speaks
    common = ("-C", workspace.root, "--proposer", "openai", "--model", "m", "--base-url", stub.url)
    return lambda *words: cli("propose", *common, *words)


TEXTS = ("no blood for me please", "something funny", "blood makes me faint")


def contents(ws: store.Workspace) -> dict[str, pl.DataFrame]:
    kinds = (tables.PROPOSALS, tables.READINGS, tables.REPLIES)
    return {t.name: store.read(ws, t).sort(t.key) for t in kinds}


@pytest.mark.slow
def test_what_was_read_is_not_read_again(ask: Any, cli: Cli, workspace: store.Workspace, stub: Stub) -> None:
    first = ask("--json").json
    assert (first["in"], first["added"], first["skipped"], first["dropped"]) == (3, 3, 0, {})
    assert (first["requests"], first["proposals"], first["tokens_in"]) == (3, 2, 21)  # 7 tokens each
    proposals = store.read(workspace, tables.PROPOSALS)
    assert sorted(proposals["subject"]) == ["c0", "c2"] and proposals["proposer"].unique().to_list() == ["m"]
    requests, stored = len(stub.asked), contents(workspace)
    rerun = ask("--json").json
    assert (rerun["in"], rerun["added"], rerun["skipped"]) == (3, 0, 3)
    assert len(stub.asked) == requests and all(f.equals(stored[n]) for n, f in contents(workspace).items())
    by_rules = cli("propose", "-C", workspace.root, "--json").json
    figures = [run.get("proposals_before") for run in (first, rerun, by_rules)]
    assert figures == [None, 2, None]  # "proposals: 0" alone looked like none at all; other proposers' do not count


def test_a_failure_is_a_row_and_is_tried_again_where_somebody_asks(
    ask: Any, workspace: store.Workspace, stub: Stub
) -> None:
    fill(workspace, *TEXTS, " ")
    stub.usual = lambda h: (says("no idea") if "funny" in h.text else speaks)(h)
    result = ask("--json", "--limit", "4").json
    assert (result["in"], result["added"], result["dropped"]) == (4, 2, {"off schema": 1, "nothing to read": 1})
    assert result["examples"] == {"off schema": "c1: answer: Expecting value: line 1 column 1 (char 0)"}
    drops = store.read(workspace, tables.DROPS).sort("place")
    assert drops["place"].to_list() == ["c1", "c3"] and "no idea" in drops["detail"][0]
    stub.usual = speaks
    result = ask("--json", "--retry-failed").json
    assert (result["added"], result["skipped"], result["dropped"]) == (1, 2, {"nothing to read": 1})


def test_what_failed_was_not_paid_for(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """A repeated text counted as already paid for."""
    options(workspace, "retries = 0")
    fill(workspace, *["no blood for me please"] * 3)
    stub.usual = status(500)
    result = ask("--json").json
    assert (result["requests"], result["already_paid"], result["dropped"]) == (1, 0, {"server error": 3})


def test_a_kill_between_two_tables_doubles_nothing(ask: Any, workspace, stub: Stub, monkeypatch) -> None:
    fill(workspace, *TEXTS, *(f"blood {n}" for n in range(5)))  # four chunks of two, which may finish in any order
    monkeypatch.setattr(runner, "CHUNK", 2)
    append, calls = store.append, []

    def dying(ws: store.Workspace, table: tables.Table, frame: pl.DataFrame, **held: Any) -> int:
        calls.append(table.name)
        if calls.count("readings") == 2:  # in the second chunk, after its proposals
            raise Killed
        return append(ws, table, frame, **held)

    monkeypatch.setattr(store, "append", dying)
    with pytest.raises(Killed):
        ask()
    monkeypatch.setattr(store, "append", append)
    assert store.read(workspace, tables.READINGS).height == 2
    paid = store.read(workspace, tables.REPLIES).height
    result = ask("--json").json
    assert (result["in"], result["added"], result["skipped"]) == (8, 6, 2)
    proposals = store.read(workspace, tables.PROPOSALS)
    assert proposals.height == proposals["proposal"].n_unique() == 7  # every text but "something funny"
    # only the requests in flight at the kill are repeated
    assert result["requests"] == 8 - paid and paid >= 4


# ---- consent

REMOTE = ("--proposer", "openai", "--model", "m", "--base-url", "http://a.invalid/v1")


def test_text_leaves_this_machine_only_with_consent(cli: Cli, workspace: store.Workspace) -> None:
    fill(workspace, *TEXTS)
    result = cli("propose", "-C", workspace.root, *REMOTE)
    assert result.code == 1 and result.err.count("\n") == 1 and result.out == ""
    for part in ("a.invalid", "3 conversations", "role and text of each turn", "--allow-remote"):
        assert part in result.err


def test_a_remote_host_without_a_key_is_not_asked(cli: Cli, workspace: store.Workspace, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fill(workspace, *TEXTS)
    result = cli("propose", "-C", workspace.root, "--proposer", "openai", "--model", "m", "--allow-remote")
    assert result.code == 1 and "OPENAI_API_KEY" in result.err and "api.openai.com" in result.err
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text() + '[propose.models.mine]\nkey_env = "MY_KEY"\n')
    result = cli("propose", "-C", workspace.root, "--proposer", "openai:mine", "--allow-remote")
    assert result.code == 1 and "MY_KEY" in result.err and "[propose.models.mine]" in result.err
    for allowed in ((), ("--allow-remote",)):  # a misspelt section would be a model of OpenAI
        result = cli("propose", "-C", workspace.root, "--proposer", "openai:mines", *allowed)
        assert result.code == 1 and "did you mean openai:mine?" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--proposer", "rules,rules"), "stands twice"),
        (("--proposer", "rules,openai:a", "--model", "b"), "name models as in"),
        (("--proposer", "openai"), "which model?"),
        (("--proposer", "openai", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"), "no server answers there"),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, workspace: store.Workspace, words: Any, said: str) -> None:
    fill(workspace, *TEXTS)
    (workspace.root / "saferec.toml").write_text("[propose]\nretries = 0\n")
    result = cli("propose", "-C", workspace.root, *words)
    assert result.code == 1 and said in result.err and result.err.count("\n") == 1


# ---- items


def test_items_are_flagged_where_nobody_knows(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    plots = {"a": "A dog dies in the snow.", "b": "A ship sails.", "c": None}
    film = {"source": "csv", "domain": "film", "title": "A film", "refs": [], "aliases": [], "genres": []}
    rows = [film | {"source_id": name, "year": 2000 + n, "plot": plots[name]} for n, name in enumerate(plots)]
    store.append(workspace, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame(rows))
    stub.usual = says(answer(claim("animal_harm", "A dog dies")))
    result = ask("--items", "--json").json
    assert (result["in"], result["added"], result["dropped"]) == (3, 2, {"nothing to read": 1})
    assert (result["proposals"], result["claims_rejected"]) == (1, {"quote not found": 1})
    flag = store.read(workspace, tables.PROPOSALS).row(0, named=True)
    assert (flag["kind"], flag["spans"][0]["turn"], flag["digest"]) == ("item_flag", 0, tables.digest(plots["a"]))
    assert ask("--items", "--json").json["added"] == 0


# ---- without a model


def test_the_rules_read_once_and_need_no_network(cli: Cli, workspace: store.Workspace) -> None:
    fill(workspace, *TEXTS, " ")
    result = cli("propose", "-C", workspace.root, "--json")
    assert result.code == 0, result.err
    summary = result.json
    assert (summary["in"], summary["added"], summary["dropped"]) == (4, 3, {"nothing to read": 1})
    readings = store.read(workspace, tables.READINGS)
    assert set(readings.select("proposer", "version").iter_rows()) == {("rules", "rules-10")}
    stored = contents(workspace)
    rerun = cli("propose", "-C", workspace.root, "--json").json
    assert (rerun["added"], rerun["skipped"]) == (0, 3)
    assert all(frame.equals(stored[name]) for name, frame in contents(workspace).items())


def test_traits_that_the_rules_have_no_words_for_are_named(cli: Cli, workspace: store.Workspace) -> None:
    """Nothing is ever proposed for a trait without cues: `proposals: 0` looked as if nobody had it."""
    fill(workspace, *TEXTS)
    command = ("propose", "-C", workspace.root, "--json")
    assert "rules_know_no_cues_of" not in cli(*command).json
    trait = '[[trait]]\nslug = "{}"\nname = "A"\ndefinition = "A."\ntopics = ["Is it"]\n'
    (workspace.root / "mine.toml").write_text('version = "1"\n' + trait.format("gambling") + trait.format("gore"))
    own_taxonomy(workspace)
    figures = cli(*command).json
    assert figures["rules_know_no_cues_of"] == ["gambling"] and "--proposer openai:MODEL" in figures["what_reads_these"]


@pytest.mark.slow
def test_what_the_rules_cannot_read_is_left_to_a_model(
    cli: Cli, workspace: store.Workspace, stub: Stub, tmp_path: Path
) -> None:
    """Their silence on German would look like "nothing found". The next model of a cascade reads it in any case."""
    talks = {"de": "Seit dem Unfall kann ich keine Krankenhausszenen mehr sehen", "en": "something funny for tonight"}
    rows = [{"id": name, "messages": [{"role": "user", "content": text}]} for name, text in talks.items()]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    common = ("-C", workspace.root, "--json")
    assert cli("mine", "messages", tmp_path / "talks.jsonl", *common).code == 0
    result = cli("propose", *common).json
    assert (result["in"], result["added"], result["dropped"]) == (2, 1, {"not in English": 1})
    options(workspace, f'base_url = "{stub.url}"\nskip_silent = true')
    stub.usual = speaks
    result = cli("propose", "--proposer", "rules,openai:m", *common).json
    assert result["m"]["added"] == 1  # the rules read the English one and found nothing
