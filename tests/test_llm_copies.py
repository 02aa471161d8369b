"""Most requests are copies of the first that openai's client made: a server must not be able to tell one from it."""

import json
from collections.abc import Iterator

import pytest

from saferec_builder import llm
from tests.servers.llm_stub import SEA, Handler, Stub, probe, running
from tests.test_llm import BUSY, ask, body


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running() as server:
        yield server


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


def test_half_a_character_can_be_sent() -> None:
    assert json.loads(llm.Server("m").payload(body("é \ud83d")))["messages"] == body("é ?")["messages"]
