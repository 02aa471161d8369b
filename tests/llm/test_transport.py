"""How requests leave: most are copies of the first that openai's client made, and no server can tell them from it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError
from saferec_builder.llm import transport
from saferec_builder.llm.transport import Wire
from tests.servers.llm_stub import SEA, Handler, Stub, probe, says
from tests.worlds.llm_client import BUSY, KEY, ask, body


def test_a_copy_says_what_openais_client_says(stub: Stub) -> None:
    seen: list[dict[str, str]] = []

    def look(h: Handler) -> None:
        seen.append(dict(h.headers))
        BUSY(h)

    stub.scripts = {SEA: [look, probe], "a": [look]}  # the first request that is answered is itself a second try
    assert ask(stub, "a", retries=1)[0].reason == "rate limited"
    asked, copied, again = ({k: v for k, v in headers.items() if k != "content-length"} for headers in seen)
    assert copied == asked and copied["x-stainless-retry-count"] == "0"
    assert again == copied | {"x-stainless-retry-count": "1"}
    assert stub.bodies[2] == stub.bodies[3]


def test_a_request_leaves_before_the_next_is_made(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes all first sends all at once, and gets all answers at once, again and again."""
    left = 0
    post = Wire.post

    async def counted(*words: Any) -> Any:
        nonlocal left
        left += 1
        return await post(*words)

    def bodies() -> Iterator[dict[str, Any]]:
        for n in range(8):
            seen.append(left)
            yield body(str(n))

    async def run() -> None:
        how: dict[str, Any] = {"get": {}.get, "put": lambda _: None, "check": lambda _: None}
        async for _ in llm.replies(llm.Server("m", stub.url, concurrency=8), bodies(), **how):
            pass

    seen: list[int] = []
    monkeypatch.setattr(Wire, "post", counted)
    llm.run(run())
    assert seen == [0, *range(2, 9)]  # the probe goes with the first


def test_who_takes_no_connection_is_not_waited_for_as_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address of a machine that answers nothing took four times [propose] timeout, eight minutes."""
    monkeypatch.setattr(transport, "CONNECT", 0.05)
    with socket.socket() as full, socket.socket() as one, socket.socket() as two:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waits in (one, two):  # its queue is full: who comes now is neither taken nor refused
            waits.setblocking(False)
            waits.connect_ex(full.getsockname())

        async def run() -> tuple[str | None, str]:
            server = llm.Server("m", f"http://127.0.0.1:{full.getsockname()[1]}/v1", retries=0, timeout=5)
            async with Wire(server) as wire:
                return await wire.post(server.path, b"{}")

        assert llm.run(run()) == ("connection failed: not taken within 0.05 s", "")


def test_what_the_environment_says_of_a_person_reaches_openai_alone(stub: Stub, monkeypatch) -> None:
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "API_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "mine-alone")
    own = "authorization: Bearer mine-alone\nX-Team: mine-alone\nopenai-organization: mine-alone"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", own)
    seen: list[str] = []

    def look(h: Handler) -> None:
        seen.append(str(h.headers))
        says("fine")(h)

    stub.scripts["a"] = [look]
    assert ask(stub, "a")[0].content == "fine"
    server = llm.Server("m", stub.url, key=KEY)
    asked = {"model": "m", "messages": [{"role": "user", "content": "a"}]}

    async def copied() -> None:  # as the Batch API is asked
        async with Wire(server) as wire:
            await wire.client.with_options(max_retries=0).chat.completions.create(**asked)

    llm.run(copied())
    assert len(seen) == 2
    assert all("mine-alone" not in headers and f"Bearer {KEY}" in headers for headers in seen)

    async def to_openai() -> str:
        async with Wire(llm.Server("m", key=KEY)) as wire:
            return wire.client.default_headers["OpenAI-Organization"]

    assert llm.run(to_openai()) == "mine-alone"


def test_no_key_is_one_line() -> None:
    """openai's client raises an error of its own."""

    async def run() -> None:
        async with Wire(llm.Server("m", "https://models.example/v1", key="")):
            pass

    with pytest.raises(ProposerError, match="https://models.example/v1: wants a key"):
        llm.run(run())
