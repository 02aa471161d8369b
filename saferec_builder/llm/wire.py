"""HTTP to a model server: one pool of connections, retries with the server's own waits, and every end has a name.

Written on aiohttp and not on openai's client, which takes three times the CPU per request (make bench ONLY=propose).
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from saferec_builder.llm.server import Server, is_quota, refusal

LONGEST_WAIT = 120.0  # a server that asks for more is given up for now
BUSY = (429, 503, 529)
AGAIN = (408, 409, 429)  # and every 5xx


class Wire:
    """An open connection; `slow` is called once for each complaint of an overloaded server."""

    def __init__(self, server: Server, slow: Callable[[], None] = lambda: None) -> None:
        self.server, self.slow = server, slow
        self.base = server.base_url.rstrip("/")

    async def __aenter__(self) -> "Wire":
        import aiohttp

        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=self.server.timeout),
            headers={"Authorization": f"Bearer {self.server.key}"},
            trust_env=not self.server.is_loopback,  # a proxy is for remote hosts only
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def post(self, path: str, content: bytes) -> tuple[str | None, str]:
        """(error, body text) of a JSON request after its retries; error is None for a 200."""
        headers = {"Content-Type": "application/json"}
        return await self._kept_at(lambda: self.session.post, path, data=content, headers=headers)

    async def get(self, path: str) -> tuple[str | None, str]:
        return await self._kept_at(lambda: self.session.get, path)

    async def once(self, path: str, **how: Any) -> tuple[str | None, str]:
        """A POST without retries: for what must not happen twice."""
        error, text, _ = await self._try(self.session.post, path, how)
        return error, text

    async def _kept_at(self, method: Callable[[], Any], path: str, **how: Any) -> tuple[str | None, str]:
        tried = 0
        while True:
            error, text, wait = await self._try(method(), path, how)
            if wait is None or tried >= self.server.retries:
                return error, text
            await asyncio.sleep(wait or min(0.5 * 2**tried, 8.0) * random.uniform(0.75, 1.0))
            tried += 1

    async def _try(self, method: Any, path: str, how: dict[str, Any]) -> tuple[str | None, str, float | None]:
        """(error, text, seconds to wait before another try: 0 by habit, None for no other try)."""
        import aiohttp

        try:
            async with method(self.base + path, allow_redirects=False, **how) as response:
                text = self._without_key((await response.read()).decode("utf-8", "replace"))
        except TimeoutError:
            return "timeout", "", 0.0
        except (aiohttp.ClientError, OSError) as fault:
            return f"connection failed: {type(fault).__name__}", "", 0.0
        except ValueError as fault:  # an address that is none
            return f"bad request: {fault}", "", None
        status = response.status
        if status == 200:
            return None, text, None
        if status in BUSY and not is_quota(text):
            self.slow()
        again = (status in AGAIN or status >= 500) and not is_quota(text)
        wait = asked_wait(response.headers) if again else None
        return refusal(status, text), text, wait if wait is not None and wait <= LONGEST_WAIT else None

    def _without_key(self, text: str) -> str:
        return text.replace(self.server.key, "***") if len(self.server.key) > 8 else text


def asked_wait(headers: Any) -> float:
    """Seconds that a server asks to wait: retry-after-ms, Retry-After in seconds or as a date; 0 where it says none."""
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    asked = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(asked))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    return 0.0
