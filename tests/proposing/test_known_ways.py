"""The form in which a model accepts requests is determined once."""

from typing import Any

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import SEA, Stub
from tests.worlds.model_replies import fill, options
from tests.worlds.odd_servers import ASKS, odd


def test_a_fault_that_passes_makes_no_weaker_way_the_known_one(blank: Any, workspace, stub: Stub) -> None:
    """Every later run asked without the schema."""
    options(workspace, "retries = 0")
    for kind, texts in (("ends with 500 at a schema", 1), ("keeps to the schema", 2)):
        odd(stub, kind)
        fill(workspace, *(f"blood {n}" for n in range(texts)))
        assert blank("--proposer", "openai:small").json["proposals"] == 1
    assert stub.bodies[-1]["response_format"]["type"] == "json_schema"


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
