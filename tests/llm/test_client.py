"""The client against a server that fails in every known way (a stub, see servers/llm_stub.py)."""

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError
from saferec_builder.llm.server import read_body
from saferec_builder.llm.transport import Wire
from tests.servers.llm_stub import SEA, Handler, Stub, completion, half, probe, reset, running, says, slow, status
from tests.worlds.llm_client import BUSY, KEY, ask, body

QUOTA = '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}'


FAULTS = {
    # name: (script, reason or None, requests sent with one retry allowed)
    "429 with Retry-After, then fine": ([BUSY, says("fine")], None, 2),
    "429 without Retry-After, then fine": ([status(429), says("fine")], None, 2),
    "429 for ever": ([BUSY], "rate limited", 2),
    "429 that asks for five minutes": ([status(429, retry_after="300")], "rate limited", 1),
    "500, then fine": ([status(500, retry_after_ms="20"), says("fine")], None, 2),
    "502 with a web page": ([status(502, "<html>bad gateway</html>", retry_after_ms="20")], "server error", 2),
    "a request the server refuses": ([status(400)], "bad request", 1),
    "a charset that is none of text": ([status(400, Content_Type="text/html; charset=zlib")], "bad request", 1),
    "no quota": ([status(429, QUOTA)], "quota exhausted", 1),
    "no money": ([status(402, "Insufficient Balance")], "quota exhausted", 1),
    "a key that is no longer good": ([status(401)], "key refused", 1),
    "a reset": ([reset], "connection failed", 2),
    "a reset in the middle of an answer": ([half], "connection failed", 2),
    "JSON cut in the middle": ([status(200, completion("fine")[:40])], "broken JSON", 1),
    "JSON of another shape": ([status(200, '{"choices": "none"}')], "broken JSON", 1),
    "an error with status 200": ([status(200, '{"error": {"message": "no"}}')], "no choices", 1),
    "no choices": ([status(200, '{"choices": []}')], "no choices", 1),
    "an answer at the token limit": ([says("fine", "length")], "cut off", 1),
    "a refusal": ([says(None, refusal="I cannot help with that")], "refused", 1),
    "a content filter": ([says("fi", "content_filter")], "refused", 1),
    "null content": ([says(None)], "empty answer", 1),
    "empty content": ([says("")], "empty answer", 1),
    "a web page with status 200": ([status(200, "<!doctype html><p>log in</p>")], "web page instead of JSON", 1),
    "an answer off the schema": ([says("maybe")], "off schema", 1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_a_reply_with_its_reason(stub: Stub, name: str) -> None:
    script, reason, sent = FAULTS[name]
    stub.scripts["hard"] = list(script)
    reply = ask(stub, "hard")[0]
    assert (reply.reason, reply.content) == (reason, None if reason else "fine")
    assert stub.asked.count("hard") == sent


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 12.5, "completion_tokens": 3}, (12, 3)),
        ({"prompt_tokens": "9" * 30, "completion_tokens": "many"}, (None, None)),  # no table holds such a number
        ({"prompt_tokens": -1, "completion_tokens": [3]}, (None, None)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": []}, (5, 3)),
        ("7 tokens", (None, None)),
    ],
)
def test_an_odd_bill_costs_nobody_the_answer(usage: Any, tokens: tuple[int | None, int | None]) -> None:
    """It was paid for, whatever the server says of its price."""
    text = json.dumps({"choices": [{"message": {"content": "fine"}}], "usage": usage})
    reply = read_body("r", "m", text)
    assert (reply.content, reply.error, reply.tokens_in, reply.tokens_out) == ("fine", None, *tokens)


def test_a_timeout_is_a_reply_with_its_reason(stub: Stub) -> None:
    stub.scripts["slow"] = [slow]
    # the probe has the same 0.3 s, and one fault does not touch the other text
    assert [r.reason for r in ask(stub, "slow", "quick", timeout=0.3, retries=0)] == ["timeout", None]


def test_an_answer_that_only_drips_is_a_timeout(stub: Stub) -> None:
    def drip(h: Handler) -> None:
        h.send_response(200)
        h.send_header("Content-Length", "100")
        h.end_headers()
        for _ in range(10):  # 10 x 0.1 s: no single read takes 0.3 s
            h.wfile.write(b" ")
            time.sleep(0.1)

    stub.scripts["drip"] = [drip]
    assert ask(stub, "drip", timeout=0.3, retries=0)[0].reason == "timeout"


def test_openais_client_asks_with_the_key_and_retries_as_often_as_agreed(stub: Stub) -> None:
    seen: list[tuple[str, str]] = []

    def busy(h: Handler) -> None:
        seen.append((h.headers["User-Agent"].split("/")[0], h.headers["Authorization"]))
        BUSY(h)

    stub.scripts["a"] = [busy]
    assert ask(stub, "a", retries=3)[0].reason == "rate limited"
    assert seen == [("AsyncOpenAI", f"Bearer {KEY}")] * (1 + 3)


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


def test_what_the_server_said_is_kept(stub: Stub) -> None:
    stub.scripts = {"page": [status(200, "<p>log in</p>")], "cut": [says("fine, b", "length")]}
    page, cut = ask(stub, "page", "cut")
    assert page.body == "<p>log in</p>"
    assert "fine, b" in cut.body and cut.tokens_out == 3  # billed, though not usable


def test_without_quota_the_rest_is_not_sent(stub: Stub) -> None:
    stub.scripts["two"] = [status(429, QUOTA)]
    found = ask(stub, "one", "two", "three", "four", concurrency=1)
    assert [r.error and r.error.split(": status")[0] for r in found] == [
        None, "quota exhausted", "quota exhausted: not sent", "quota exhausted: not sent",
    ]  # fmt: skip
    assert stub.asked[1:] == ["one", "two"]  # after the probe


def test_a_server_that_is_gone_is_given_up(stub: Stub) -> None:
    texts = [f"t{n}" for n in range(30)]
    stub.scripts = {text: [reset] for text in texts}
    found = ask(stub, *texts, retries=0, concurrency=1)
    # 20 in a row that never came, then 10 that were not sent
    assert [r.reason for r in found] == ["connection failed"] * 20 + ["server gone"] * 10
    assert len(stub.asked) == 1 + 20


def test_a_reply_is_paid_for_once_and_a_failure_is_asked_again(stub: Stub) -> None:
    paid: dict[str, str] = {}
    stub.scripts["b"] = [says("maybe"), says("fine")]
    first = ask(stub, "a", "b", paid=paid)
    assert [r.reason for r in first] == [None, "off schema"]
    second = ask(stub, "a", "b", paid=paid)
    assert [(r.content, r.cached) for r in second] == [("fine", True), ("fine", False)]
    before = len(stub.asked)
    assert [r.cached for r in ask(stub, "a", "b", paid=paid)] == [True, True]
    assert len(stub.asked) == before  # nothing to ask: no probe either


def test_another_model_server_or_sampling_is_another_request() -> None:
    ours = llm.Server("m", "http://127.0.0.1:1/v1")
    others = [
        llm.Server("n", "http://127.0.0.1:1/v1"),
        llm.Server("m", "http://127.0.0.1:2/v1"),
        llm.Server("m", "http://127.0.0.1:1/v1", sampling=(("temperature", 0.5),)),
    ]
    assert ours.name(body("a")) not in [s.name(body("a")) for s in others]
    assert ours.name(body("a")) != ours.name(body("b"))
    assert ours.name(body("a")) == llm.Server("m", "http://127.0.0.1:1/v1/", key="other", concurrency=2).name(body("a"))


def test_exact_duplicates_are_asked_once(stub: Stub) -> None:
    found = ask(stub, "same", "other", "same", "same")
    assert [r.content for r in found] == ["fine"] * 4
    assert sorted(stub.asked[1:]) == ["other", "same"]
    assert sum(r.cached for r in found) == 2


def test_the_key_is_in_nothing_that_is_kept(stub: Stub) -> None:
    def echo(code: int) -> Callable[[Handler], None]:
        return lambda h: h.reply(code, completion(f"you sent {h.headers['Authorization']}"))

    stub.scripts = {"bad": [echo(400)], "well": [echo(200)]}
    for reply in ask(stub, "bad", "well"):
        assert "you sent Bearer ***" in reply.body  # the stub did get it
        assert KEY not in repr(reply)
    assert KEY not in repr(llm.Server("m", key=KEY))


def test_no_redirect_is_followed(stub: Stub) -> None:
    with running() as other:
        stub.scripts["go"] = [status(307, "", location=f"{other.url}/chat/completions")]
        assert ask(stub, "go")[0].error is not None
        assert other.asked == []


def test_a_proxy_is_not_asked_for_this_machine(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert ask(stub, "a")[0].content == "fine"


# ---- the start-up probe


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([says("The sea is calm.")], "ignores response_format json_schema (found 'The sea is calm.'"),
        ([says('{"word": "calm"}')], "ignores response_format json_schema"),
        ([says("[1]")], "ignores response_format json_schema"),
        ([says("[" * 100_000)], "ignores response_format json_schema"),
        ([status(401)], "key refused: status 401"),
        ([status(404, "no such model")], "status 404: no such model"),
        ([status(200, "<p>hi")], "web page instead of JSON"),
    ],
)
def test_a_server_that_cannot_be_used_is_known_before_the_first_text(stub: Stub, script: Any, said: str) -> None:
    stub.scripts[SEA] = script
    with pytest.raises(ProposerError, match="model m") as fault:
        ask(stub, "private words")
    assert said in str(fault.value)
    assert stub.asked == [SEA]


def test_nobody_at_the_address_is_one_line() -> None:
    with running() as stub:
        pass  # its port is free again
    with pytest.raises(ProposerError, match="connection failed"):
        ask(stub, "a", retries=0)


def test_a_model_without_a_temperature_is_asked_without(stub: Stub) -> None:
    stub.scripts[SEA] = [status(400, '{"error": {"message": "temperature is not supported"}}'), probe]
    paid: dict[str, str] = {}
    assert ask(stub, "a", paid=paid)[0].content == "fine"
    assert ["temperature" in sent for sent in stub.bodies] == [True, False, False]
    assert ask(stub, "a", paid=paid)[0].cached  # under the same name


# ---- how many at once


def test_pace_halves_once_a_second_and_climbs_one_a_round() -> None:
    now = 0.0
    pace = llm.Pace(64, clock=lambda: now)
    for _ in range(64):  # one burst, one complaint: 64 -> 32
        pace.slow()
    assert pace.limit == 32
    now = 1.5
    pace.slow()
    assert pace.limit == 16
    for _ in range(16):  # sixteen good replies at about 1/16 each: one more (a little less, as the limit grows)
        pace.ok()
    assert 16.9 < pace.limit < 17
    for _ in range(10_000):
        pace.ok()
    assert pace.limit == 64  # never above what the user set
    for n in range(20):
        now = 10.0 + 2 * n
        pace.slow()
    assert pace.limit == 1  # never none


def test_a_place_is_handed_on_in_turn_and_never_lost() -> None:
    async def work() -> list[str]:
        pace, came = llm.Pace(1), []

        async def come(name: str) -> None:
            async with pace:
                came.append(name)

        async with pace:
            waiting = {name: asyncio.create_task(come(name)) for name in "abcd"}
            await asyncio.sleep(0)
            assert came == []
            waiting["a"].cancel()
        waiting["b"].cancel()  # between being handed the place and taking it: the place is c's
        await asyncio.wait(waiting.values(), timeout=5)
        return came

    assert asyncio.run(work()) == ["c", "d"]


def test_requests_that_come_again_wait_for_a_place_too(stub: Stub) -> None:
    both, there = threading.Barrier(2, timeout=30), []

    def refuse(h: Handler) -> None:
        both.wait()  # two at once, and both are too many
        BUSY(h)

    def fine(h: Handler) -> None:
        there.append(stub.now)
        time.sleep(0.1)  # five times what the refused were told to wait
        says("fine")(h)

    stub.scripts = {text: [refuse, fine] for text in ("a", "b")}
    assert [r.content for r in ask(stub, "a", "b", concurrency=2)] == ["fine"] * 2
    assert there == [1, 1]  # one complaint of two: 2 -> 1


def test_an_overloaded_server_gets_every_answer_out(stub: Stub) -> None:
    pause, crowd = random.Random(7), threading.Event()

    def crowded(h: Handler) -> None:
        # more than 6 at once is too many for this server, those that it is about to refuse included
        too_many = stub.now > 6
        if too_many:
            crowd.set()
        crowd.wait(30)  # where requests leave slowly, none is answered before the crowd is there
        time.sleep(0.03 + 0.05 * pause.random())
        (BUSY if too_many else says("fine"))(h)

    texts = [f"t{n}" for n in range(60)]
    stub.scripts = {text: [crowded] for text in texts}
    found = ask(stub, *texts, concurrency=16, retries=50, timeout=60.0)
    assert [r.content for r in found] == ["fine"] * 60
    assert len(stub.asked) > 61 and stub.most <= 16  # it did complain, and was never asked more than agreed


# ---- what counts as this machine


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://127.9.9.9:1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://127.0.0.1.example.org/v1", False),
        ("http://localhost.example.org/v1", False),
        ("http://127.0.0.1@example.org/v1", False),
        ("http://example.org/127.0.0.1", False),
        ("http://example.org#@127.0.0.1/", False),
        ("http://0.0.0.0:8000/v1", False),
        ("http://192.168.0.4:8000/v1", False),
        ("not a url", False),
    ],
)
def test_only_loopback_is_this_machine(url: str, here: bool) -> None:
    assert llm.Server("m", url).is_loopback is here
