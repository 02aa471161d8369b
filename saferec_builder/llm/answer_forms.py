"""Ways of asking a model for an answer of a schema, strictest first, and the JSON in whatever text comes back."""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue

WAYS = ("json_schema", "tool", "json_object", "text", "responses")  # the last by OpenAI's other API, with the schema
RESPONSES = WAYS[-1]
LONGEST = 200_000  # characters in which JSON is looked for

_RENAMED = {"messages": "input", "max_completion_tokens": "max_output_tokens", "max_tokens": "max_output_tokens"}
_SAID = {"output_text": "text", "refusal": "refusal"}  # parts of a message, and where their words stand
_COUNTED = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.S)
_FENCED = re.compile(r"```\w*\s*\n(.*?)```", re.S)


def shaped(body: Mapping[str, JsonValue], way: str) -> dict[str, JsonValue]:
    """The same request as this way has it; where nothing enforces the schema, the first message tells it."""
    rest: dict[str, Any] = dict(body)
    form = rest.pop("response_format", None)
    if way in ("json_schema", RESPONSES) or form is None:
        return dict(body)
    name, schema = form["json_schema"]["name"], form["json_schema"]["schema"]
    if way == "tool":
        function = {"name": name, "description": "Gives the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": name}}
        return rest | {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    first, *others = rest["messages"]
    asked = f"Answer with one JSON object of this JSON schema and with nothing else:\n{json.dumps(schema)}"
    rest["messages"] = [first | {"content": f"{first['content']}\n\n{asked}"}, *others]
    return rest | ({"response_format": {"type": "json_object"}} if way == "json_object" else {})


def in_one_message(body: dict[str, Any]) -> None:
    """Makes all messages the user's, for models that refuse the role `system`."""
    body["messages"] = [{"role": "user", "content": "\n\n".join(m["content"] for m in body["messages"])}]


def as_response(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A chat completion's request as `/responses` takes it. The server is told to keep nothing: by itself it would keep
    what was sent for 30 days."""
    rest: dict[str, Any] = {_RENAMED.get(name, name): value for name, value in body.items()}
    if form := rest.pop("response_format", None):
        rest["text"] = {**rest.get("text", {}), "format": {"type": "json_schema", **form["json_schema"]}}
    if effort := rest.pop("reasoning_effort", None):
        rest["reasoning"] = {**rest.get("reasoning", {}), "effort": effort}
    return rest | {"store": False}


def as_completion(reply: Any) -> Any:
    """A reply of `/responses` as that of a chat completion; any other stays as it is."""
    if not isinstance(reply, dict) or "choices" in reply or not isinstance(reply.get("output"), list):
        return reply
    messages = [one for one in reply["output"] if isinstance(one, dict) and one.get("type") == "message"]
    content = [part for one in messages if isinstance(one.get("content"), list) for part in one["content"]]
    parts = [part for part in content if isinstance(part, dict)]
    said = {
        kind: "".join(part[name] for part in parts if part.get("type") == kind and isinstance(part.get(name), str))
        for kind, name in _SAID.items()
    }
    why = reply["incomplete_details"].get("reason") if isinstance(reply.get("incomplete_details"), dict) else None
    cut = why == "max_output_tokens" or (reply.get("status") == "incomplete" and why is None)
    choice = {"finish_reason": "length" if cut else why}
    choice |= {"message": {"content": said["output_text"], "refusal": said["refusal"] or None}}
    usage = reply["usage"] if isinstance(reply.get("usage"), dict) else {}
    return {
        # one that failed is no answer, whatever was said until then
        "choices": [choice] if reply.get("status") in ("completed", "incomplete", None) else [],
        "usage": {_COUNTED.get(name, name): count for name, count in usage.items()},
    }


def json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list in an answer: alone, fenced, after thoughts, amid prose, as Python writes it, or as a string.

    None where there is none, or where a key comes twice in one object: which of the two counts is anybody's guess.
    """
    whole = text.lstrip("\ufeff").strip()
    try:  # as it stands: the quote in it may be of a text that has thoughts, too
        if isinstance(found := strict_json(whole), dict | list):
            return found
    except KeyTwice:
        return None
    except (ValueError, RecursionError):
        pass
    text = _THOUGHT.sub("", whole[:LONGEST]).strip()
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    amid = text[min(starts) : max(text.rfind("}"), text.rfind("]")) + 1] if starts else ""
    alone = text[text.find("{") : text.rfind("}") + 1]  # where the prose has brackets of its own
    try:
        for part in (text, *_FENCED.findall(text)[-1:], amid, alone):
            found = _loaded(part)
            if isinstance(found, dict | list):
                return found
            if isinstance(found, str) and found != text:
                return json_in(found)
    except KeyTwice:
        pass
    return None


def _loaded(text: str) -> Any:
    """JSON, or a Python literal: single quotes and a comma too many are what models write most."""
    try:
        return strict_json(text)
    except KeyTwice:
        raise
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that Python does not know
            tree = ast.parse(text.strip(), mode="eval")
            _once_each(tree)
            return ast.literal_eval(tree)
    except KeyTwice:
        raise
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _once_each(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []
        if len(set(names)) < len(names):
            raise KeyTwice("a key comes twice in one object")
