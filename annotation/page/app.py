"""The page as a web application: checks who sends a request, from where, and what it holds; tasks.py has the data.

Only a browser that opened a link on our own address can read or write: Host and Origin must match the address, a body
must be JSON, and the cookie is not sent by other sites and not readable by scripts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from annotation.page import links, practice
from annotation.page.tasks import Facts, Given, Stale, Tasks
from annotation.tools.guidelines import page_for
from annotation.tools.tasks_and_answers import Refused
from saferec_builder.core.errors import SafeRecError, whole_object
from saferec_builder.storage.schema import digest

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).with_name("static")
FILES = {"/": ("page.html", "text/html"), "/page.js": ("page.js", "text/javascript")}
FILES["/page.css"] = ("page.css", "text/css")
LONGEST = 256 * 1024  # bytes of an answer
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Page:
    """The state and handlers of the routes. `address` is the one that browsers open: scheme, name and port."""

    tasks: Tasks
    address: str
    practice: bool = False

    @property
    def cookie(self) -> str:
        """The cookie's name, unique to this page: all ports of a machine share cookies of the same name."""
        return f"saferec-{digest(self.address, str(self.tasks.ws.root.resolve()))}"

    def name(self, request: Request) -> str:
        return self.holder(request.cookies.get(self.cookie, ""))

    def holder(self, token: object) -> str:
        name = links.holder(self.tasks.ws, token) if isinstance(token, str) else None
        if name is None:
            raise HTTPException(401, "This link is not valid, or no longer: ask for a new one where you got it.")
        return name

    async def session(self, request: Request) -> Response:
        """Exchanges the token of a link, which no server log and no other page has seen, for a cookie."""
        token = (whole_object(await _body(request)) or {}).get("token")
        self.holder(token)
        reply = Response(status_code=204)
        secure = self.address.startswith("https:")
        reply.set_cookie(self.cookie, str(token), max_age=90 * 86_400, httponly=True, samesite="strict", secure=secure)
        return reply

    async def start(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._start, self.name(request)))

    def _start(self, name: str) -> Facts:
        first = self.tasks.first(name)
        traits = [
            {n: getattr(t, n) for n in ("slug", "name", "definition", "hint")} for t in self.tasks.taxonomy.traits
        ]
        first |= {"practice": practice.tasks(self.tasks.taxonomy) if self.practice and not first["done"] else []}
        return first | {"name": name, "traits": [*traits], "guidelines": page_for("On the page")}

    async def next(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.tasks.first, self.name(request)))

    async def answer(self, request: Request) -> Response:
        name, body = self.name(request), await _body(request)
        try:
            answer = Given.model_validate(whole_object(body))
        except ValidationError as fault:
            first = fault.errors()[0]
            raise HTTPException(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return JSONResponse(await run_in_threadpool(self.tasks.answer, name, answer))


def application(tasks: Tasks, address: str, practice: bool = False) -> "ASGIApp":
    page = Page(tasks, address, practice)
    routes = [Route(path, _file(*file)) for path, file in FILES.items()]
    routes += [Route("/session", page.session, methods=["POST"]), Route("/answer", page.answer, methods=["POST"])]
    routes += [Route("/start", page.start), Route("/tasks", page.next)]
    # 503: the workspace cannot be read or written now; the page keeps the answer and retries
    faults = {HTTPException: _refused, Refused: _reply(422), Stale: _reply(409), SafeRecError: _reply(503)}
    return _guarded(Starlette(routes=routes, exception_handlers=faults), address)


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response((STATIC / name).read_bytes(), media_type=kind)


def _refused(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    return JSONResponse({"why": fault.detail}, fault.status_code)


def _reply(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, fault: JSONResponse({"why": str(fault)}, status)


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST:
            raise HTTPException(413, f"An answer has at most {LONGEST:,} bytes.")
    return body


def _guarded(app: "ASGIApp", address: str) -> "ASGIApp":
    """Rejects requests that our own page did not send, and adds HEADERS, which tell browsers what the page may do."""

    async def guarded(scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def framed(message: "Message") -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *ours]}
            await send(message)

        refusal = _refusal(Request(scope), address)
        answer = JSONResponse({"why": refusal[1]}, refusal[0]) if refusal else app
        await answer(scope, receive, framed)

    return guarded


def _refusal(request: Request, address: str) -> tuple[int, str] | None:
    """Status and reason where a request does not come from our own page."""
    headers = request.headers
    if headers.getlist("host") != [urlsplit(address).netloc]:  # else another domain that points here would pass
        return 421, f"This page is at {address}, and answers to no other name."
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and request.url.path != "/":
        return 403, "Another site sent this."
    if request.method in ("GET", "HEAD"):
        return None
    if headers.get("origin") != address:
        return 403, "Another site sent this."
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return 415, "Expected application/json."
    return None
