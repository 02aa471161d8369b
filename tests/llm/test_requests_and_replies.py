"""The names of requests, and the cost of answers."""

import json
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm.requests_and_replies import read_body, refusal
from tests.servers.llm_stub import response
from tests.worlds.llm_client import body


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<p>log in</p>", "web page instead of JSON: "),
        ("[1", "broken JSON: Expecting"),
        ('data: {"choices": []}\n\ndata: [DONE]\n\n', "broken JSON: a stream of events"),
        ('{"choices": [], "choices": []}', "broken JSON: the key 'choices' comes twice in one object"),
        ("{}", "no choices"),
        ('{"error": {"message": "daily limit", "code": 429}}', "rate limited: status 429: "),
        ('{"error": {"message": "no credits", "code": 402}, "choices": []}', "quota exhausted: status 402: "),
        ('{"error": "Unexpected endpoint or method."}', "bad request: status 200: "),
        ('{"choices": [{"message": {"refusal": "I cannot"}}]}', "refused: I cannot"),
        ('{"choices": [{"message": {"content": "fi"}, "finish_reason": "length"}]}', "cut off"),
        ('{"choices": [{"message": {"content": ""}}]}', "empty answer"),
        (response("fi", status="incomplete", incomplete_details=None), "cut off"),
        (response("fi", status="failed", error={"code": "server_error", "message": "boom"}), "no choices"),
        ('{"choices": [{"message": {"content": "fi"}, "finish_reason": "content_filter"}]}', "refused: content_filter"),
        ('{"choices": [{"message": {"content": 0}}]}', "empty answer"),
        ('{"choices": [null]}', "empty answer"),
        ('{"choices": {"0": 1}}', "no choices"),
        ("[" * 100_000, "broken JSON: "),
        ("", "broken JSON: "),
    ],
)
def test_an_answer_of_no_use_says_why_and_is_kept(text: str, error: str) -> None:
    reply = read_body("r", "m", text)
    assert (reply.content, reply.body, reply.sent) == (None, text, True) and (reply.error or "").startswith(error)
    assert "url" not in (reply.error or "") and not llm.Reply("r", "m", error="quota exhausted: not sent").sent


def test_what_a_server_refuses_has_its_reason() -> None:
    codes = {429: "rate limited", 402: "quota exhausted", 401: "key refused", 403: "forbidden", 302: "redirected"}
    codes |= {500: "server error", 404: "bad request", 300: "redirected", 399: "redirected", 299: "bad request"}
    codes |= {400: "bad request", 499: "bad request"}
    assert {code: refusal(code, "a\nb") for code in codes} == {c: f"{why}: status {c}: a b" for c, why in codes.items()}
    for words in ("insufficient_quota", "a billing_hard_limit was reached"):
        assert refusal(429, words) == f"quota exhausted: status 429: {words}"
    assert refusal(400, "x" * 300) == f"bad request: status 400: {'x' * 200}"


LONG = {  # as llama.cpp, vLLM, OpenAI, Anthropic and TGI say it
    "request (24013 tokens) exceeds the available context size (1024 tokens), try increasing it": 400,
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens": 400,
    '{"error": {"code": "context_length_exceeded"}}': 400,
    "prompt is too long: 210000 tokens > 200000 maximum": 413,
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 and 2000": 422,
}


@pytest.mark.parametrize(("said", "status"), LONG.items())
def test_a_text_longer_than_the_context_is_told_from_a_bad_request(said: str, status: int) -> None:
    """`bad request` alone does not say that a longer context would do."""
    assert refusal(status, said) == f"longer than the context: status {status}: {said}"
    assert refusal(500, said).startswith("server error")


def test_half_a_character_is_sent_as_a_question_mark_and_openai_is_known_by_its_address() -> None:
    server = llm.Server("m", sampling=(("seed", 1),))
    assert json.loads(server.payload({"messages": []})) == {"model": "m", "seed": 1, "messages": []}
    payload = server.payload(body("é \ud83d"))
    assert "é ?".encode() in payload and b", " not in payload
    assert server.is_openai and llm.Server("m", "https://eu.api.openai.com/v1").is_openai
    assert not llm.Server("m", "https://api.openai.com.example.org/v1").is_openai


def test_the_longest_answer_and_the_path_of_a_server() -> None:
    limits = {(): 2_000, (("max_tokens", 50),): 50, (("max_completion_tokens", 7), ("max_tokens", 50)): 7}
    limits |= {(("max_tokens", "many"),): 2_000}
    assert {sampling: llm.Server("m", sampling=sampling).longest_answer for sampling in limits} == limits
    server = llm.Server("m")
    assert (server.longest_answer, server.path, server.host) == (2_000, "/chat/completions", "api.openai.com")
    assert (server.way, server.concurrency, server.timeout, server.retries) == ("json_schema", 16, 120.0, 3)
    other = llm.Server("m", "nowhere", way="responses")
    assert (other.path, other.host) == ("/responses", "nowhere")
    assert json.loads(server.payload({})) == {"model": "m", "temperature": 0.0, "max_completion_tokens": 2_000}


def test_an_answer_was_generated_where_it_has_text_tokens_or_such_a_reason() -> None:
    answered = [{"content": ""}, {"tokens_in": 1}, {"error": "refused: no", "tokens_out": 1}, {"error": "cut off: x"}]
    assert all(llm.Reply("r", "m", **fields).answered for fields in answered)
    unanswered = [{}, {"error": "timeout"}, {"tokens_in": 0, "tokens_out": 0}]
    assert not any(llm.Reply("r", "m", **fields).answered for fields in unanswered)
    assert [llm.Reply("r", "m", error=e).reason for e in ("cut off: at: the limit", None)] == ["cut off", None]


def test_another_model_server_or_sampling_is_another_request() -> None:
    url = "http://127.0.0.1:1/v1"
    server, other_server = llm.Server("m", url), llm.Server("m", "http://127.0.0.1:2/v1")
    servers = [llm.Server("n", url), other_server, llm.Server("m", url, sampling=(("temperature", 0.5),))]
    assert server.name(body("a")) not in [s.name(body("a")) for s in servers]
    assert server.name(body("a")) != server.name(body("b"))
    assert server.name(body("a")) == llm.Server("m", f"{url}/", key="other", concurrency=2).name(body("a"))
    assert server.is_loopback and not llm.Server("m", "not a url").is_loopback
    assert llm.Server("m", "http://0.0.0.0:8000/v1").is_loopback  # the address that vLLM prints


def message(**said: Any) -> llm.Reply:
    return read_body("r", "m", json.dumps({"choices": [{"message": said}]}))


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ({"content": None, "tool_calls": [{"function": {"arguments": "{}"}}]}, "{}"),
        ({"content": "thinking", "tool_calls": [{"function": {"arguments": {"a": 1}}}]}, '{"a": 1}'),
        (
            {"tool_calls": [{"function": {"arguments": text}} for text in ('{"a": 1}', "", "{}", "{}")]},
            '[{"a": 1}, {}]',
        ),
        ({"content": [{"type": "thinking", "thinking": [1]}, {"type": "text", "text": "{}"}]}, "{}"),
        ({"content": {"claims": []}}, '{"claims": []}'),
        ({"content": "{}", "reasoning_content": "{draft}"}, "{}"),
        ({"content": None, "reasoning_content": " {} "}, "{}"),
        ({"content": "", "reasoning_content": "I think"}, None),
        ({"content": "", "tool_calls": []}, None),
        ({"content": None, "reasoning": "{}"}, "{}"),
        ({"content": None, "function_call": {"arguments": "{}"}}, "{}"),
        *(({"content": "{}", "tool_calls": odd}, "{}") for odd in ({}, "", [None], [{"function": None}])),
        *(({"content": "{}", "refusal": odd, "reasoning_content": 7}, "{}") for odd in (False, [], {})),
        ({"content": "{} \ud83d"}, "{} ?"),
    ],
)
def test_an_answer_is_read_wherever_a_server_puts_it(said: dict[str, Any], content: str | None) -> None:
    assert message(**said).content == content


REASONED = {"completion_tokens_details": {"reasoning_tokens": 40}}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [  # in, out, cached, of reasoning
        ({"completion_tokens": 50, "total_tokens": 60} | REASONED, (10, 50, 0, 40)),
        # reasoning billed in addition: 10 in + 50 out + 40 of reasoning = 100
        ({"completion_tokens": 50, "total_tokens": 100} | REASONED, (10, 90, 0, 40)),
        # more than the whole answer: not part of it, with or without a total
        ({"completion_tokens": 5} | REASONED, (10, 45, 0, 40)),
        ({"completion_tokens": 5, "total_tokens": 55}, (10, 45, 0, 40)),  # only in the total
        ({"completion_tokens": None, "total_tokens": 8}, (10, None, 0, 0)),
        # the prompt is counted without its cached part, the total with it: 10 + 1000 + 50
        (
            {"completion_tokens": 50, "total_tokens": 1060, "prompt_tokens_details": {"cached_tokens": 1000}},
            (10, 50, 10, 0),
        ),
        ({"completion_tokens": 5, "prompt_cache_hit_tokens": 8}, (10, 5, 8, 0)),
        ({"completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}}, (10, 5, 10, 0)),
        # odd bills
        ({"prompt_tokens": 12.5, "completion_tokens": 3}, (12, 3, 0, 0)),
        ({"prompt_tokens": "9" * 30, "completion_tokens": "many"}, (None, None, 0, 0)),  # too large for a table
        ({"prompt_tokens": -1, "completion_tokens": [3]}, (None, None, 0, 0)),
        ({"prompt_tokens": 10**9, "completion_tokens": 0}, (10**9, 0, 0, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 10**9 + 1}, (0, None, 0, 0)),
        ({"completion_tokens": 3, "prompt_tokens_details": []}, (10, 3, 0, 0)),
        ("7 tokens", (None, None, 0, 0)),
    ],
)
def test_every_token_is_in_the_bill_and_an_odd_bill_costs_nobody_the_answer(usage: Any, tokens: Any) -> None:
    """The answer was paid, even if the server reports an odd price."""
    bill = {"prompt_tokens": 10, **usage} if isinstance(usage, dict) else usage
    reply = read_body("r", "m", json.dumps({"choices": [{"message": {"content": "fine"}}], "usage": bill}))
    assert (reply.content, reply.error) == ("fine", None)
    assert (reply.tokens_in, reply.tokens_out, reply.tokens_cached, reply.tokens_reasoning) == tokens
