"""What a run would ask, and its cost."""

import json
from typing import Any

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub, completion
from tests.worlds.model_replies import TEXTS, answer, fill, price


def test_a_dry_run_tells_requests_tokens_and_price_and_writes_nothing(
    ask: Any, workspace: store.Workspace, stub: Stub
) -> None:
    fill(workspace, *TEXTS, TEXTS[0])
    price(workspace, "small")
    files = sorted(p for p in workspace.root.rglob("*") if p.is_file())
    remote = ("--base-url", "https://models.example/v1")  # needs no consent, no key
    plan = ask("--proposer", "openai:small", "--dry-run", *remote).json
    assert (plan["in"], plan["added"], plan["dropped"]) == (0, 0, {}) and plan["texts_to_read"] == 4
    assert (plan["requests"], plan["already_paid"], stub.asked) == (3, 1, [])  # the fourth text is the first again
    assert 3 * 1_500 < plan["estimated_tokens_in"] < 3 * 4_000  # about 10 kB each, at four bytes a token
    expected = (plan["estimated_tokens_in"] * 10 + plan["estimated_tokens_out"] * 100) / 1e6
    assert plan["estimated_usd"] == pytest.approx(expected, abs=1e-4)
    created = [p for p in workspace.root.rglob("*") if p.is_file() and p not in files]
    assert [p.name for p in created if "workspace.db" not in p.name and p.suffix != ".lock"] == []


def test_a_dry_run_says_what_the_budget_pays_for(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """It estimated twice the budget, and did not mention it."""
    price(workspace, "small")
    whole = ask("--proposer", "openai:small", "--dry-run", "--budget-usd", "10").json
    assert (whole["left_of_the_budget_usd"], whole["requests_that_it_pays_for_about"]) == (10, 3)
    half = str(whole["estimated_usd"] / 2)
    assert (
        ask("--proposer", "openai:small", "--dry-run", "--budget-usd", half).json["requests_that_it_pays_for_about"]
        == 1
    )
    assert "left_of_the_budget_usd" not in ask("--proposer", "openai:small", "--dry-run").json and not stub.asked


@pytest.mark.slow
def test_the_longest_answer_of_a_model_is_known_to_the_next_run(
    ask: Any, workspace: store.Workspace, stub: Stub
) -> None:
    """A model that ignores its limit made every run exceed the budget."""
    price(workspace, "small")
    usage = {"prompt_tokens": 7, "completion_tokens": 30_000}
    body = json.dumps(json.loads(completion(answer())) | {"usage": usage})
    stub.usual = lambda handler: handler.reply(200, body)
    options = ("--proposer", "openai:small", "--budget-usd")
    assert ask(*options, "0.3").json["requests"] == 1  # costs 3 USD; at most a fifth of one was expected
    stopped = ask(*options, "6").json  # two answers of 3 USD and their questions cost more
    assert (stopped["requests"], stopped["usd_of_all_runs"], stopped["budget_usd"]) == (0, 3.00007, 6)
    assert ask(*options, "6.3").json["requests"] == 1
