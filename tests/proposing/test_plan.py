"""What a run would ask and cost."""

import json
from typing import Any

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub, completion
from tests.worlds.model_replies import answer, price


def test_a_dry_run_tells_requests_tokens_and_price(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    price(workspace, "small")
    ran = ask("--proposer", "openai:small", "--dry-run").json
    assert (ran["requests"], ran["dropped"], stub.asked) == (3, {"dry run": 3}, [])
    wanted = (ran["estimated_tokens_in"] * 10 + ran["estimated_tokens_out"] * 100) / 1e6
    assert ran["estimated_usd"] == pytest.approx(wanted, abs=1e-4) and ran["estimated_tokens_in"] > 3_000


def test_the_longest_answer_of_a_model_is_known_to_the_next_run(
    ask: Any, workspace: store.Workspace, stub: Stub
) -> None:
    """One that ignores its limit took each run past the budget anew."""
    price(workspace, "small")
    usage = {"prompt_tokens": 7, "completion_tokens": 30_000}
    body = json.dumps(json.loads(completion(answer())) | {"usage": usage})
    stub.usual = lambda handler: handler.reply(200, body)
    asking = ("--proposer", "openai:small", "--budget-usd")
    assert ask(*asking, "0.3").json["requests"] == 1  # 3 USD; a fifth of one was to be the most
    assert ask(*asking, "6").json["requests"] == 0  # two of three dollars and their question are more
    assert ask(*asking, "6.3").json["requests"] == 1
