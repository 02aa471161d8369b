"""What a server can do is known before the first text."""

from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_create_params import (
    ResponseCreateParamsBase as _ResponseCreateParamsBase,
    ResponseCreateParamsNonStreaming,
)

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError
from tests.servers.llm_stub import SEA, Stub, probe, response, running, says, status
from tests.worlds.llm_client import ask
from tests.worlds.odd_servers import ASKS


@pytest.mark.parametrize(
    ("script", "said", "asked"),
    [
        ([says("The sea is calm.")], "ignores it (found 'The sea is calm.')", 4),
        ([says('{"word": "calm"}')], "ignores it (found", 4),
        ([says("[1]")], "ignores it (found '[1]')", 4),
        ([says("[" * 100_000)], "ignores it (found", 4),
        ([status(401)], "key refused: status 401", 1),
        ([says('{"word":', "length")], "raise [propose] max_tokens", 1),
        # of each way the same is said once
        (
            [status(404, "no such model")],
            "model m: json_schema, tool, json_object, text: bad request: status 404: no",
            4,
        ),
        ([status(200, "<p>hi")], "web page instead of JSON", 1),
    ],
)
def test_a_server_that_cannot_be_used_is_known_before_the_first_text(
    stub: Stub, script: Any, said: str, asked: int
) -> None:
    stub.scripts[SEA] = stub.scripts[ASKS] = script
    with pytest.raises(ProposerError, match="model m") as fault:
        ask(stub, "private words")
    assert said in str(fault.value)
    assert stub.asked == [SEA, ASKS, ASKS, ASKS][:asked]


def test_a_model_of_the_other_api_is_asked_there(stub: Stub) -> None:
    """Some models are served by `/responses` alone; what is sent there is kept for 30 days unless it says not to."""
    stub.path = "/v1/responses"
    stub.scripts[ASKS] = [lambda h: h.reply(200, response('{"word": "zephyr-42"}'))]
    stub.usual = lambda h: h.reply(200, response("fine"))
    sampling = (("temperature", 0.0), ("max_completion_tokens", 50), ("reasoning_effort", "low"), ("store", True))
    (reply,) = ask(stub, "a", sampling=sampling)
    assert (reply.content, reply.tokens_in, reply.tokens_out) == ("fine", 7, 3)
    assert (reply.tokens_cached, reply.tokens_reasoning) == (2, 1)
    question, sent = stub.bodies  # as openai's own client would send it
    theirs = ResponseCreateParamsNonStreaming.__annotations__.keys() | _ResponseCreateParamsBase.__annotations__.keys()
    assert question.keys() <= theirs and question["text"]["format"]["type"] == "json_schema"
    message = {"role": "user", "content": "a"}
    assert sent == {"model": "m", "input": [message], "store": False, "temperature": 0.0} | {
        "max_output_tokens": 50, "reasoning": {"effort": "low"}
    }  # fmt: skip
    assert (
        Response.model_validate_json(response("fine")).output_text == "fine"
    )  # the stub answers as their reader has it


def test_nobody_at_the_address_is_one_line() -> None:
    with running() as stub:
        pass  # its port is free again
    with pytest.raises(ProposerError, match="no server answers there .*: start it"):
        ask(stub, "a", retries=0)


def test_a_model_without_a_temperature_is_asked_without(stub: Stub) -> None:
    stub.scripts[SEA] = [status(400, '{"error": {"message": "temperature is not supported"}}'), probe]
    paid: dict[str, str] = {}
    assert ask(stub, "a", paid=paid)[0].content == "fine"
    assert ["temperature" in sent for sent in stub.bodies] == [True, False, False]
    assert ask(stub, "a", paid=paid)[0].cached  # under the same name


def test_the_question_at_the_start_is_paid_for(stub: Stub) -> None:
    """A model that reasons may think long about it: 7 tokens in and 3 out each, of four that refuse."""
    stub.scripts[SEA] = stub.scripts[ASKS] = [says("no")]
    budget = llm.Budget(llm.Price(1e6, 1e6), limit=1e9)
    with pytest.raises(ProposerError):
        ask(stub, "a", budget=budget)
    assert (budget.spent, budget.bill) == (40.0, {"usd": 40.0})
    # 2,000 tokens of an answer fit in, and no more once one question has cost its 3
    with pytest.raises(ProposerError, match="tool: budget reached"):
        ask(stub, "a", budget=llm.Budget(llm.Price(0.0, 1.0), limit=2_001e-6))
