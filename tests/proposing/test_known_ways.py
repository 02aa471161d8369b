"""The form in which a model accepts requests is determined once."""

from datetime import timedelta
from typing import Any

import pytest

from saferec_builder.proposing import known_ways
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import SEA, Stub, status
from tests.worlds.model_replies import fill, options
from tests.worlds.odd_servers import ASKS, odd


def test_a_fault_that_passes_makes_no_weaker_way_the_known_one(blank: Any, workspace, stub: Stub) -> None:
    """Every later run asked without the schema, and so did this one."""
    options(workspace, "retries = 0")
    odd(stub, "keeps to the schema")
    stub.scripts[SEA].insert(0, status(500))
    fill(workspace, "blood")
    assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert stub.asked[:3] == [SEA, ASKS, SEA]  # the schema once more, after a tool call was answered
    assert stub.bodies[-1]["response_format"]["type"] == "json_schema"
    assert store.read(workspace, tables.WAYS).is_empty()


@pytest.mark.slow
def test_a_fault_that_stays_is_remembered_for_a_week(blank: Any, workspace, stub: Stub, monkeypatch) -> None:
    """A server that always ended with 500 at a schema was asked in every way at each run."""
    options(workspace, "retries = 0")
    odd(stub, "ends with 500 at a schema")
    for texts, asked in ((1, [SEA, ASKS, ASKS, ASKS, SEA, ASKS]), (2, [ASKS])):
        stub.asked.clear()
        fill(workspace, *(f"blood {n}" for n in range(texts)))
        assert blank("--proposer", "openai:small").json["proposals"] == 1
        assert stub.asked[:-1] == asked
    assert store.read(workspace, tables.WAYS)["way"].to_list() == ["text"]
    odd(stub, "keeps to the schema")
    monkeypatch.setattr(known_ways, "LASTS", timedelta(0))
    fill(workspace, *(f"blood {n}" for n in range(3)))
    assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert stub.bodies[-1]["response_format"]["type"] == "json_schema"


def test_a_limit_says_nothing_of_a_way_that_failed(blank: Any, workspace, stub: Stub) -> None:
    options(workspace, "retries = 0")
    odd(stub, "ends with 500 at a schema")
    stub.scripts[SEA] = [stub.usual, status(429)]
    fill(workspace, "blood")
    assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert store.read(workspace, tables.WAYS).is_empty()


@pytest.mark.slow
def test_the_way_is_found_once_and_remembered(blank: Any, workspace: store.Workspace, stub: Stub) -> None:
    odd(stub, "refuses every form, answers text")
    fill(workspace, "blood one")
    assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert stub.asked[:-1] == [SEA, ASKS, ASKS, ASKS]
    (row,) = store.read(workspace, tables.WAYS).to_dicts()
    assert (row["server"], row["model"], row["way"], row["refuses"]) == (stub.url, "small", "text", [])
    fill(workspace, "blood one", "blood two")
    stub.asked.clear()
    assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert len(stub.asked) == 2 and stub.asked[0] == ASKS  # one question, in the way that is known
    odd(stub, "keeps to the schema")  # the server learns to hold its model to a schema
    for n in range(2):
        fill(workspace, *(f"blood {m}" for m in range(n + 1)))
        blank("--proposer", "openai:small", *(["--retry-failed"] if n == 0 else []))
        assert stub.bodies[-1]["response_format"]["type"] == "json_schema"
    assert store.read(workspace, tables.WAYS)["way"].to_list() == ["text", "json_schema"]
