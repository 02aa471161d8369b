"""Ways of asking a model for an answer of a schema, strictest first, and the JSON in the text that it answers."""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue

WAYS = ("json_schema", "tool", "json_object", "text", "responses")  # the last: OpenAI's other API, with the schema
RESPONSES = WAYS[-1]
LONGEST = 200_000  # characters of an answer that are searched for JSON

_REQUEST_NAMES = {"messages": "input", "max_completion_tokens": "max_output_tokens", "max_tokens": "max_output_tokens"}
_TEXT_FIELDS = {"output_text": "text", "refusal": "refusal"}  # type of a message's part -> its field with the text
_USAGE_NAMES = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_THOUGHT = re.compile(
    r"\A.*(?:</(?:think(?:ing)?|thought|reasoning)>|\[/THINK\]|<\|channel\|>final<\|message\|>)", re.S
)
_FENCED = re.compile(r"```\w*[^\S\n]*\n(.*?)```", re.S)


def shaped(body: Mapping[str, JsonValue], way: str) -> dict[str, JsonValue]:
    """The request in the form of this way; if nothing enforces the schema, the first message states it."""
    request: dict[str, Any] = dict(body)
    form = request.pop("response_format", None)
    if way in ("json_schema", RESPONSES) or form is None:
        return dict(body)
    name, schema = form["json_schema"]["name"], form["json_schema"]["schema"]
    if way == "tool":
        function = {"name": name, "description": "Gives the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": name}}
        return request | {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    first, *others = request["messages"]
    instruction = f"Answer with one JSON object of this JSON schema and with nothing else:\n{json.dumps(schema)}"
    request["messages"] = [first | {"content": f"{first['content']}\n\n{instruction}"}, *others]
    return request | ({"response_format": {"type": "json_object"}} if way == "json_object" else {})


def in_one_message(body: dict[str, Any]) -> None:
    """Joins all messages into one of the user, for models that refuse the role `system`."""
    body["messages"] = [{"role": "user", "content": "\n\n".join(m["content"] for m in body["messages"])}]


def as_response(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A chat completion's request in the form of `/responses`, with `store` off: else it would be kept for 30 days."""
    request: dict[str, Any] = {_REQUEST_NAMES.get(name, name): value for name, value in body.items()}
    if form := request.pop("response_format", None):
        request["text"] = {**request.get("text", {}), "format": {"type": "json_schema", **form["json_schema"]}}
    if effort := request.pop("reasoning_effort", None):
        request["reasoning"] = {**request.get("reasoning", {}), "effort": effort}
    return request | {"store": False}


def as_completion(reply: Any) -> Any:
    """A reply of `/responses` in the form of a chat completion; returns any other value unchanged."""
    if not isinstance(reply, dict) or "choices" in reply or not isinstance(reply.get("output"), list):
        return reply
    messages = [item for item in reply["output"] if isinstance(item, dict) and item.get("type") == "message"]
    content = [part for item in messages if isinstance(item.get("content"), list) for part in item["content"]]
    parts = [part for part in content if isinstance(part, dict)]
    texts = {
        kind: "".join(part[name] for part in parts if part.get("type") == kind and isinstance(part.get(name), str))
        for kind, name in _TEXT_FIELDS.items()
    }
    reason = reply["incomplete_details"].get("reason") if isinstance(reply.get("incomplete_details"), dict) else None
    is_cut = reason == "max_output_tokens" or (reply.get("status") == "incomplete" and reason is None)
    choice = {"finish_reason": "length" if is_cut else reason}
    choice |= {"message": {"content": texts["output_text"], "refusal": texts["refusal"] or None}}
    usage = reply["usage"] if isinstance(reply.get("usage"), dict) else {}
    return {
        # a failed one is no answer, whatever text came before it failed
        "choices": [choice] if reply.get("status") in ("completed", "incomplete", None) else [],
        "usage": {_USAGE_NAMES.get(name, name): count for name, count in usage.items()},
    }


def json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list in an answer: alone, fenced, after thoughts, in prose, as a Python literal, or as a string.

    None if there is none, or if a key occurs twice in one object: nothing says which of the two counts.
    """
    stripped = text.lstrip("\ufeff").strip()
    try:  # unchanged first: a quote in it may contain the mark that ends thoughts
        if isinstance(value := strict_json(stripped), dict | list):
            return value
    except KeyTwice:
        return None
    except (ValueError, RecursionError):
        pass
    text = _THOUGHT.sub("", stripped[:LONGEST]).strip()
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    in_prose = text[min(starts) : max(text.rfind("}"), text.rfind("]")) + 1] if starts else ""
    braces = text[text.find("{") : text.rfind("}") + 1]  # if the prose has brackets too
    try:
        for part in (text, *_FENCED.findall(text)[-1:], in_prose, braces):
            value = _parsed(part)
            if isinstance(value, dict | list):
                return value
            if isinstance(value, str) and value != text:
                return json_in(value)
    except KeyTwice:
        pass
    return None


def _parsed(text: str) -> Any:
    """Parses JSON or a Python literal: models often write single quotes or a comma too many. None if it is neither."""
    try:
        return strict_json(text)
    except KeyTwice:
        raise
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes that Python does not know
            tree = ast.parse(text.strip(), mode="eval")
            _check_keys(tree)
            return ast.literal_eval(tree)
    except KeyTwice:
        raise
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _check_keys(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []
        if len(set(names)) < len(names):
            raise KeyTwice("a key comes twice in one object")
