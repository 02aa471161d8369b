"""A useless answer is kept, and paid for again only on request, at most three times in all."""

from typing import Any

import pytest

from saferec_builder.proposing.paid_answers import ATTEMPTS
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub, completion, says
from tests.worlds.model_replies import answer, options, price


@pytest.fixture
def failing(ask: Any, workspace: store.Workspace, stub: Stub) -> Any:
    """Runs `propose` on three texts; the paid answers to two of them are useless."""
    price(workspace, "small")
    cut = lambda h: h.reply(200, completion(answer(), "stop" if "funny" in h.text else "length"))  # noqa: E731
    stub.usual = cut
    assert ask("--proposer", "openai:small").json["dropped"] == {"cut off": 2}
    return lambda *words: ask("--proposer", "openai:small", *words).json


def test_the_second_run_of_a_failing_set_costs_nothing(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    requests, spent = len(stub.asked), store.read(workspace, tables.SPEND)["usd"].sum()
    assert failing("--dry-run")["requests"] == 0
    rerun = failing()
    assert (rerun["in"], rerun["skipped"], rerun["dropped"], rerun["answers_of_no_use"]) == (3, 1, {"cut off": 2}, 2)
    assert (rerun["requests"], rerun["already_paid"], rerun["usd"]) == (0, 2, 0)
    assert len(stub.asked) == requests and store.read(workspace, tables.SPEND)["usd"].sum() == spent
    names = store.read(workspace, tables.REPLIES)["request"]
    assert set(names) == set(store.read(workspace, tables.REQUESTS)["request"])  # each has a stored request


def test_it_is_paid_for_again_where_somebody_asks(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    stub.usual = says(answer())
    assert failing("--retry-failed", "--dry-run")["requests"] == 2
    summary = failing("--retry-failed")
    assert (summary["requests"], summary["added"], summary["dropped"]) == (2, 2, {})
    replies = store.read(workspace, tables.REPLIES)["request"]
    assert len(replies) == 5 and sum(name.endswith("-2") for name in replies) == 2
    assert set(replies) <= set(store.read(workspace, tables.REQUESTS)["request"])


@pytest.mark.slow
def test_attempts_are_counted(failing: Any, stub: Stub) -> None:
    """A useless answer is requested at most three times in all, however often the command runs."""
    assert [failing("--retry-failed")["requests"] for _ in range(4)] == [2] * (ATTEMPTS - 1) + [0, 0]
    assert failing("--retry-failed", "--dry-run")["requests"] == 0


def test_other_settings_ask_anew(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    stub.usual = says(answer())
    options(workspace, "max_tokens = 8000")
    assert failing()["added"] == 2
