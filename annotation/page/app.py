"""The page as a web application: checks who sends a request, from where, and what it holds; tasks.py has the data.

Only a browser that opened a link on our own address can read or write: Host and Origin must match the address, a body
must be JSON, and the cookie is not sent by other sites and not readable by scripts.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from markdown_it import MarkdownIt
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from annotation.page import links, practice
from annotation.page.tasks import Facts, Given, Stale, Tasks
from annotation.tools.guidelines import page_for
from annotation.tools.tasks_and_answers import Refused
from saferec_builder.core.errors import SafeRecError, whole_object
from saferec_builder.storage.schema import digest

STATIC = Path(__file__).with_name("static")
LONGEST = 256 * 1024  # bytes of an answer
HEADERS = {  # of every reply: what browsers may do with the page
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
class Routes:
    """The state and handlers of the routes. `address` is the one that browsers open: scheme, name and port."""

    tasks: Tasks
    address: str
    practice: bool

    @property
    def cookie(self) -> str:
        """The cookie's name, unique to this page: all ports of a machine share cookies of the same name."""
        return f"saferec-{digest(self.address, str(self.tasks.ws.root.resolve()))}"

    def holder(self, token: object) -> str:
        name = links.holder(self.tasks.ws, token) if isinstance(token, str) else None
        if name is None:
            raise HTTPException(401, "This link is not valid, or no longer: ask for a new one and open it here.")
        return name

    async def first(self, request: Request) -> Response:
        """The first task, by a cookie or by a link's token, which becomes one: no server log has seen the token."""
        linked = whole_object(await request.body()) or {}
        token = linked.get("token", request.cookies.get(self.cookie))
        name = self.holder(token)
        reply = self.reply(name, await run_in_threadpool(self.tasks.first, name))
        if "token" in linked:  # a cookie that came by itself may have been replaced meanwhile
            secure = self.address.startswith("https:")
            reply.set_cookie(self.cookie, str(token), 90 * 86_400, httponly=True, samesite="strict", secure=secure)
        return reply

    async def answer(self, request: Request) -> Response:
        name = self.holder(request.cookies.get(self.cookie))
        try:
            answer = Given.model_validate(whole_object(await request.body()))
        except ValidationError as fault:
            first = fault.errors()[0]
            raise HTTPException(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return self.reply(name, await run_in_threadpool(self.tasks.answer, name, answer))

    def reply(self, name: str, first: Facts) -> Response:
        taxonomy = self.tasks.review.taxonomy
        traits = [{n: getattr(t, n) for n in ("slug", "name", "definition", "hint")} for t in taxonomy.traits]
        exercises = practice.tasks(taxonomy) if self.practice and not first["done"] else []
        return JSONResponse(first | {"name": name, "traits": traits, "practice": exercises})


def server(tasks: Tasks, address: str, practice: bool) -> uvicorn.Server:
    handlers = Routes(tasks, address, practice)
    routes = [
        Route("/", _index),
        Route("/tasks", handlers.first, methods=["GET", "POST"]),
        Route("/answer", handlers.answer, methods=["POST"]),
        Mount("/", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(routes=routes, exception_handlers={SafeRecError: _refused}, max_body_size=LONGEST)
    guarded, headers = BaseHTTPMiddleware(app, partial(_guarded, address)), [*HEADERS.items()]
    config = uvicorn.Config(guarded, log_config=None, access_log=False, lifespan="off", ws="none", headers=headers)
    config.server_header = config.proxy_headers = False
    return uvicorn.Server(config)


def _index(request: Request) -> Response:
    page, guidelines = (STATIC / "page.html").read_text("utf-8"), MarkdownIt().render(page_for("On the page"))
    return HTMLResponse(page.replace("{{ guidelines }}", guidelines))


def _refused(request: Request, fault: Exception) -> Response:
    # 503: the workspace cannot be read or written now; the page keeps the answer and retries
    status = 422 if isinstance(fault, Refused) else 409 if isinstance(fault, Stale) else 503
    return PlainTextResponse(str(fault), status)


async def _guarded(address: str, request: Request, app: RequestResponseEndpoint) -> Response:
    """Rejects requests that our own page did not send."""
    headers, reads = request.headers, request.method in ("GET", "HEAD")
    if headers.getlist("host") != [urlsplit(address).netloc]:  # else another domain that points here would pass
        return PlainTextResponse(f"This page is at {address}, and answers to no other name.", 421)
    linked = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and request.url.path != "/"
    if linked or (headers.get("origin") != address and not reads):
        return PlainTextResponse("Another site sent this.", 403)
    if not reads and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return PlainTextResponse("Expected application/json.", 415)
    return await app(request)
