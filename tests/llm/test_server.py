"""What names a request, what an answer costs, and what this machine is."""

import json
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm.server import read_body
from tests.worlds.llm_client import body


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 12.5, "completion_tokens": 3}, (12, 3)),
        ({"prompt_tokens": "9" * 30, "completion_tokens": "many"}, (None, None)),  # no table holds such a number
        ({"prompt_tokens": -1, "completion_tokens": [3]}, (None, None)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": []}, (5, 3)),
        ("7 tokens", (None, None)),
    ],
)
def test_an_odd_bill_costs_nobody_the_answer(usage: Any, tokens: tuple[int | None, int | None]) -> None:
    """It was paid for, whatever the server says of its price."""
    text = json.dumps({"choices": [{"message": {"content": "fine"}}], "usage": usage})
    reply = read_body("r", "m", text)
    assert (reply.content, reply.error, reply.tokens_in, reply.tokens_out) == ("fine", None, *tokens)


def test_another_model_server_or_sampling_is_another_request() -> None:
    url = "http://127.0.0.1:1/v1"
    ours, other = llm.Server("m", url), llm.Server("m", "http://127.0.0.1:2/v1")
    others = [llm.Server("n", url), other, llm.Server("m", url, sampling=(("temperature", 0.5),))]
    assert ours.name(body("a")) not in [s.name(body("a")) for s in others]
    assert ours.name(body("a")) != ours.name(body("b"))
    assert ours.name(body("a")) == llm.Server("m", f"{url}/", key="other", concurrency=2).name(body("a"))


HERE = ("localhost:8000/v1", "127.0.0.1/v1", "127.9.9.9:1/v1", "[::1]:8000/v1")
ELSEWHERE = (
    *("api.openai.com/v1", "127.0.0.1.example.org/v1", "localhost.example.org/v1", "127.0.0.1@example.org/v1"),
    *("example.org/127.0.0.1", "example.org#@127.0.0.1/", "0.0.0.0:8000/v1", "192.168.0.4:8000/v1"),
)


@pytest.mark.parametrize("address", [*HERE, *ELSEWHERE])
def test_only_loopback_is_this_machine(address: str) -> None:
    assert llm.Server("m", f"http://{address}").is_loopback is (address in HERE)
    assert not llm.Server("m", "not a url").is_loopback
