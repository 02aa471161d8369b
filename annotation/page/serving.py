"""review serve: the page on a socket of this machine."""

import re
import socket
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from annotation.page import links
from annotation.page.tasks import Tasks
from saferec_builder.core import os_error_messages as refusals
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage.workspace import Workspace, together

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Served:
    """The page, ready to be opened: `run` answers until somebody ends it. `links` are new ones, shown this once; the
    others in `people` have theirs."""

    address: str
    people: dict[str, int]  # reviewer -> open tasks
    links: dict[str, str] = field(repr=False)
    before: dict[str, str]  # reviewer -> another address, to which they have a link
    tasks: Tasks = field(repr=False)
    listening: socket.socket = field(repr=False)
    practice: bool = False

    def way(self, name: str) -> str:
        """How this person gets there."""
        there = self.before.get(name)
        other = f" to {there}, which opens this page with {self.address} in its place" if there else ""
        return self.links.get(name) or f"has a link{other} (`review link {name}` makes a new one)"

    def run(self) -> None:
        with together(self.tasks.ws):
            self.server().run(sockets=[self.listening])

    def server(self) -> "uvicorn.Server":
        import uvicorn

        from annotation.page.app import application

        app = application(self.tasks, self.address, self.practice)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, proxy_headers=False
        )
        return uvicorn.Server(config)


def serve(
    ws: Workspace, *, host: str = "127.0.0.1", port: int = 8765, url: str | None = None, practice: bool = False
) -> Served:
    """Reads the workspace and takes the port; `run` of what it gives answers browsers.

    `url` is the address that reviewers open, where it is another one: that of a proxy with TLS, or of this machine in
    its network. `practice`: whoever has answered nothing yet begins with five invented tasks. UsageError where the page
    cannot be had so; ReviewError where nobody has tasks on it.
    """
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise UsageError(f"the page needs {missing[0]}: pip install 'saferec-builder[page]'")
    if host not in LOOPBACK and url is None:
        raise UsageError(f"--host {host}: give --url too, the address that reviewers open")
    if url is not None and not re.fullmatch(r"https?://[^/@?#\s]+/?", url):  # not repeated: it may hold a password
        raise UsageError("--url: expected only scheme, name and port, like https://review.example.org")
    if not (people := links.people(ws)):
        raise ReviewError("nobody has tasks on the page: run `review push --tool page --reviewer NAME` first")
    tasks = Tasks(ws)
    taken = _socket(host, port)
    address = _as_browsers_send(url or f"http://{host}:{taken.getsockname()[1]}")
    before = {name: other for name, other in links.addresses(ws).items() if other != address}
    new = links.make(ws, set(people) - links.holders(ws).keys(), address)
    return Served(address, {name: tasks.left(name) for name in people}, new, before, tasks, taken, practice)


def _as_browsers_send(address: str) -> str:
    """In small letters, without the port that its scheme has anyway: Host and Origin are compared with it."""
    return re.sub(r"^(http://.*):80$|^(https://.*):443$", lambda m: m[1] or m[2], address.rstrip("/").lower())


def _socket(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as fault:
        raise UsageError(f"--port {port}: {refusals.line(fault) or fault}: give another one with --port") from None
