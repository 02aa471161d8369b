"""Before the first text is sent: how does this model give an answer of a schema, and what does its server refuse?"""

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
_SEA = "Write one short sentence about the sea. Plain prose, no JSON."  # only a schema that is enforced overrules it
_ASKS = "Give the word that the schema allows."
_SCHEMA: Body = {  # with what the schema of an answer has: some servers refuse a part of it
    "type": "object",
    "properties": {
        "word": {"type": "string", "enum": [_WORD]},
        "places": {"type": "array", "maxItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 9}},
    },
    "required": ["word", "places"],
    "additionalProperties": False,
}
_FORM: Body = {"type": "json_schema", "json_schema": {"name": "probe", "strict": True, "schema": _SCHEMA}}
_REFUSED: dict[str, tuple[str, ...]] = {  # what a parameter is known by in the words of a server that refuses it
    "temperature": ("temperature",),
    "max_completion_tokens": ("max_completion_tokens",),
    "system": ("system", "role"),
}
_CHECK = "no way of asking gave an answer of a schema: check the address, the model's name and the key"
_TRY_ANOTHER_WAY = ("bad request", "server error", "empty answer", "no choices", "refused")


async def post(wire: "Wire", server: Server, request: str, payload: bytes) -> Reply:
    """One answer."""
    error, text = await wire.post(server.path, payload)
    if error is not None:
        return Reply(request, server.model, error=error, body=text)
    return read_body(request, server.model, text)


async def probed(wire: "Wire", server: Server, budget: Budget, found: Found | None = None) -> Server:
    """The server with the strictest way of asking that it answers, and without the parameters that it refuses.

    The way that it has is tried first. `found` is called with what is returned; requests keep their names, so what was
    paid for stays found. Raises ProposerError where no way gives an answer.
    """
    faults: dict[str, str] = {}
    for way in dict.fromkeys((server.way, *WAYS)):
        made, reply = await _tried(wire, replace(server, way=way), budget)
        if made:
            if found:
                found(made)
            return made
        told = " ".join((reply.content or "").split())[:60]
        faults[way] = reply.error or f"ignores it (found {told!r})"
        if reply.reason == "connection failed":
            raise ProposerError(
                f"{server.base_url}: no server answers there ({reply.error}): start it, or correct base_url"
            )
        if reply.error and reply.reason not in _TRY_ANOTHER_WAY:
            break  # the next way would end alike
    ways = {why: ", ".join(way for way, other in faults.items() if other == why) for why in faults.values()}
    tried = f"{server.base_url}, model {server.model}: {'; '.join(f'{way}: {why}' for why, way in ways.items())}: "
    raise ProposerError(tried + ("raise [propose] max_tokens" if reply.reason == "cut off" else _CHECK))


async def _tried(wire: "Wire", server: Server, budget: Budget) -> tuple[Server | None, Reply]:
    """(the server as it answers this way, or None; its last reply): each refusal names one parameter."""
    words = _SEA if server.way == WAYS[0] else _ASKS
    system: Body = {"role": "system", "content": "You answer one question."}
    body: Body = {"messages": [system, {"role": "user", "content": words}], "response_format": _FORM}
    while True:
        payload = server.payload(body)
        if not budget.affords(server, len(payload)):
            return None, Reply("probe", server.model, error="budget reached before the first text")
        reply = await post(wire, server, "probe", payload)
        budget.pay_probe(reply)
        refused = _refused(server, reply)
        if refused is None:
            break
        server = replace(server, refuses=(*server.refuses, refused))
    said = json_in(reply.content) if reply.content else None
    whole = isinstance(said, dict) and said.get("word") == _WORD
    return (server if whole else None), reply


def _refused(server: Server, reply: Reply) -> str | None:
    """The first parameter, not left out yet, that a refusal names."""
    if reply.reason != "bad request":
        return None
    words = reply.body.lower()
    new = (name for name in _REFUSED if name not in server.refuses)
    return next((name for name in new if all(part in words for part in _REFUSED[name])), None)
