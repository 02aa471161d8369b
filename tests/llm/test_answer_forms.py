"""How a schema is requested if nothing enforces it, and how the JSON is found in the text around it."""

import json
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm.answer_forms import LONGEST, WAYS, as_completion, as_response, json_in, shaped

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "claims", "strict": True, "schema": SCHEMA}}
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Read."}, {"role": "user", "content": "blood"}],
    "response_format": FORM,
}


INSTRUCTION = f"""Read.

Answer with one JSON object of this JSON schema and with nothing else:
{json.dumps(SCHEMA)}"""


def sent(**options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(llm.Server("m", **options).payload(BODY))
    return body


def test_the_words_of_each_way_under_one_name() -> None:
    strict, tool, json_object, text, response = (sent(way=way, sampling=()) for way in WAYS)
    assert strict == {"model": "m", **BODY}
    function = {"name": "claims", "description": "Gives the answer.", "parameters": SCHEMA}
    choice = {"type": "function", "function": {"name": "claims"}}
    messages = BODY["messages"]
    expected = {"model": "m", "messages": messages, "tools": [{"type": "function", "function": function}]}
    assert tool == expected | {"tool_choice": choice}
    assert text == {"model": "m", "messages": [{"role": "system", "content": INSTRUCTION}, messages[1]]}
    assert json_object == text | {"response_format": {"type": "json_object"}}
    assert len({llm.Server("m", way=way).name(BODY) for way in WAYS}) == 1
    assert BODY["response_format"] == FORM and messages[0]["content"] == "Read."  # not changed in place
    form = {"type": "json_schema", "name": "claims", "strict": True, "schema": SCHEMA}
    assert response == {"model": "m", "input": messages, "store": False, "text": {"format": form}}
    body = {"max_tokens": 9, "reasoning_effort": "low", "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}}
    renamed = {"max_output_tokens": 9, "reasoning": {"summary": "auto", "effort": "low"}, "store": False}
    assert as_response(body) == renamed | {"text": {"verbosity": "low"}}
    verbose = as_response(body | {"response_format": FORM})["text"]
    assert verbose == {"verbosity": "low", "format": form}
    for way in WAYS:  # without a schema, nothing is said of one
        assert shaped({"messages": messages}, way) == {"messages": messages}


def test_what_a_server_refuses_is_said_in_other_words() -> None:
    body = sent(refuses=("max_completion_tokens", "system", "temperature", "top_p"), way="text")
    content = f"{INSTRUCTION}\n\nblood"
    assert body == {"model": "m", "max_tokens": 2_000, "messages": [{"role": "user", "content": content}]}


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


def test_a_list_is_found_in_prose() -> None:
    assert json_in('I found [{"a": 1}, {"b": 2}], no more.') == [{"a": 1}, {"b": 2}]


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


OUTPUT = {
    "output": [
        *("x", {"type": "reasoning", "content": [{"type": "output_text", "text": "no"}]}, {"type": "message"}),
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "fi"}, "x", {"type": "output_text", "text": 1}],
        },
        {"type": "message", "content": [{"type": "output_text", "text": "ne"}]},
    ]
}
LIMIT, FILTER = ({"reason": reason} for reason in ("max_output_tokens", "content_filter"))


@pytest.mark.parametrize(
    ("state", "finish"),
    [
        ({}, None),
        ({"status": "completed"}, None),
        ({"status": "incomplete"}, "length"),
        ({"status": "completed", "incomplete_details": LIMIT}, "length"),
        ({"status": "incomplete", "incomplete_details": FILTER}, "content_filter"),
    ],
)
def test_a_response_becomes_a_completion(state: dict[str, Any], finish: str | None) -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {}, "output_tokens_details": 1, "more": 2}
    message = {"content": "fine", "refusal": None}
    counts = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {}, "completion_tokens_details": 1}
    expected = {"choices": [{"finish_reason": finish, "message": message}], "usage": counts | {"more": 2}}
    assert as_completion(OUTPUT | state | {"usage": usage}) == expected
    refused = [{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}]
    completion = as_completion({"output": refused, "usage": []})
    assert completion["choices"][0]["message"] == {"content": "", "refusal": "I cannot"} and completion["usage"] == {}


def test_what_is_no_response_stays_as_it_is() -> None:
    for value in (None, [OUTPUT], {"output": "fine"}, {}, OUTPUT | {"choices": []}):
        assert as_completion(value) is value
    assert as_completion(OUTPUT | {"status": "failed"})["choices"] == []
