"""31 kinds of model servers, each odd in its own way: all know the answer, few give it in the form asked for.

25 give usable answers, 3 are paid for nothing, 3 give nothing and bill nothing.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.servers.llm_stub import SEA, Handler, Stub, completion, status, unbilled
from tests.worlds.model_replies import answer, claim

ASKS = "Give the word that the schema allows."  # text of the probe on the other steps of the ladder
TEXTS = tuple(f"no blood for me please, film {n}" for n in range(5))
USABLE, PAID_FOR_NOTHING, UNPAID = 25, 3, 3

Say = Callable[[Handler, dict[str, Any]], None]


def is_probe(h: Handler) -> bool:
    return SEA in h.text or ASKS in h.text


def right(h: Handler) -> str:
    return '{"word": "zephyr-42", "places": []}' if is_probe(h) else answer(claim("gore", "blood"))


def way(body: dict[str, Any]) -> str:
    kind = body.get("response_format", {}).get("type")
    return kind or ("tool" if "tools" in body else "text")


def told(h: Handler, content: Any, **message: Any) -> None:
    h.reply(200, completion(content, **message))


def called(h: Handler) -> None:
    told(h, None, tool_calls=[{"type": "function", "function": {"name": "claims", "arguments": right(h)}}])


def refuse(h: Handler, what: str) -> None:
    h.reply(400, json.dumps({"error": {"message": f"{what} is not supported by this model"}}))


def of_ways(**says: Callable[[Handler], None]) -> Say:
    """A server that answers these ways of asking, and replies to all others with prose."""
    prose = lambda h: told(h, "The sea is calm, and no blood is in it.")  # noqa: E731
    return lambda h, body: says.get(way(body), prose)(h)


def in_text(wrap: Callable[[str], Any], **message: Any) -> Say:
    """A server that enforces no schema, with a model that answers as the text asks, in its own manner."""
    return of_ways(text=lambda h: told(h, wrap(right(h)), **message))


def changed(**changes: Any) -> Say:
    """A model that is held to JSON, but to nothing inside it."""
    edited = json.dumps({"claims": [claim("gore", "blood") | changes]})
    return of_ways(json_object=lambda h: told(h, right(h) if is_probe(h) else edited))


def without(name: str) -> Say:
    return lambda h, body: refuse(h, name) if name in body else told(h, right(h))


def refuses_system(h: Handler, body: dict[str, Any]) -> None:
    if body["messages"][0]["role"] == "system":
        refuse(h, "role system")
    else:
        told(h, right(h))


def refuses_forms(*known: str) -> Say:
    def say(h: Handler, body: dict[str, Any]) -> None:
        kind = way(body)
        if kind not in known:
            refuse(h, "response_format" if kind.startswith("json") else "tools")
        elif kind == "tool":
            called(h)
        else:
            told(h, right(h))

    return say


def after_the_probe(say: Callable[[Handler], None]) -> Say:
    return lambda h, body: told(h, right(h)) if is_probe(h) else say(h)


def python(text: str) -> str:
    return repr(json.loads(text)).replace("]}", "],}")


def beside(h: Handler) -> None:
    data = json.loads(right(h))
    if not is_probe(h):
        data["claims"].append(claim("sadness", "blood"))
    told(h, json.dumps(data))


THOUGHT = "The seeker says {something} about blood."
KINDS: dict[str, Say] = {
    "keeps to the schema": lambda h, body: told(h, right(h)),
    "ignores the schema, calls tools": of_ways(tool=called),
    "refuses response_format, calls tools": refuses_forms("tool", "text"),
    "refuses schema and tools, knows json_object": refuses_forms("json_object", "text"),
    "refuses every form, answers text": refuses_forms("text"),
    "ends with 500 at a schema": of_ways(json_schema=status(500), tool=status(500), text=lambda h: told(h, right(h))),
    "refuses a temperature": without("temperature"),
    "wants max_tokens": without("max_completion_tokens"),
    "refuses the role system": refuses_system,
    "fences its answer": in_text(lambda text: f"```json\n{text}\n```"),
    "thinks aloud": in_text(lambda text: f"<think>{THOUGHT}</think>\n\n{text}"),
    "only ends its thought": in_text(lambda text: f"{THOUGHT}</think>{text}"),
    "thinks beside the answer": of_ways(json_schema=lambda h: told(h, right(h), reasoning_content=THOUGHT)),
    "files the answer under its thoughts": of_ways(
        json_schema=lambda h: told(h, None, reasoning_content=right(h)),
    ),
    "talks around its answer": in_text(lambda text: f"Sure! Here is what I found:\n{text}\nLet me know (if any)."),
    "answers in parts": in_text(lambda text: [{"type": "text", "text": part} for part in (text[:9], text[9:])]),
    "gives the content as an object": in_text(json.loads),
    "writes Python, and a comma too many": in_text(python),
    "wraps the list in another name": in_text(lambda text: text.replace('"claims"', '"result"')),
    "gives a string with JSON in it": in_text(json.dumps),
    "explains each claim": changed(reason="They say so."),
    "rates from 0 to 1, in capitals": changed(confidence=0.8, verdict="Present", form="Explicit", trait="GORE"),
    "invents a trait beside": of_ways(json_object=beside),
    "quotes with other marks": changed(evidence=[{"turn": "0", "quote": "“No BLOOD…”"}]),
    "names no tokens": lambda h, body: h.reply(200, unbilled(right(h))),
    # paid for nothing
    "thinks until it is cut off": after_the_probe(lambda h: h.reply(200, completion("", "length"))),
    "refuses each text": after_the_probe(lambda h: told(h, None, refusal="I cannot help with that.")),
    "answers nothing": after_the_probe(lambda h: told(h, "")),
    # gives nothing, bills nothing
    "is overloaded for ever": after_the_probe(status(429)),
    "fails for ever": after_the_probe(status(500)),
    "sends a page to log in": after_the_probe(status(200, "<!doctype html><p>log in</p>")),
}


def odd(stub: Stub, kind: str) -> None:
    """Turns the stub into a server of this kind; only right where requests come one at a time."""
    stub.usual = lambda h: KINDS[kind](h, h.server.bodies[-1])
    stub.scripts = {SEA: [stub.usual]}
