"""How requests are sent: most are copies of the first one by openai's client, which servers cannot tell apart."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError
from saferec_builder.llm import transport
from saferec_builder.llm.transport import Wire
from tests.servers.llm_stub import SEA, Handler, Stub, probe, says, slow
from tests.worlds.llm_client import BUSY, KEY, Kept, ask, body


def test_a_copy_says_what_openais_client_says(stub: Stub) -> None:
    log: list[dict[str, str]] = []

    def record(h: Handler) -> None:
        log.append(dict(h.headers))
        BUSY(h)

    stub.scripts = {SEA: [record, probe], "a": [record]}  # the first request with an answer is itself a retry
    assert ask(stub, "a", retries=1)[0].reason == "rate limited"
    original, copied, retried = ({k: v for k, v in headers.items() if k != "content-length"} for headers in log)
    assert copied == original and copied["x-stainless-retry-count"] == "0"
    assert retried == copied | {"x-stainless-retry-count": "1"}
    assert stub.bodies[2] == stub.bodies[3]


def test_a_request_leaves_before_the_next_is_made(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all were built first, they would be sent at once, and all answers would arrive at once, again and again."""
    posted = 0
    post = Wire.post

    async def counted(*words: Any) -> Any:
        nonlocal posted
        posted += 1
        return await post(*words)

    def bodies() -> Iterator[dict[str, Any]]:
        for n in range(8):
            counts.append(posted)
            yield body(str(n))

    async def run() -> None:
        async for _ in llm.replies(llm.Server("m", stub.url, concurrency=8), bodies(), Kept(), llm.Budget()):
            pass

    counts: list[int] = []
    monkeypatch.setattr(Wire, "post", counted)
    llm.run(run())
    assert counts == [0, *range(2, 9)]  # the probe is sent with the first


def test_who_takes_no_connection_is_not_waited_for_as_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address where nothing answers took four times [propose] timeout, eight minutes."""
    monkeypatch.setattr(transport, "CONNECT", 0.05)
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for client in (first, second):  # its queue is full: new connections are neither accepted nor refused
            client.setblocking(False)
            client.connect_ex(listener.getsockname())

        async def run() -> tuple[str | None, str]:
            server = llm.Server("m", f"http://127.0.0.1:{listener.getsockname()[1]}/v1", retries=0, timeout=5)
            async with Wire(server) as wire:
                return await wire.post(server.path, b"{}")

        assert llm.run(run()) == ("connection failed: not taken within 0.05 s", "")


def test_a_server_that_lets_requests_wait_gets_fewer_at_once(stub: Stub) -> None:
    """A model on one processor answers a few at a time: all others timed out, again and again."""
    pace = llm.Pace(8)
    stub.scripts["a"] = [slow]

    async def run() -> tuple[str | None, str]:
        server = llm.Server("m", stub.url, retries=0, timeout=0.2)
        async with Wire(server, pace) as wire:
            return await wire.post(server.path, json.dumps(body("a")).encode())

    assert llm.run(run())[0] == "timeout" and pace.limit == 4


def test_what_the_environment_says_of_a_person_reaches_openai_alone(stub: Stub, monkeypatch) -> None:
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "API_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "mine-alone")
    custom = "authorization: Bearer mine-alone\nX-Team: mine-alone\nopenai-organization: mine-alone"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", custom)
    received: list[str] = []

    def record(h: Handler) -> None:
        received.append(str(h.headers))
        says("fine")(h)

    stub.scripts["a"] = [record]
    assert ask(stub, "a")[0].content == "fine"
    server = llm.Server("m", stub.url, key=KEY)
    request = {"model": "m", "messages": [{"role": "user", "content": "a"}]}

    async def copied() -> None:  # as for the Batch API
        async with Wire(server) as wire:
            await wire.client.with_options(max_retries=0).chat.completions.create(**request)

    llm.run(copied())
    assert len(received) == 2
    assert all("mine-alone" not in headers and f"Bearer {KEY}" in headers for headers in received)

    async def to_openai() -> str:
        async with Wire(llm.Server("m", key=KEY)) as wire:
            return wire.client.default_headers["OpenAI-Organization"]

    assert llm.run(to_openai()) == "mine-alone"


def test_no_key_is_one_line() -> None:
    """openai's client raises its own error."""

    async def run() -> None:
        async with Wire(llm.Server("m", "https://models.example/v1", key="")):
            pass

    with pytest.raises(ProposerError, match="https://models.example/v1: wants a key"):
        llm.run(run())
