"""What a server can do is known before the first text."""

from typing import Any

import pytest

from saferec_builder.core.errors import ProposerError
from tests.servers.llm_stub import SEA, Stub, probe, running, says, status
from tests.worlds.llm_client import ask


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([says("The sea is calm.")], "ignores response_format json_schema (found 'The sea is calm.'"),
        ([says('{"word": "calm"}')], "ignores response_format json_schema"),
        ([says("[1]")], "ignores response_format json_schema"),
        ([says("[" * 100_000)], "ignores response_format json_schema"),
        ([status(401)], "key refused: status 401"),
        ([status(404, "no such model")], "status 404: no such model"),
        ([status(200, "<p>hi")], "web page instead of JSON"),
    ],
)
def test_a_server_that_cannot_be_used_is_known_before_the_first_text(stub: Stub, script: Any, said: str) -> None:
    stub.scripts[SEA] = script
    with pytest.raises(ProposerError, match="model m") as fault:
        ask(stub, "private words")
    assert said in str(fault.value)
    assert stub.asked == [SEA]


def test_nobody_at_the_address_is_one_line() -> None:
    with running() as stub:
        pass  # its port is free again
    with pytest.raises(ProposerError, match="connection failed"):
        ask(stub, "a", retries=0)


def test_a_model_without_a_temperature_is_asked_without(stub: Stub) -> None:
    stub.scripts[SEA] = [status(400, '{"error": {"message": "temperature is not supported"}}'), probe]
    paid: dict[str, str] = {}
    assert ask(stub, "a", paid=paid)[0].content == "fine"
    assert ["temperature" in sent for sent in stub.bodies] == [True, False, False]
    assert ask(stub, "a", paid=paid)[0].cached  # under the same name
