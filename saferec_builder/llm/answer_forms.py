"""Ways of asking a model for an answer of a schema, strictest first, and the JSON in whatever text comes back."""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue

WAYS = ("json_schema", "tool", "json_object", "text")
LONGEST = 200_000  # characters in which JSON is looked for

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.S)
_FENCED = re.compile(r"```\w*\s*\n(.*?)```", re.S)


def shaped(body: Mapping[str, JsonValue], way: str) -> dict[str, JsonValue]:
    """The same request as this way has it; where nothing enforces the schema, the first message tells it."""
    rest: dict[str, Any] = dict(body)
    form = rest.pop("response_format", None)
    if way == "json_schema" or form is None:
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


def json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list in an answer: alone, fenced, after thoughts, amid prose, as Python writes it, or as a string.

    None where there is none, or where a key comes twice in one object: which of the two counts is anybody's guess.
    """
    text = _THOUGHT.sub("", text[:LONGEST]).lstrip("\ufeff").strip()
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
