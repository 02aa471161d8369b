"""One HTTP client for review servers: each request once, and every way to fail is one of three."""

from typing import Any

from saferec_builder.errors import ReviewError

TIMEOUT = 120.0


class Unsure(ReviewError):
    """The server may or may not have done it: a timeout, a broken connection, a 5xx. Look before sending again."""


class Broken(Unsure):
    """The server answered that it failed: whatever it was doing is over."""


class Missing(ReviewError):
    """404: what the ledger remembers is not there any more."""


class Client:
    """JSON over HTTP with a fixed header; never retries by itself, since a repeated POST is a second task."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float = TIMEOUT) -> None:
        import httpx2

        self.url = url.rstrip("/")
        fresh = httpx2.Limits(max_keepalive_connections=0)  # a kept connection breaks when the server restarts
        self._http = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, limits=fresh)

    def __call__(self, method: str, path: str, /, body: Any = None, **params: Any) -> Any:
        """The decoded answer, None where it is empty."""
        import httpx2

        where = f"{method} {self.url}{path}"
        try:
            reply = self._http.request(method, path, json=body, params=params)
        except httpx2.ConnectError:
            raise ReviewError(
                f"{self.url} does not answer: start it (`saferec-build review up`) or check --url"
            ) from None
        except httpx2.HTTPError as fault:
            raise Unsure(f"{where}: {type(fault).__name__}: run the command again") from None
        if reply.status_code >= 500 or reply.status_code in (408, 429):
            raise Broken(f"{where}: {reply.status_code}: run the command again")
        if reply.status_code == 404:
            raise Missing(f"{where}: 404: it is not there (any more)")
        if reply.status_code in (401, 403):
            raise ReviewError(f"{where}: {reply.status_code}: the token was refused: give a valid one with --token")
        if reply.status_code >= 300:
            raise ReviewError(f"{where}: {reply.status_code}: {reply.text[:300]}")
        try:
            return reply.json() if reply.content else None
        except ValueError:
            raise ReviewError(f"{where}: no JSON came back: is this address really the review server?") from None
