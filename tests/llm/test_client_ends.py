"""How a run ends: paid answers are stored at once, and an error in our own code ends the run without a hang."""

import asyncio
import gc
from contextlib import aclosing
from unittest.mock import Mock

import pytest

from saferec_builder import llm
from tests.servers.llm_stub import Stub
from tests.worlds.llm_client import Kept, body


def test_what_was_paid_for_is_kept_also_where_nobody_reads_on(stub: Stub) -> None:
    """A reader that fails (no room for its rows) must not lose the answers that arrive meanwhile."""
    answers = Kept()

    async def reader() -> None:
        requests = [body("one"), body("two"), body("three")]
        replies = llm.replies(llm.Server("m", stub.url), requests, answers, llm.Budget())
        async with aclosing(replies) as stream, asyncio.timeout(20):
            async for _ in stream:
                while len(answers.paid) < len(requests):
                    await asyncio.sleep(0.01)
                raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        llm.run(reader())


@pytest.mark.slow
def test_ctrl_c_while_the_last_answer_is_saved_leaves_nothing_open(stub, caplog) -> None:
    """It reaches the task at the next await, while requests are pending: the client is closed all the same."""

    async def reader() -> None:
        async with aclosing(llm.replies(llm.Server("m", stub.url), [body("one")], Kept(), llm.Budget())) as stream:
            async for _ in stream:
                task = asyncio.current_task()
                assert task and task.cancel()  # as asyncio does for Ctrl-C

    with pytest.raises(asyncio.CancelledError):
        llm.run(reader())
    gc.collect()
    assert not [record.getMessage() for record in caplog.records if "Unclosed" in record.getMessage()]


@pytest.mark.parametrize("where", ["check", "put"])
def test_a_fault_of_ours_ends_the_run(stub: Stub, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    budget = llm.Budget(llm.Price(1.0, 1.0), limit=1.0)
    monkeypatch.setattr(Kept, where, Mock(side_effect=KeyError("ours")))

    async def reader() -> None:
        async with asyncio.timeout(20):
            async for _ in llm.replies(llm.Server("m", stub.url), [body("one")], Kept(), budget):
                pass

    with pytest.raises(KeyError, match="ours"):
        llm.run(reader())
    assert budget.bill["requests"] == 1 and not budget.held  # it was sent and is billed
