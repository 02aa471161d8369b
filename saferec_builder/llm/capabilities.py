"""Probes a server before the first text is sent: how it gives answers of a schema, and which parameters it refuses."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from saferec_builder.core.errors import ProposerError
from saferec_builder.llm.answer_forms import WAYS, json_in
from saferec_builder.llm.pricing import Budget
from saferec_builder.llm.requests_and_replies import Body, Reply, Server, read_body

if TYPE_CHECKING:
    from saferec_builder.llm.transport import Wire

Found = Callable[[Server], None]

_WORD = "zephyr-42"
_PROSE = "Write one short sentence about the sea. Plain prose, no JSON."  # only an enforced schema overrules it
_ASK_WORD = "Give the word that the schema allows."
_SCHEMA: Body = {  # has every feature of the schema of claims: some servers refuse one of them
    "type": "object",
    "properties": {
        "word": {"type": "string", "enum": [_WORD]},
        "places": {"type": "array", "maxItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 9}},
    },
    "required": ["word", "places"],
    "additionalProperties": False,
}
_RESPONSE_FORMAT: Body = {"type": "json_schema", "json_schema": {"name": "probe", "strict": True, "schema": _SCHEMA}}
_REFUSAL_WORDS: dict[str, tuple[str, ...]] = {  # parameter -> words of a server's refusal that name it
    "temperature": ("temperature",),
    "max_completion_tokens": ("max_completion_tokens",),
    "system": ("system", "role"),
}
_ADVICE = {  # by the reason of the last error
    "cut off": "raise [propose] max_tokens, or the model's own limit",
    "longer than the context": "serve the model with a longer context, or lower [propose] max_tokens",
}
_CHECK = (
    "no way of asking gave an answer of a schema: check the address (most end in /v1), the model's name and the key"
)
_ASKED = f'the only right answer to this test question is {{"word": "{_WORD}", "places": []}}; '
_IGNORES = "ignores it"
_MAY_PASS = ("server error", "connection failed")
_TRY_ANOTHER_WAY = (*_MAY_PASS, "bad request", "empty answer", "no choices", "refused")


async def post(wire: "Wire", server: Server, request: str, payload: bytes) -> Reply:
    """Sends one request and reads its reply."""
    error, text = await wire.post(server.path, payload)
    if error is not None:
        return Reply(request, server.model, error=error, body=text)
    return read_body(request, server.model, text)


async def probed(wire: "Wire", server: Server, budget: Budget, found: Found | None = None) -> Server:
    """Returns the server with the strictest way of asking that it answers, without the parameters that it refuses.

    Its present way is tried first. A way that failed by a fault that may pass is tried again once a less strict one is
    answered. `found` is called with the result, unless it is not certain that each stricter way fails again: then the
    next run tries it again. Requests keep their names, so replies that were paid for are still found. Raises
    ProposerError if no way gives an answer.
    """
    faults: dict[str, str] = {}
    for way in dict.fromkeys((server.way, *WAYS)):
        working, reply = await _try_way(wire, replace(server, way=way), budget)
        if working:
            stricter = [other for other in WAYS[: WAYS.index(way)] if faults.get(other, "").startswith(_MAY_PASS)]
            strictest, certain = await _try_again(wire, [replace(server, way=other) for other in stricter], budget)
            if found and certain:
                found(strictest or working)
            return strictest or working
        if reply.reason == "connection failed" and not faults:  # a server may also drop one way of asking only
            raise ProposerError(
                f"{server.base_url}: no server answers there ({reply.error}): start it, or correct base_url"
            )
        answer = " ".join((reply.content or "").split())[:60]
        faults[way] = reply.error or f"{_IGNORES} (found {answer!r})"
        if reply.error and reply.reason not in _TRY_ANOTHER_WAY:
            break  # the next way would end in the same way
    ways = {fault: ", ".join(way for way, other in faults.items() if other == fault) for fault in faults.values()}
    text = f"{server.base_url}, model {server.model}: {'; '.join(f'{way}: {fault}' for fault, way in ways.items())}: "
    asked = _ASKED if any(fault.startswith(_IGNORES) for fault in faults.values()) else ""
    raise ProposerError(text + asked + _ADVICE.get(reply.reason or "", _CHECK))


async def _try_again(wire: "Wire", servers: list[Server], budget: Budget) -> tuple[Server | None, bool]:
    """Returns (the first of these that answers now, or None; whether all before it have failed once more)."""
    for server in servers:
        working, reply = await _try_way(wire, server, budget)
        if working:
            return working, True
        if reply.error and reply.reason not in _TRY_ANOTHER_WAY:
            return None, False
    return None, True


async def _try_way(wire: "Wire", server: Server, budget: Budget) -> tuple[Server | None, Reply]:
    """Returns (the server if it answers this way, else None; its last reply). Each refusal names one parameter."""
    question = _PROSE if server.way == WAYS[0] else _ASK_WORD
    system: Body = {"role": "system", "content": "You answer one question."}
    body: Body = {"messages": [system, {"role": "user", "content": question}], "response_format": _RESPONSE_FORMAT}
    while True:
        payload = server.payload(body)
        if not budget.affords(server, len(payload)):
            return None, Reply("probe", server.model, error="budget reached before the first text")
        reply = await post(wire, server, "probe", payload)
        budget.pay_probe(reply)
        parameter = _refused_parameter(server, reply)
        if parameter is None:
            break
        server = replace(server, refuses=(*server.refuses, parameter))
    answer = json_in(reply.content) if reply.content else None
    is_valid = isinstance(answer, dict) and answer.get("word") == _WORD
    return (server if is_valid else None), reply


def _refused_parameter(server: Server, reply: Reply) -> str | None:
    """The first parameter that a refusal names and that is not left out yet."""
    if reply.reason not in ("bad request", "server error"):  # a template without `system` ends with 500
        return None
    text = reply.body.lower()
    remaining = (name for name in _REFUSAL_WORDS if name not in server.refuses)
    return next((name for name in remaining if all(word in text for word in _REFUSAL_WORDS[name])), None)
