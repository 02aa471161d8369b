"""What a run would ask and cost."""

from typing import Any

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub
from tests.worlds.model_replies import price


def test_a_dry_run_tells_requests_tokens_and_price(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    price(workspace, "small")
    ran = ask("--proposer", "openai:small", "--dry-run").json
    assert (ran["requests"], ran["dropped"], stub.asked) == (3, {"dry run": 3}, [])
    wanted = (ran["estimated_tokens_in"] * 10 + ran["estimated_tokens_out"] * 100) / 1e6
    assert ran["estimated_usd"] == pytest.approx(wanted, abs=1e-4) and ran["estimated_tokens_in"] > 3_000


def test_a_dry_run_tells_votes_on_what_is_uncertain_now(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    price(workspace, "small")
    ask("--proposer", "openai:small")
    sent = len(stub.asked)
    ran = ask("--proposer", "openai:small", "--samples", "5", "--dry-run").json
    votes = ran["small x5"]  # one text has a maybe
    assert (votes["in"], votes["requests"], ran["small"]["requests"]) == (1, 5, 0)
    assert votes["estimated_usd"] == pytest.approx(5 * (7 * 10 + 3 * 100) / 1e6, abs=1e-4) and len(stub.asked) == sent
