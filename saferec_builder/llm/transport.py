"""HTTP transport to a model server: openai's client with its own retries, and one pool of connections.

That client builds the first request of a path, and every retry. All other requests are copies of the first with
other bytes, sent by the same pool: building each from scratch took as much CPU as everything else in a request.
"""

import asyncio
import os
from contextvars import ContextVar
from typing import Any

import aiohttp
import httpx2
import openai

from saferec_builder.core.errors import ProposerError
from saferec_builder.llm.rate_limit import Pace
from saferec_builder.llm.requests_and_replies import DONE, Server, is_quota, refusal

BUSY = (429, 503, 529)
CONNECT = 5.0  # seconds in which a server has to accept a connection: if none listens, nobody waits for `timeout`

# the outcome of a copy, which the pool passes to openai's client as its next response
_OUTCOME: ContextVar[httpx2.Response | Exception | None] = ContextVar("came", default=None)


class Wire:
    """An open client; every attempt waits for its place, and a complaint of an overloaded server slows the pace."""

    def __init__(self, server: Server, pace: Pace | None = None) -> None:
        self.server, self.pace = server, pace or Pace(server.concurrency)

    async def __aenter__(self) -> "Wire":
        base_url = self.server.base_url
        if not self.server.key:  # checked earlier where texts are sent, but not where a batch is only fetched
            raise ProposerError(f"{base_url}: wants a key: set the environment variable that holds it (key_env)")
        self.pool = _pool(self.server, self.pace)
        self.first_requests: dict[str, httpx2.Request] = {}  # by its path
        try:
            self.client = openai.AsyncOpenAI(
                api_key=self.server.key,
                base_url=base_url,
                max_retries=self.server.retries,
                timeout=httpx2.Timeout(None, connect=CONNECT),
                default_headers=_headers(self.server),
                http_client=self.pool,
            )
        except httpx2.InvalidURL as fault:
            raise ProposerError(f"{base_url}: bad request: {fault}: check the address") from fault
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def post(self, path: str, content: bytes) -> tuple[str | None, str]:
        """Returns (error, body text) of a JSON request after its retries; error is None for an answer."""
        outcome = await self._copy(path, content) if path in self.first_requests else None
        if isinstance(outcome, httpx2.Response) and outcome.status_code in DONE:
            return None, self.text(outcome)
        # openai's client takes this as the result of its own first attempt, then waits, retries and raises as usual
        token = _OUTCOME.set(outcome)
        try:
            response = await self.client.post(path, cast_to=httpx2.Response, content=content)
        except (openai.OpenAIError, httpx2.InvalidURL, ValueError) as fault:
            return self.failure(fault)
        finally:
            _OUTCOME.reset(token)
        if path not in self.first_requests:
            self.first_requests[path] = response.request
            self.first_requests[path].headers["x-stainless-retry-count"] = "0"
        text = self.text(response)
        return (None if response.status_code in DONE else refusal(response.status_code, text)), text

    async def _copy(self, path: str, content: bytes) -> httpx2.Response | Exception:
        """Sends a copy of the first request; returns the response, or the exception that was raised."""
        first = self.first_requests[path]
        request = httpx2.Request("POST", first.url, headers=first.headers, stream=httpx2.ByteStream(content))
        request.headers.encoding = first.headers.encoding  # detecting it again takes as long as all the rest here
        request.headers["Content-Length"] = str(len(content))
        request.read()  # so that it is sent in one piece
        try:
            return await self.pool.send(request)
        except Exception as fault:
            return fault

    def failure(self, fault: Exception) -> tuple[str, str]:
        """Returns (error, body text) for an exception of openai's client."""
        if isinstance(fault, openai.APIStatusError):
            text = self.text(fault.response)
            return refusal(fault.response.status_code, text), text
        if not isinstance(fault, openai.APIConnectionError):
            return f"bad request: {fault}", ""
        cause: BaseException | None = fault  # its causes tell more: the transport calls a lost connection a timeout too
        while cause:
            if isinstance(cause, httpx2.ConnectTimeout) and isinstance(cause.__cause__, TimeoutError):
                return f"connection failed: not taken within {CONNECT:g} s", ""
            if isinstance(cause, TimeoutError):
                return "timeout", ""
            name, cause = type(cause).__name__, cause.__cause__
        return f"connection failed: {name}", ""

    def text(self, response: httpx2.Response) -> str:
        """The body as text that every table can hold, without the keys in case the server repeats them."""
        text = response.content.decode("utf-8-sig", "replace").replace("\0", "\ufffd")
        for secret in (self.server.key, *self.server.secrets):
            text = text.replace(secret, "***") if len(secret) > 8 else text
        return text


def _headers(server: Server) -> dict[str, Any]:
    """The default headers. The environment can give openai's client a person's organisation, project and headers: they
    are for OpenAI only. Any other server gets none of them, and the key that is configured for it."""
    if server.is_openai:
        return dict(server.headers)
    custom = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = ["OpenAI-Organization", "OpenAI-Project", *(line.split(":")[0].strip() for line in custom if ":" in line)]
    return dict.fromkeys(names, openai.Omit()) | {"Authorization": f"Bearer {server.key}"} | dict(server.headers)


def _pool(server: Server, pace: Pace) -> httpx2.AsyncClient:
    """A pool of aiohttp connections: follows no redirect, uses a proxy for remote hosts only, limits each attempt."""

    class Pool(openai.DefaultAioHttpClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            if (outcome := _OUTCOME.get()) is not None:
                _OUTCOME.set(None)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome
            try:
                async with pace, asyncio.timeout(server.timeout):  # for the whole answer, not for one read
                    response = await super().send(request, **options)
            except (aiohttp.ClientError, OSError) as fault:  # errors that the transport does not know are retried too
                if isinstance(fault, TimeoutError):  # a server that takes few at once lets the others wait
                    pace.slow()
                raise httpx2.TransportError(str(fault)) from fault
            response.encoding = "utf-8"  # whatever it declares: Python accepts "zlib" as a charset, and then raises
            if response.status_code in DONE:
                return response
            if is_quota(response.text):
                response.headers["x-should-retry"] = "false"  # otherwise openai's client would retry
            elif response.status_code in BUSY:
                pace.n_busy += 1
                pace.slow()
            return response

    limits = httpx2.Limits(max_connections=server.concurrency, keepalive_expiry=60)
    return Pool(limits=limits, timeout=None, follow_redirects=False, trust_env=not server.is_loopback)
