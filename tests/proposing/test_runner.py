"""`saferec-build propose` with a model: what it reads once, keeps, counts, and never sends without a yes.

The model is the stub of servers/llm_stub.py, which answers as each story needs; a real one in servers/test_propose.py.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from saferec_builder.proposing import runner
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.llm_stub import Handler, Stub, completion, says, status
from tests.worlds.model_replies import Cli, answer, claim, fill, options, own_taxonomy


class Killed(BaseException):
    """Stands for SIGKILL at one place; tests/flows/test_kill.py sends real ones."""


def model(handler: Handler) -> None:
    """Claims `gore` for every seeker who says blood, with the word as its evidence."""
    said = re.search(r"\bblood\b", handler.text) is not None
    handler.reply(200, completion(answer(*[claim("gore", "blood")] * said)))


@pytest.fixture
def ask(cli: Cli, workspace: store.Workspace, stub: Stub) -> Callable[..., Ran]:
    fill(workspace, *TEXTS)
    stub.usual = model
    at = ("-C", workspace.root, "--proposer", "openai", "--model", "m", "--base-url", stub.url)
    return lambda *words: cli("propose", *at, *words)


TEXTS = ("no blood for me please", "something funny", "blood makes me faint")


def contents(ws: store.Workspace) -> dict[str, pl.DataFrame]:
    names = (tables.PROPOSALS, tables.READINGS, tables.REPLIES)
    return {t.name: store.read(ws, t).sort(t.key) for t in names}


def test_what_was_read_is_not_read_again(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    first = ask("--json").json
    assert (first["in"], first["added"], first["skipped"], first["dropped"]) == (3, 3, 0, {})
    assert (first["requests"], first["proposals"], first["tokens_in"]) == (3, 2, 21)  # 7 tokens each
    found = store.read(workspace, tables.PROPOSALS)
    assert sorted(found["subject"]) == ["c0", "c2"] and found["proposer"].unique().to_list() == ["m"]
    asked, before = len(stub.asked), contents(workspace)
    again = ask("--json").json
    assert (again["in"], again["added"], again["skipped"]) == (3, 0, 3)
    assert len(stub.asked) == asked and all(f.equals(before[n]) for n, f in contents(workspace).items())
    ruled = ask("--proposer", "rules", "--json").json
    told = [run.get("proposals_before") for run in (first, again, ruled)]
    assert told == [None, 2, None]  # "proposals: 0" alone read as if none stood; another's are no one else's


def test_a_changed_text_is_read_anew(ask: Any, workspace: store.Workspace) -> None:
    ask()
    fill(workspace, "more blood please")  # c0 again, another digest
    assert ask("--json").json["added"] == 1


def test_a_failure_is_a_row_and_is_tried_again_where_somebody_asks(
    ask: Any, workspace: store.Workspace, stub: Stub
) -> None:
    fill(workspace, *TEXTS, " ")
    stub.usual = lambda h: (says("no idea") if "funny" in h.text else model)(h)
    ran = ask("--json", "--limit", "4").json
    assert (ran["in"], ran["added"], ran["dropped"]) == (4, 2, {"off schema": 1, "nothing to read": 1})
    drops = store.read(workspace, tables.DROPS).sort("place")
    assert drops["place"].to_list() == ["c1", "c3"] and "no idea" in drops["detail"][0]
    stub.usual = model
    ran = ask("--json", "--retry-failed").json
    assert (ran["added"], ran["skipped"], ran["dropped"]) == (1, 2, {"nothing to read": 1})


def test_what_failed_was_not_paid_for(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """The same text again counted as paid for before."""
    options(workspace, "retries = 0")
    fill(workspace, *["no blood for me please"] * 3)
    stub.usual = status(500)
    ran = ask("--json").json
    assert (ran["requests"], ran["already_paid"], ran["dropped"]) == (1, 0, {"server error": 3})


def test_claims_without_their_quote_are_a_figure(ask: Any, stub: Stub) -> None:
    stub.usual = says(answer(claim("gore", "I hate hospitals")))
    ran = ask("--json").json
    assert (ran["proposals"], ran["claims_rejected"], ran["added"]) == (0, {"quote not found": 3}, 3)


def test_a_kill_between_two_tables_doubles_nothing(ask: Any, workspace, stub: Stub, monkeypatch) -> None:
    fill(workspace, *TEXTS, *(f"blood {n}" for n in range(5)))  # four chunks of two, which may end in any order
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
    ran = ask("--json").json
    assert (ran["in"], ran["added"], ran["skipped"]) == (8, 6, 2)
    found = store.read(workspace, tables.PROPOSALS)
    assert found.height == found["proposal"].n_unique() == 7  # every text but "something funny"
    # only what was in flight at the kill is asked again
    assert ran["requests"] == 8 - paid and paid >= 4


def test_a_limit_leaves_the_rest_for_later(ask: Any) -> None:
    one = ask("--json", "--limit", "2").json
    assert (one["in"], one["added"], one["not_read_yet"]) == (2, 2, 1)
    assert ask("--json", "--limit", "2").json["added"] == 1


def test_a_dry_run_sends_and_writes_nothing(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    fill(workspace, *TEXTS, TEXTS[0])
    before = sorted(p for p in workspace.root.rglob("*") if p.is_file())
    ran = ask("--dry-run", "--json", "--base-url", "https://models.example/v1").json  # no consent, no key: no need
    assert (ran["in"], ran["added"], ran["dropped"]) == (4, 0, {"dry run": 4})
    assert (ran["requests"], ran["already_paid"]) == (3, 1)  # the fourth text is the first again
    assert 3 * 1_500 < ran["estimated_tokens_in"] < 3 * 4_000  # about 10 kB each, at four bytes a token
    made = [p for p in workspace.root.rglob("*") if p.is_file() and p not in before]
    assert stub.asked == [] and [p.name for p in made if "workspace.db" not in p.name and p.suffix != ".lock"] == []


# ---- consent

REMOTE = ("--proposer", "openai", "--model", "m", "--base-url", "http://a.invalid/v1")


def test_text_leaves_this_machine_only_with_consent(cli: Cli, workspace: store.Workspace) -> None:
    fill(workspace, *TEXTS)
    ran = cli("propose", "-C", workspace.root, *REMOTE)
    assert ran.code == 1 and ran.err.count("\n") == 1 and ran.out == ""
    for part in ("a.invalid", "3 conversations", "role and text of each turn", "--allow-remote"):
        assert part in ran.err


def test_a_remote_host_without_a_key_is_not_asked(cli: Cli, workspace: store.Workspace, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fill(workspace, *TEXTS)
    ran = cli("propose", "-C", workspace.root, "--proposer", "openai", "--model", "m", "--allow-remote")
    assert ran.code == 1 and "OPENAI_API_KEY" in ran.err and "api.openai.com" in ran.err
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text() + '[propose.models.mine]\nkey_env = "MY_KEY"\n')
    ran = cli("propose", "-C", workspace.root, "--proposer", "openai:mine", "--allow-remote")
    assert ran.code == 1 and "MY_KEY" in ran.err and "[propose.models.mine]" in ran.err


def test_the_key_is_never_shown(ask: Any, workspace: store.Workspace, stub: Stub, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-indeed")
    stub.usual = lambda h: status(400, f"bad {h.headers['Authorization']}")(h)
    ran = ask()
    assert "Bearer ***" in store.read(workspace, tables.DROPS)["detail"][0]
    kept = b"".join(p.read_bytes() for p in workspace.root.rglob("*") if p.is_file())
    assert "very-secret" not in ran.out + ran.err and b"very-secret" not in kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--proposer", "magic"), "expected one of rules, learned, openai"),
        (("--proposer", "openai"), "which model?"),
        (("--proposer", "openai", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"), "no server answers there"),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, workspace: store.Workspace, words: Any, said: str) -> None:
    fill(workspace, *TEXTS)
    (workspace.root / "saferec.toml").write_text("[propose]\nretries = 0\n")
    ran = cli("propose", "-C", workspace.root, *words)
    assert ran.code == 1 and said in ran.err and ran.err.count("\n") == 1


# ---- items


def test_items_are_flagged_where_nobody_knows(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    plots = {"a": "A dog dies in the snow.", "b": "A ship sails.", "c": None}
    film = {"source": "csv", "domain": "film", "title": "A film", "refs": [], "aliases": [], "genres": []}
    rows = [film | {"source_id": name, "year": 2000 + n, "plot": plots[name]} for n, name in enumerate(plots)]
    store.append(workspace, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame(rows))
    stub.usual = says(answer(claim("animal_harm", "A dog dies")))
    ran = ask("--items", "--json").json
    assert (ran["in"], ran["added"], ran["dropped"]) == (3, 2, {"nothing to read": 1})
    assert (ran["proposals"], ran["claims_rejected"]) == (1, {"quote not found": 1})
    found = store.read(workspace, tables.PROPOSALS).row(0, named=True)
    assert (found["kind"], found["spans"][0]["turn"], found["digest"]) == ("item_flag", 0, tables.digest(plots["a"]))
    assert ask("--items", "--json").json["added"] == 0


# ---- without a model


def test_the_rules_read_once_and_need_no_network(cli: Cli, workspace: store.Workspace) -> None:
    fill(workspace, *TEXTS, " ")
    first = cli("propose", "-C", workspace.root, "--json")
    assert first.code == 0, first.err
    ran = first.json
    assert (ran["in"], ran["added"], ran["dropped"]) == (4, 3, {"nothing to read": 1})
    readings = store.read(workspace, tables.READINGS)
    assert set(readings.select("proposer", "version").iter_rows()) == {("rules", "rules-9")}
    before = contents(workspace)
    again = cli("propose", "-C", workspace.root, "--json").json
    assert (again["added"], again["skipped"]) == (0, 3)
    assert all(frame.equals(before[name]) for name, frame in contents(workspace).items())


def test_traits_that_the_rules_have_no_words_for_are_named(cli: Cli, workspace: store.Workspace) -> None:
    """Of a trait of one's own nothing is ever proposed: `proposals: 0` read as if nobody had it."""
    fill(workspace, *TEXTS)
    at = ("propose", "-C", workspace.root, "--json")
    assert "rules_know_no_cues_of" not in cli(*at).json
    own = '[[trait]]\nslug = "{}"\nname = "A"\ndefinition = "A."\ntopics = ["Is it"]\n'
    (workspace.root / "mine.toml").write_text('version = "1"\n' + own.format("gambling") + own.format("gore"))
    own_taxonomy(workspace)
    assert cli(*at).json["rules_know_no_cues_of"] == ["gambling"]


def test_what_the_rules_cannot_read_is_left_to_a_model(
    cli: Cli, workspace: store.Workspace, stub: Stub, tmp_path: Path
) -> None:
    """Their silence on German would read as "nothing found". A model of a cascade is asked, whatever it skips."""
    talks = {"de": "Seit dem Unfall kann ich keine Krankenhausszenen mehr sehen", "en": "something funny for tonight"}
    rows = [{"id": name, "messages": [{"role": "user", "content": text}]} for name, text in talks.items()]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    at = ("-C", workspace.root, "--json")
    assert cli("mine", "messages", tmp_path / "talks.jsonl", *at).code == 0
    ran = cli("propose", *at).json
    assert (ran["in"], ran["added"], ran["dropped"]) == (2, 1, {"not in English": 1})
    options(workspace, f'base_url = "{stub.url}"\nskip_silent = true')
    stub.usual = model
    ran = cli("propose", "--proposer", "rules,openai:m", *at).json
    assert ran["m"]["added"] == 1  # of the English one the rules have read that nothing stands there
