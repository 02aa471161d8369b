"""The order in which a proposer reads unread texts after a model has refused some of them."""

from typing import Any

import pytest

from saferec_builder.llm import client
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub, says, status
from tests.worlds.model_replies import fill, speaks


def refusing(way: Any) -> Any:
    return lambda handler: (way if "odd" in handler.text else speaks)(handler)


@pytest.mark.slow
def test_texts_that_a_server_refuses_hold_up_no_others(
    blank: Any, workspace: store.Workspace, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run began with the same texts, gave up after GIVE_UP_AFTER refusals, and read no other one. What it did not
    reach has a row among the drops, too, and is no text that a server refuses."""
    monkeypatch.setattr(client, "GIVE_UP_AFTER", 2)
    texts = ["odd 0", "odd 1", "blood 2", "blood 3"]
    stub.usual = refusing(status(400))
    fill(workspace, *texts)
    runs = [blank("--proposer", "openai:small").json for _ in range(2)]
    fill(workspace, *texts, "blood 4")
    runs.append(blank("--proposer", "openai:small").json)
    assert [run["added"] for run in runs] == [0, 2, 1]
    assert [run["dropped"].get("every request refused", 0) for run in runs] == [2, 0, 0]


@pytest.mark.slow
def test_a_limit_comes_to_all_texts(blank: Any, workspace: store.Workspace, stub: Stub) -> None:
    """The first texts had a useless paid answer: each run looked only at these."""
    texts = ["odd 0", "odd 1", *(f"blood {n}" for n in range(2, 5))]
    fill(workspace, *texts)
    stub.usual = refusing(says(None, refusal="I cannot"))
    runs = [blank("--proposer", "openai:small", "--limit", "2").json for _ in range(3)]
    assert [(run["added"], run["requests"], run["already_paid"]) for run in runs] == [(0, 2, 0), (2, 2, 2), (1, 1, 2)]
    assert [run.get("not_read_yet", 0) for run in runs] == [3, 1, 0]
    retried = blank("--proposer", "openai:small", "--limit", "1", "--retry-failed").json  # these are paid for again
    assert (retried["requests"], retried["not_read_yet"]) == (1, 1)
    stub.usual = speaks
    fill(workspace, *texts, "blood 5", "blood 6")
    retried = blank("--proposer", "openai:small", "--limit", "3", "--retry-failed").json
    assert (retried["requests"], retried["added"], retried["not_read_yet"]) == (3, 3, 1)
    read = store.read(workspace, tables.READINGS)["subject"]
    assert set(read) - {"c2", "c3", "c4"} == {"c0", "c1", "c5"}  # new texts alone were read, while there were any


def test_what_is_paid_for_again_ends_no_run_before_its_new_texts(
    blank: Any, workspace: store.Workspace, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "GIVE_UP_AFTER", 2)
    stub.usual = refusing(says(None, refusal="I cannot"))
    retry = ("--proposer", "openai:small", "--limit", "3", "--retry-failed")
    for texts, added in ((("odd 0", "odd 1"), 0), (("odd 0", "odd 1", "blood 2"), 1)):
        fill(workspace, *texts)
        assert blank(*retry).json["added"] == added
