"""The client against a server that fails in every known way (a stub, see servers/llm_stub.py)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm.client import FATAL, SILENT
from tests.servers.llm_stub import Handler, Stub, completion, half, reset, running, says, slow, status
from tests.worlds.llm_client import BUSY, KEY, ask

QUOTA = '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}'
FAULTS = {
    # name: (script, reason or None, requests sent with one retry allowed)
    "429 with Retry-After, then fine": ([BUSY, says("fine")], None, 2),
    "429 without Retry-After, then fine": ([status(429), says("fine")], None, 2),
    "201 and a byte order mark": ([status(201, "\ufeff" + completion("fine"))], None, 1),
    "an end of another type": ([says("fine", 0)], None, 1),
    "429 for ever": ([BUSY], "rate limited", 2),
    "429 that asks for five minutes": ([status(429, retry_after="300")], "rate limited", 1),
    "500, then fine": ([status(500, retry_after_ms="20"), says("fine")], None, 2),
    "502 with a web page": ([status(502, "<html>bad gateway</html>", retry_after_ms="20")], "server error", 2),
    "a request the server refuses": ([status(400)], "bad request", 1),
    "a text longer than the context": ([status(400, "maximum context length is 9")], "longer than the context", 1),
    "a charset that is none of text": ([status(400, Content_Type="text/html; charset=zlib")], "bad request", 1),
    "a text that moderation or a firewall forbids": ([status(403)], "forbidden", 1),
    "no quota": ([status(429, QUOTA)], "quota exhausted", 1),
    "no money": ([status(402, "Insufficient Balance")], "quota exhausted", 1),
    "a key that is no longer good": ([status(401)], "key refused", 1),
    "a reset": ([reset], "connection failed", 2),
    "a reset in the middle of an answer": ([half], "connection failed", 2),
    "JSON cut in the middle": ([status(200, completion("fine")[:40])], "broken JSON", 1),
    "an answer at the token limit": ([says("fine", "length")], "cut off", 1),
    "a web page with status 200": ([status(200, "<!doctype html><p>log in</p>")], "web page instead of JSON", 1),
    "an answer off the schema": ([says("maybe")], "off schema", 1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_a_reply_with_its_reason_and_few_stop_the_texts_after_it(stub: Stub, name: str) -> None:
    script, reason, sent = FAULTS[name]
    stub.scripts["hard"] = list(script)
    reply, after = ask(stub, "hard", "after", concurrency=1)
    assert (reply.reason, reply.content) == (reason, None if reason else "fine")
    assert stub.asked.count("hard") == sent
    assert after.error == (f"{reason}: not sent" if reason in FATAL else None)
    assert stub.asked.count("after") == (reason not in FATAL)


def test_an_answer_that_comes_late_or_only_drips_is_a_timeout(stub: Stub) -> None:
    def drip(h: Handler) -> None:
        h.send_response(200)
        h.send_header("Content-Length", "100")
        h.end_headers()
        for _ in range(10):  # 10 x 0.1 s: no single read takes 0.3 s
            h.wfile.write(b" ")
            time.sleep(0.1)

    stub.scripts = {"slow": [slow], "drip": [drip]}
    # the probe has the same 0.3 s, and a fault of one text does not affect the others
    replies = ask(stub, "slow", "drip", "quick", timeout=0.3, retries=0)
    assert [reply.reason for reply in replies] == ["timeout", "timeout", None]


def test_openais_client_asks_with_the_key_and_retries_as_often_as_agreed(stub: Stub) -> None:
    headers: list[tuple[str, str]] = []

    def busy(h: Handler) -> None:
        headers.append((h.headers["User-Agent"].split("/")[0], h.headers["Authorization"]))
        BUSY(h)

    stub.scripts["a"] = [busy]
    assert ask(stub, "a", retries=3)[0].reason == "rate limited"
    assert headers == [("AsyncOpenAI", f"Bearer {KEY}")] * (1 + 3)


def test_what_the_server_said_is_kept(stub: Stub) -> None:
    stub.scripts = {"page": [status(200, "<p>log in</p>")], "cut": [says("fine, b", "length")]}
    page, cut = ask(stub, "page", "cut")
    assert page.body == "<p>log in</p>"
    assert "fine, b" in cut.body and cut.tokens_out == 3  # billed, although useless


@pytest.mark.parametrize(
    ("fault", "reason", "end"),
    [
        (reset, "connection failed", "server gone"),
        (status(403), "forbidden", "key refused"),
        (status(429, retry_after="3600"), "rate limited", SILENT["rate limited"]),  # a limit per day
        (status(400, "the context length is 9"), "longer than the context", SILENT["longer than the context"]),
    ],
)
def test_what_fails_twenty_times_in_a_row_is_given_up(stub: Stub, fault: Any, reason: str, end: str) -> None:
    """No answer, or a key to which all is forbidden."""
    stub.usual = fault
    replies = ask(stub, *(f"t{n}" for n in range(30)), retries=0, concurrency=1)
    assert [r.reason for r in replies] == [reason] * 20 + [end] * 10  # the last ten were not sent
    assert len(stub.asked) == 1 + 20


@pytest.mark.slow
def test_a_model_that_is_paid_for_nothing_is_given_up(stub: Stub) -> None:
    texts = [f"t{n}" for n in range(30)]
    stub.scripts = {text: [says("fine", "length")] for text in texts}
    replies = ask(stub, *texts, concurrency=1)
    assert [r.sent for r in replies] == [True] * 20 + [False] * 10 and "max_tokens" in str(replies[-1].error)
    stub.asked.clear()
    stub.scripts = {text: [says("fine", "length")] for text in texts}
    replies = ask(stub, *texts, concurrency=16)  # requests already in flight are paid as well
    assert sum(r.sent for r in replies) == 20
    for n, text in enumerate(texts * 4):  # every second one is fine: 34 useless ones among the last 100 end the run
        stub.scripts[f"{text}{n}"] = [says("fine", "length" if n % 2 else "stop")]
    assert sum(r.sent for r in ask(stub, *[f"{t}{n}" for n, t in enumerate(texts * 4)], concurrency=1)) == 68


def test_the_advice_fits_why_answers_were_of_no_use(stub: Stub) -> None:
    """Where all were off the schema it was to raise max_tokens, and texts that were not sent seemed answered."""
    stub.usual = says("maybe")
    replies = ask(stub, *(f"t{n}" for n in range(25)), concurrency=1)
    assert [r.reason for r in replies[:20]] == ["off schema"] * 20 and not any(r.sent for r in replies[20:])
    advice = "name another model, or serve this one so that it keeps to the schema"
    assert {r.reason for r in replies[20:]} == {f"not sent, as too many answers before were of no use ({advice})"}


def test_attempts_that_a_busy_server_refused_are_counted(stub: Stub) -> None:
    stub.scripts = {"a": [BUSY, BUSY, says("fine")], "b": [says("fine")]}
    budget = llm.Budget()
    assert [r.error for r in ask(stub, "a", "b", retries=2, budget=budget)] == [None, None]
    assert budget.n_busy == 2


def test_an_answer_is_paid_for_once_of_use_or_not(stub: Stub) -> None:
    paid: dict[str, str] = {}
    stub.scripts = {"b": [says("maybe"), says("fine")], "c": [status(500), says("fine")]}
    replies = ask(stub, "a", "b", "c", paid=paid, retries=0)
    assert [r.reason for r in replies] == [None, "off schema", "server error"]
    later = ask(stub, "a", "b", "c", paid=paid)
    assert [(r.reason, r.cached) for r in later] == [(None, True), ("off schema", True), (None, False)]
    requests = len(stub.asked)
    assert [r.cached for r in ask(stub, "a", "b", "c", paid=paid)] == [True, True, True]
    assert len(stub.asked) == requests  # no request, so no probe


def test_exact_duplicates_are_asked_once(stub: Stub) -> None:
    replies = ask(stub, "same", "other", "same", "same")
    assert [r.content for r in replies] == ["fine"] * 4
    assert sorted(stub.asked[1:]) == ["other", "same"]
    assert sum(r.cached for r in replies) == 2


def test_the_key_is_in_nothing_that_is_kept(stub: Stub) -> None:
    def echo(code: int) -> Callable[[Handler], None]:
        return lambda h: h.reply(code, completion(f"you sent {h.headers['Authorization']}"))

    stub.scripts = {"bad": [echo(400)], "well": [echo(200)]}
    for reply in ask(stub, "bad", "well"):
        assert "you sent Bearer ***" in reply.body  # the stub received the key
        assert KEY not in repr(reply)
    assert KEY not in repr(llm.Server("m", key=KEY))


def test_no_redirect_is_followed(stub: Stub) -> None:
    with running() as target:
        stub.scripts["go"] = [status(307, "", location=f"{target.url}/chat/completions")]
        assert ask(stub, "go")[0].error is not None
        assert target.asked == []


def test_a_proxy_is_not_asked_for_this_machine(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert ask(stub, "a")[0].content == "fine"
