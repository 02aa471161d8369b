"""How a schema is requested if nothing enforces it, and how the JSON is found in the text around it."""

import json
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm.answer_forms import LONGEST, WAYS, json_in
from saferec_builder.llm.requests_and_replies import read_body

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "claims", "strict": True, "schema": SCHEMA}}
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Read."}, {"role": "user", "content": "blood"}],
    "response_format": FORM,
}


def sent(**options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(llm.Server("m", **options).payload(BODY))
    return body


def test_every_way_asks_for_the_same_schema_under_the_same_name() -> None:
    by_way = {way: sent(way=way) for way in WAYS}
    assert by_way["json_schema"]["response_format"] == FORM and by_way["json_schema"]["messages"] == BODY["messages"]
    tool_body = by_way["tool"]
    assert tool_body["tools"][0]["function"]["parameters"] == SCHEMA and "response_format" not in tool_body
    assert tool_body["tool_choice"]["function"] == {"name": "claims"}
    for way, form in (("json_object", {"type": "json_object"}), ("text", None)):
        assert by_way[way].get("response_format") == form
        system, user = by_way[way]["messages"]
        assert system["content"].startswith("Read.\n\n") and json.dumps(SCHEMA) in system["content"]
        assert user == BODY["messages"][1]
    assert len({llm.Server("m", way=way).name(BODY) for way in WAYS}) == 1
    assert BODY["response_format"] == FORM and BODY["messages"][0]["content"] == "Read."  # not changed in place


def test_what_a_server_refuses_is_said_in_other_words() -> None:
    body = sent(refuses=("max_completion_tokens", "system", "temperature"))
    assert body["max_tokens"] == 2_000 and not {"max_completion_tokens", "temperature"} & body.keys()
    assert body["messages"] == [{"role": "user", "content": "Read.\n\nblood"}]


WORD = '{"word": "a \\"b\\" {c}"}'


@pytest.mark.parametrize(
    "text",
    [
        *(WORD, f"\ufeff {WORD}\n", f"```json\n{WORD}\n```", f"Sure:\n```\n[]\n```\nor\n```JSON\n{WORD}\n```."),
        *(f"<think>{{}} or [1]</think>\n{WORD}", f"so {{}}</thinking>{WORD}", f"I found {WORD}. Anything else?"),
        *(f"[THINK]{{}} a [b][/THINK]{WORD}", f"<thought>use {{x}}</thought>{WORD}"),
        f"<|channel|>analysis<|message|>so {{x}}<|end|><|channel|>final<|message|>{WORD}",
        *(f"[x] {WORD}", f"Here: {WORD} and [note]"),
        *("{'word': 'a \"b\" {c}',}", json.dumps(WORD), f"<|channel|>final<|message|>{WORD}<|end|>"),
    ],
)
def test_the_object_is_found_in_what_stands_around_it(text: str) -> None:
    assert json_in(text) == {"word": 'a "b" {c}'}


def test_an_answer_that_is_json_is_read_as_it_stands() -> None:
    """A quote may contain the end mark of thoughts, or be longer than the limit of the search for JSON."""
    for quote in ("I wrote </think> there", "a" * (LONGEST + 1)):
        assert json_in(json.dumps({"claims": [{"quote": quote}]})) == {"claims": [{"quote": quote}]}


@pytest.mark.parametrize(
    "text",
    [
        *("", "fine", "7", '"fine"', "{", "{]", '{"a": 1, "a": 2}', "{'a': 1, 'a': 2}", "{'a': open('x')}", "{1: [}"),
        *("[" * 100_000, "{" * 5_000 + "}" * 5_000, "(" * 5_000 + ")" * 5_000, "<think>{}", "{'\\d': 1"),
        "```" + "\n" * 199_000 + "x",  # a fence and endless lines took ten minutes
    ],
)
def test_nothing_is_made_of_what_is_no_object(text: str) -> None:
    parsed = json_in(text)
    assert parsed is None or (text == "<think>{}" and parsed == {})


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
    ("usage", "out", "cached", "reasoning"),
    [
        ({"completion_tokens": 50, "total_tokens": 60} | REASONED, 50, 0, 40),
        # reasoning billed in addition: 10 in + 50 out + 40 of reasoning = 100
        ({"completion_tokens": 50, "total_tokens": 100} | REASONED, 90, 0, 40),
        # more than the whole answer: not part of it, with or without a total
        ({"completion_tokens": 5} | REASONED, 45, 0, 40),
        ({"completion_tokens": 5, "total_tokens": 55}, 45, 0, 40),  # only in the total
        ({"completion_tokens": None, "total_tokens": 8}, None, 0, 0),
        # the prompt is counted without its cached part, the total with it: 10 + 1000 + 50
        ({"completion_tokens": 50, "total_tokens": 1060, "prompt_tokens_details": {"cached_tokens": 1000}}, 50, 10, 0),
        ({"completion_tokens": 5, "prompt_cache_hit_tokens": 8}, 5, 8, 0),
        ({"completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}}, 5, 10, 0),
    ],
)
def test_cached_and_reasoning_tokens_are_in_the_bill(
    usage: dict[str, Any], out: int | None, cached: int, reasoning: int
) -> None:
    body = {"choices": [{"message": {"content": "{}"}}], "usage": {"prompt_tokens": 10, **usage}}
    reply = read_body("r", "m", json.dumps(body))
    assert (reply.tokens_in, reply.tokens_out) == (10, out)
    assert (reply.tokens_cached, reply.tokens_reasoning) == (cached, reasoning)
