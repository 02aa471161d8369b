"""An answer of no use is kept, and paid for again only where somebody asks for it, three times in all."""

from typing import Any

import pytest

from saferec_builder.proposing.paid_answers import ATTEMPTS
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub, completion, says
from tests.worlds.model_replies import answer, options, price


@pytest.fixture
def failing(ask: Any, workspace: store.Workspace, stub: Stub) -> Any:
    """`propose` on three texts, of which the model was paid for nothing on two."""
    price(workspace, "small")
    cut = lambda h: h.reply(200, completion(answer(), "stop" if "funny" in h.text else "length"))  # noqa: E731
    stub.usual = cut
    assert ask("--proposer", "openai:small").json["dropped"] == {"cut off": 2}
    return lambda *words: ask("--proposer", "openai:small", *words).json


def test_the_second_run_of_a_failing_set_costs_nothing(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    asked, spent = len(stub.asked), store.read(workspace, tables.SPEND)["usd"].sum()
    assert failing("--dry-run")["requests"] == 0
    again = failing()
    assert (again["in"], again["skipped"], again["dropped"], again["answers_of_no_use"]) == (3, 1, {"cut off": 2}, 2)
    assert (again["requests"], again["already_paid"], again["usd"]) == (0, 2, 0)
    assert len(stub.asked) == asked and store.read(workspace, tables.SPEND)["usd"].sum() == spent
    names = store.read(workspace, tables.REPLIES)["request"]
    assert set(names) == set(store.read(workspace, tables.REQUESTS)["request"])  # each goes with its text


def test_it_is_paid_for_again_where_somebody_asks(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    stub.usual = says(answer())
    assert failing("--retry-failed", "--dry-run")["requests"] == 2
    ran = failing("--retry-failed")
    assert (ran["requests"], ran["added"], ran["dropped"]) == (2, 2, {})
    replies = store.read(workspace, tables.REPLIES)["request"]
    assert len(replies) == 5 and sum(name.endswith("-2") for name in replies) == 2
    assert set(replies) <= set(store.read(workspace, tables.REQUESTS)["request"])


def test_attempts_are_counted(failing: Any, stub: Stub) -> None:
    """What was of no use is asked for three times in all, however often somebody asks."""
    assert [failing("--retry-failed")["requests"] for _ in range(4)] == [2] * (ATTEMPTS - 1) + [0, 0]
    assert failing("--retry-failed", "--dry-run")["requests"] == 0


def test_other_settings_ask_anew(failing: Any, workspace: store.Workspace, stub: Stub) -> None:
    stub.usual = says(answer())
    options(workspace, "max_tokens = 8000")
    assert failing()["added"] == 2
