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
