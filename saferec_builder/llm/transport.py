"""HTTP transport to a model server: openai's client, retries of its own, one pool of connections.

That client makes the first request of a path, and whatever is tried again. All others are copies of the first with
other bytes, sent by the same pool: to make each anew took as much CPU as all else that a request costs.
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
from saferec_builder.llm.requests_and_replies import Server, is_quota, refusal

BUSY = (429, 503, 529)
CONNECT = 5.0  # seconds until a server has to take a connection: where none listens nobody waits for `timeout`

# what came of a copy: the pool's next answer to openai's client
_CAME: ContextVar[httpx2.Response | Exception | None] = ContextVar("came", default=None)


class Wire:
    """An open client; every try waits for its place, and the pace hears each complaint of an overloaded server."""

    def __init__(self, server: Server, pace: Pace | None = None) -> None:
        self.server, self.pace = server, pace or Pace(server.concurrency)

    async def __aenter__(self) -> "Wire":
        base = self.server.base_url
        if not self.server.key:  # who sends texts was asked for it before, who fetches a batch was not
            raise ProposerError(f"{base}: wants a key: set the environment variable that holds it (key_env)")
        self.pool = _pool(self.server, self.pace)
        self.first: dict[str, httpx2.Request] = {}  # by its path
        try:
            self.client = openai.AsyncOpenAI(
                api_key=self.server.key,
                base_url=base,
                max_retries=self.server.retries,
                timeout=httpx2.Timeout(None, connect=CONNECT),
                default_headers=_headers(self.server),
                http_client=self.pool,
            )
        except httpx2.InvalidURL as fault:
            raise ProposerError(f"{base}: bad request: {fault}: check the address") from fault
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def post(self, path: str, content: bytes) -> tuple[str | None, str]:
        """(error, body text) of a JSON request after its retries; error is None for a 200."""
        came = await self._copy(path, content) if path in self.first else None
        if isinstance(came, httpx2.Response) and came.status_code == 200:
            return None, self.text(came)
        handed = _CAME.set(came)  # the end of its own first try, for openai's client: its waits, its tries, its errors
        try:
            response = await self.client.post(path, cast_to=httpx2.Response, content=content)
        except (openai.OpenAIError, httpx2.InvalidURL, ValueError) as fault:
            return self.failure(fault)
        finally:
            _CAME.reset(handed)
        if path not in self.first:
            self.first[path] = response.request
            self.first[path].headers["x-stainless-retry-count"] = "0"
        text = self.text(response)
        return (None if response.status_code == 200 else refusal(response.status_code, text)), text

    async def _copy(self, path: str, content: bytes) -> httpx2.Response | Exception:
        """What comes of a copy of the first request: a response, or what was raised."""
        first = self.first[path]
        request = httpx2.Request("POST", first.url, headers=first.headers, stream=httpx2.ByteStream(content))
        request.headers.encoding = first.headers.encoding  # to find it anew takes as long as the rest of this
        request.headers["Content-Length"] = str(len(content))
        request.read()  # so it goes out in one piece
        try:
            return await self.pool.send(request)
        except Exception as fault:
            return fault

    def failure(self, fault: Exception) -> tuple[str, str]:
        """(error, body text) of what openai's client raised."""
        if isinstance(fault, openai.APIStatusError):
            text = self.text(fault.response)
            return refusal(fault.response.status_code, text), text
        if not isinstance(fault, openai.APIConnectionError):
            return f"bad request: {fault}", ""
        cause: BaseException | None = fault  # what lies below: the transport calls a lost connection a timeout, too
        while cause:
            if isinstance(cause, httpx2.ConnectTimeout):
                return f"connection failed: not taken within {CONNECT:g} s", ""
            if isinstance(cause, TimeoutError):
                return "timeout", ""
            name, cause = type(cause).__name__, cause.__cause__
        return f"connection failed: {name}", ""

    def text(self, response: httpx2.Response) -> str:
        """A body without the keys, should the server repeat them."""
        text = response.content.decode("utf-8", "replace")
        for secret in (self.server.key, *self.server.secrets):
            text = text.replace(secret, "***") if len(secret) > 8 else text
        return text


def _headers(server: Server) -> dict[str, Any]:
    """What the environment tells openai's client of a person (organisation, project, headers of their own) is for
    OpenAI: any other server is sent none of it, and gets the key that it was given."""
    if server.is_openai:
        return dict(server.headers)
    custom = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    named = ["OpenAI-Organization", "OpenAI-Project", *(line.split(":")[0].strip() for line in custom if ":" in line)]
    return dict.fromkeys(named, openai.Omit()) | {"Authorization": f"Bearer {server.key}"} | dict(server.headers)


def _pool(server: Server, pace: Pace) -> httpx2.AsyncClient:
    """Connections by aiohttp: no redirect is followed, a proxy is for remote hosts only, and no try is endless."""

    class Pool(openai.DefaultAioHttpClient):
        async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
            if (came := _CAME.get()) is not None:
                _CAME.set(None)
                if isinstance(came, Exception):
                    raise came
                return came
            try:
                async with pace, asyncio.timeout(server.timeout):  # of the whole answer, not of one read
                    response = await super().send(request, **how)
            except (aiohttp.ClientError, OSError) as fault:  # what the transport has no name for is tried again as well
                raise httpx2.TransportError(str(fault)) from fault
            response.encoding = "utf-8"  # whatever it names: Python takes "zlib" for a charset too, and raises
            if response.status_code == 200:
                return response
            if is_quota(response.text):
                response.headers["x-should-retry"] = "false"  # openai's client would try again
            elif response.status_code in BUSY:
                pace.slow()
            return response

    limits = httpx2.Limits(max_connections=server.concurrency, keepalive_expiry=60)
    return Pool(limits=limits, timeout=None, follow_redirects=False, trust_env=not server.is_loopback)
