"""Before the first text is sent: does this server keep to a schema? One that does not is known by its first answer."""

from dataclasses import replace
from typing import TYPE_CHECKING

from saferec_builder.core.errors import ProposerError, whole_object
from saferec_builder.llm.requests_and_replies import Body, Reply, Server, read_body

if TYPE_CHECKING:
    from saferec_builder.llm.transport import Wire

_WORD = "zephyr-42"
_PROBE: Body = {
    "messages": [{"role": "user", "content": "Write one short sentence about the sea. Plain prose, no JSON."}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {
            "name": "probe",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"word": {"type": "string", "enum": [_WORD]}},
                "required": ["word"],
                "additionalProperties": False,
            },
        },
    },
}


async def post(wire: "Wire", server: Server, request: str, payload: bytes) -> Reply:
    """One chat completion."""
    error, text = await wire.post("/chat/completions", payload)
    if error is not None:
        return Reply(request, server.model, error=error, body=text)
    return read_body(request, server.model, text)


async def probed(wire: "Wire", server: Server) -> Server:
    """The server, known to keep to a schema (only one that enforces it answers this with the word).

    Without any temperature where it refuses one; requests keep their names, so what was paid for stays found.
    """
    reply = await post(wire, server, "probe", server.payload(_PROBE))
    if reply.reason == "bad request" and "temperature" in reply.body:
        server = replace(server, refuses=("temperature",))
        reply = await post(wire, server, "probe", server.payload(_PROBE))
    if reply.error:
        raise ProposerError(f"{server.base_url}, model {server.model}: {reply.error}: check the address, model and key")
    if (whole_object(reply.content or "") or {}).get("word") != _WORD:
        found = " ".join((reply.content or "").split())[:60]
        raise ProposerError(
            f"{server.base_url}, model {server.model}: ignores response_format json_schema (found {found!r}, "
            "expected JSON of the schema): use a server that enforces it, such as llama.cpp, vLLM, SGLang or OpenAI"
        )
    return server
