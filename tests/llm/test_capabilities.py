"""The capabilities of a server are checked before the first text is sent."""

from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_create_params import (
    ResponseCreateParamsBase as _ResponseCreateParamsBase,
    ResponseCreateParamsNonStreaming,
)

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError
from tests.servers.llm_stub import SEA, Stub, probe, reset, response, running, says, status
from tests.worlds.llm_client import ask
from tests.worlds.odd_servers import ASKS


@pytest.mark.parametrize(
    ("script", "said", "asked"),
    [
        ([says("The sea is calm.")], "ignores it (found 'The sea is calm.')", 4),
        ([says('{"word": "calm"}')], "ignores it (found", 4),
        ([says("[1]")], "ignores it (found '[1]')", 4),
        ([says("[1]")], 'the only right answer to this test question is {"word": "zephyr-42", "places": []}', 4),
        ([says("[" * 100_000)], "ignores it (found", 4),
        ([status(401)], "key refused: status 401", 1),
        ([says('{"word":', "length")], "raise [propose] max_tokens, or the model's own limit", 1),
        (
            [status(400, "the context length is 9")],
            "context: status 400: the context length is 9: serve the model with",
            1,
        ),
        # the same error of each way is reported once
        ([status(404, "no")], "json_schema, tool, json_object, text: bad request: status 404: no", 4),
        ([status(404, "no")], "check the address (most end in /v1)", 4),
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
    """Some models are served only by `/responses`, which stores requests for 30 days unless they forbid it."""
    stub.path = "/v1/responses"
    stub.scripts[ASKS] = [lambda h: h.reply(200, response('{"word": "zephyr-42"}'))]
    stub.usual = lambda h: h.reply(200, response("fine"))
    sampling = (("temperature", 0.0), ("max_completion_tokens", 50), ("reasoning_effort", "low"), ("store", True))
    (reply,) = ask(stub, "a", sampling=sampling)
    assert (reply.content, reply.tokens_in, reply.tokens_out) == ("fine", 7, 3)
    assert (reply.tokens_cached, reply.tokens_reasoning) == (2, 1)
    question, body = stub.bodies  # as openai's client would send them
    params = ResponseCreateParamsNonStreaming.__annotations__.keys() | _ResponseCreateParamsBase.__annotations__.keys()
    assert question.keys() <= params and question["text"]["format"]["type"] == "json_schema"
    message = {"role": "user", "content": "a"}
    assert body == {"model": "m", "input": [message], "store": False, "temperature": 0.0} | {
        "max_output_tokens": 50, "reasoning": {"effort": "low"}
    }  # fmt: skip
    # openai's own reader accepts the stub's answer
    assert Response.model_validate_json(response("fine")).output_text == "fine"


def test_nobody_at_the_address_is_one_line() -> None:
    with running() as stub:
        pass  # its port is free again
    with pytest.raises(ProposerError, match="no server answers there .*: start it"):
        ask(stub, "a", retries=0)


def test_a_server_that_drops_one_way_of_asking_is_there(stub: Stub) -> None:
    """The advice was to start it, though it had answered four questions."""
    stub.scripts = {SEA: [says("no")], ASKS: [says("no"), reset]}
    with pytest.raises(ProposerError) as fault:
        ask(stub, "a", retries=0)
    assert "tool: ignores it (found 'no'); json_object, text" in str(fault.value)
    assert "connection failed: ServerDisconnectedError" in str(fault.value) and "start it" not in str(fault.value)


def test_a_model_without_a_temperature_is_asked_without(stub: Stub) -> None:
    stub.scripts[SEA] = [status(400, '{"error": {"message": "temperature is not supported"}}'), probe]
    paid: dict[str, str] = {}
    assert ask(stub, "a", paid=paid)[0].content == "fine"
    assert ["temperature" in body for body in stub.bodies] == [True, False, False]
    assert ask(stub, "a", paid=paid)[0].cached  # the request has the same name


def test_a_template_that_fails_at_the_role_system_is_asked_without(stub: Stub) -> None:
    """llama.cpp answers 500 where the model's template raises an error."""
    refusal = status(500, '{"error": {"message": "System role not supported"}}', x_should_retry="false")
    stub.scripts[SEA] = [refusal]
    system = "You answer one question."
    stub.scripts[f"{system}\n\n{SEA}"] = [probe]
    assert ask(stub, "a")[0].content == "fine" and len(stub.asked) == 3


def test_the_question_at_the_start_is_paid_for(stub: Stub) -> None:
    """A reasoning model may think long about it: four refused ways cost 7 tokens in and 3 out each."""
    stub.scripts[SEA] = stub.scripts[ASKS] = [says("no")]
    budget = llm.Budget(llm.Price(1e6, 1e6), limit=1e9)
    with pytest.raises(ProposerError):
        ask(stub, "a", budget=budget)
    assert (budget.spent, budget.bill) == (40.0, {"usd": 40.0})
    # an answer of 2,000 tokens fits, but not after one question has cost 3
    with pytest.raises(ProposerError, match="tool: budget reached"):
        ask(stub, "a", budget=llm.Budget(llm.Price(0.0, 1.0), limit=2_001e-6))


def test_a_less_strict_way_that_failed_once_does_not_replace_a_stricter_one(stub: Stub) -> None:
    """Text was the way of before: it failed, the schema worked, and text was asked for again and taken."""
    stub.scripts[ASKS] = [status(500), says('{"word": "zephyr-42", "places": []}')]
    assert ask(stub, "a", way="text", retries=0)[0].content == "fine"
    assert stub.asked == [ASKS, SEA, "a"]
