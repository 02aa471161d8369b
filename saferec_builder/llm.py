"""One client for every OpenAI-compatible server: each request ends as a reply or as an error with its reason.

A reply that was paid for is never bought again (get, put); what a server says is kept as it came; no key is ever in it.
Reasons stand before the first colon of an error, so that they can be counted.
"""

import ipaddress
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from saferec_builder.errors import ProposerError
from saferec_builder.tables import digest

OPENAI = "https://api.openai.com/v1"
SAMPLING = (("temperature", 0.0), ("max_completion_tokens", 2_000))  # 20 claims with their quotes take about 1,200
FATAL = ("quota exhausted", "key refused")  # the next request would end in the same way
GIVE_UP_AFTER = 20  # replies in a row that never came

Get = Callable[[str], str | None]
Put = Callable[["Reply"], None]
Check = Callable[[str], str | None]


@dataclass(frozen=True)
class Server:
    model: str
    base_url: str = OPENAI
    key: str = field(default="unused", repr=False)  # a server on this machine asks for none, the client for some
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 3
    sampling: tuple[tuple[str, Any], ...] = field(default_factory=lambda: SAMPLING)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or self.base_url

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that is sent leaves this machine; a name that only looks like it does not count."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def name(self, body: dict[str, Any]) -> str:
        """What a reply is stored under: server, model, sampling, messages and schema."""
        return digest(self.base_url.rstrip("/"), self.model, self.sampling, body)

    def payload(self, body: dict[str, Any]) -> bytes:
        return json.dumps({"model": self.model, **dict(self.sampling), **body}, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Reply:
    """content: the answer's text, or None and `error` says why; body: the raw reply as it came."""

    request: str
    model: str
    content: str | None = None
    error: str | None = None
    body: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: bool = False

    @property
    def reason(self) -> str | None:
        return self.error.split(":")[0] if self.error else None


def estimated_tokens(server: Server, body: dict[str, Any]) -> int:
    """Tokens of a request at four bytes each: a plan's figure; the bill is `tokens_in` of the replies."""
    return len(server.payload(body)) // 4


# ---- what a server says


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    finish_reason: str | None = None
    message: _Message


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Body(BaseModel):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


def read_body(request: str, model: str, text: str) -> Reply:
    """The reply in the text of a 200; a fault keeps the text."""
    try:
        body = _Body.model_validate_json(text)
    except ValidationError as fault:
        found = "web page instead of JSON" if text.lstrip()[:1] == "<" else "broken JSON"
        return Reply(request, model, error=f"{found}: {fault.errors(include_url=False)[0]['msg']}", body=text)
    usage = body.usage or _Usage()
    content, error = _content(body.choices or [])
    return Reply(request, model, content, error, text, usage.prompt_tokens, usage.completion_tokens)


def _content(choices: list[_Choice]) -> tuple[str | None, str | None]:
    if not choices:
        return None, "no choices"
    message, end = choices[0].message, choices[0].finish_reason
    if message.refusal or end == "content_filter":
        return None, f"refused: {(message.refusal or end or '')[:200]}"
    if end == "length":  # also where the text looks whole: a server may close what it cut
        return None, "cut off: the answer reached the token limit"
    return (message.content, None) if message.content else (None, "empty answer")


def _failure(fault: Any) -> tuple[str, str]:
    """(error, raw body) of an exception of the client, after its own retries."""
    import openai

    if not isinstance(fault, openai.APIStatusError):
        causes = list(_causes(fault))
        # the transport calls a lost connection a timeout too; only a real one has a TimeoutError at its root
        timeout = any(isinstance(cause, TimeoutError) for cause in causes)
        return "timeout" if timeout else f"connection failed: {type(causes[-1]).__name__}", ""
    status, text = fault.status_code, fault.response.text
    if status == 429:
        reason = "quota exhausted" if _is_quota(text) else "rate limited"
    elif status in (401, 403):
        reason = "key refused"
    else:
        reason = "server error" if status >= 500 else "bad request"
    return f"{reason}: status {status}: {' '.join(text.split())[:200]}", text


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__


def _is_quota(text: str) -> bool:
    return "insufficient_quota" in text or "billing_hard_limit" in text


# ---- how many at once


class Pace:
    """How many requests may be in flight: one more per round that went well, half after a complaint."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.limit = most, float(most)
        self._clock, self._slowed = clock, float("-inf")

    def ok(self) -> None:
        self.limit = min(self.most, self.limit + 1 / self.limit)

    def slow(self) -> None:
        if self._clock() - self._slowed >= 1.0:  # a burst that was in flight together is one complaint
            self._slowed, self.limit = self._clock(), max(1.0, self.limit / 2)


# ---- asking


async def replies(
    server: Server, bodies: Iterable[dict[str, Any]], *, get: Get, put: Put, check: Check
) -> AsyncGenerator[tuple[int, Reply]]:
    """(place, reply) of every body, in the order in which they end; a body that comes twice is asked once.

    check: what is wrong with an answer's text, or None; only what passes is put, so the rest is asked again next time.
    Raises ProposerError before the first request where the server cannot be used at all.
    """
    import asyncio

    async with AsyncExitStack() as stack:
        talk: _Talk | None = None
        ended: asyncio.Queue[Reply] = asyncio.Queue()
        waiting: dict[str, list[int]] = {}
        todo = iter(enumerate(bodies))
        more = True
        while more or waiting:
            while more and (talk is None or len(waiting) < int(talk.pace.limit)):
                n, body = next(todo, (-1, None))
                if body is None:
                    more = False
                    break
                request = server.name(body)
                paid = get(request)
                if paid is not None:
                    yield n, _checked(replace(read_body(request, server.model, paid), cached=True), check)
                elif request in waiting:
                    waiting[request].append(n)
                else:
                    if talk is None:
                        talk = await stack.enter_async_context(_Talk(server, check, ended))
                    waiting[request] = [n]
                    talk.start(request, body)
            if waiting:
                reply = await ended.get()
                if reply.error is None:
                    put(reply)
                for again, n in enumerate(waiting.pop(reply.request)):
                    yield n, replace(reply, cached=again > 0)


def _checked(reply: Reply, check: Check) -> Reply:
    fault = check(reply.content) if reply.content is not None else None
    return replace(reply, error=fault, content=None) if fault else reply


class _Talk:
    """The open connection of one run: probed at its start, requests in flight cancelled at its end."""

    def __init__(self, server: Server, check: Check, ended: Any) -> None:
        self.server, self.check, self.ended = server, check, ended
        self.pace = Pace(server.concurrency)
        self.flying: set[Any] = set()
        self.stopped: str | None = None
        self.silent = 0

    async def __aenter__(self) -> "_Talk":
        self.client = _client(self.server, self.pace)
        try:
            self.server = await _probed(self.client, self.server)
        except BaseException:
            await self.client.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        for task in self.flying:
            task.cancel()
        await asyncio.gather(*self.flying, return_exceptions=True)
        await self.client.close()

    def start(self, request: str, body: dict[str, Any]) -> None:
        import asyncio

        task = asyncio.create_task(self._run(request, body))
        self.flying.add(task)
        task.add_done_callback(self.flying.discard)

    async def _run(self, request: str, body: dict[str, Any]) -> None:
        if self.stopped:
            reply = Reply(request, self.server.model, error=f"{self.stopped}: not sent")
        else:
            reply = _checked(await _post(self.client, self.server, request, body), self.check)
            self._note(reply)
        self.ended.put_nowait(reply)

    def _note(self, reply: Reply) -> None:
        if reply.error is None:
            self.pace.ok()
        self.silent = self.silent + 1 if reply.reason in ("timeout", "connection failed") else 0
        if reply.reason in FATAL:
            self.stopped = reply.reason
        elif self.silent >= GIVE_UP_AFTER:
            self.stopped = "server gone"


async def _post(client: Any, server: Server, request: str, body: dict[str, Any]) -> Reply:
    import httpx2
    import openai

    try:
        response = await client.post(
            "/chat/completions",
            cast_to=httpx2.Response,
            content=server.payload(body),
            options={"headers": {"Content-Type": "application/json"}},
        )
    except openai.OpenAIError as fault:
        error, text = _failure(fault)
        return Reply(request, server.model, error=_without_key(error, server), body=_without_key(text, server))
    return read_body(request, server.model, _without_key(response.text, server))


def _without_key(text: str, server: Server) -> str:
    return text.replace(server.key, "***") if len(server.key) > 8 else text


def _client(server: Server, pace: Pace) -> Any:
    """openai's client with its retries; a quota error is told not to be tried again, a 429 slows the pace.

    No redirect is followed: it could carry the text to a host that nobody agreed to. A proxy is for remote hosts only.
    """
    import openai

    async def look(response: Any) -> None:
        if response.status_code in (429, 503, 529):
            await response.aread()
            if _is_quota(response.text):
                response.headers["x-should-retry"] = "false"
            else:
                pace.slow()

    transport = openai.DefaultAioHttpClient(
        event_hooks={"response": [look]}, follow_redirects=False, trust_env=not server.is_loopback
    )
    return openai.AsyncOpenAI(
        api_key=server.key,
        base_url=server.base_url,
        timeout=server.timeout,
        max_retries=server.retries,
        http_client=transport,
    )


# ---- the start-up probe

_WORD = "zephyr-42"
_PROBE: dict[str, Any] = {
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


async def _probed(client: Any, server: Server) -> Server:
    """The server, known to keep to a schema (only one that enforces it answers this with the word).

    Without the temperature where it refuses one; requests keep their names, so what was paid for stays found.
    """
    reply = await _post(client, server, "probe", _PROBE)
    if reply.reason == "bad request" and "temperature" in reply.body:
        server = replace(server, sampling=tuple(p for p in server.sampling if p[0] != "temperature"))
        reply = await _post(client, server, "probe", _PROBE)
    if reply.error:
        raise ProposerError(f"{server.base_url}, model {server.model}: {reply.error}: check the address, model and key")
    if _word(reply.content or "") != _WORD:
        found = " ".join((reply.content or "").split())[:60]
        raise ProposerError(
            f"{server.base_url}, model {server.model}: ignores response_format json_schema (found {found!r}, wanted "
            "JSON of the schema): use a server that enforces it, such as llama.cpp, vLLM, SGLang or OpenAI"
        )
    return server


def _word(content: str) -> Any:
    try:
        answer = json.loads(content)
    except ValueError:
        return None
    return answer.get("word") if isinstance(answer, dict) else None
