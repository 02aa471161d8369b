"""review serve: opens the page on a socket of this machine."""

import re
import socket
from dataclasses import dataclass, field
from importlib.util import find_spec

from annotation.page import links
from annotation.page.tasks import Tasks
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage.workspace import Workspace, together


@dataclass(frozen=True)
class Served:
    """The page, ready to run: `run` answers requests until it is interrupted. `links`: reviewer -> new link, shown only
    now; the others in `people` have one already."""

    address: str
    people: dict[str, int]  # reviewer -> open tasks
    links: dict[str, str] = field(repr=False)
    tasks: Tasks = field(repr=False)
    listening: socket.socket = field(repr=False)
    practice: bool = False

    def way(self, name: str) -> str:
        """The line that says how this person opens the page."""
        held = f"has a link, which opens this page with {self.address} before its # (`review link {name}`: a new one)"
        return self.links.get(name) or held

    def run(self) -> None:
        from annotation.page.app import server

        with together(self.tasks.ws):
            server(self.tasks, self.address, self.practice).run(sockets=[self.listening])


def serve(
    ws: Workspace, *, host: str = "127.0.0.1", port: int = 8765, url: str | None = None, practice: bool = False
) -> Served:
    """Reads the workspace and opens the port; `run` of the result answers browsers.

    `url`: the address that reviewers open, if it differs: that of a proxy with TLS, or of this machine in its network.
    `practice`: reviewers without an answer begin with five invented tasks. Raises UsageError if the page cannot be
    opened with these arguments, ReviewError if nobody has tasks on it.
    """
    if missing := [name for name in ("starlette", "uvicorn", "markdown_it") if find_spec(name) is None]:
        raise UsageError(f"the page needs {missing[0]}: pip install 'saferec-builder[page]'")
    if host not in ("127.0.0.1", "localhost") and url is None:
        raise UsageError(f"--host {host}: give --url too, the address that reviewers open")
    if url is not None and not re.fullmatch(r"https?://[^/@?#\s]+/?", url):  # not repeated: it may hold a password
        raise UsageError("--url: expected only scheme, name and port, like https://review.example.org")
    if not (people := links.people(ws)):
        raise ReviewError("nobody has tasks on the page: run `review push --tool page --reviewer NAME` first")
    tasks = Tasks(ws)
    try:
        listening = socket.create_server((host, port), backlog=128)
    except OSError as fault:
        remedy = "give another port (above 1023) with --port, or an IPv4 address of this machine with --host"
        raise UsageError(f"--host {host} --port {port}: {fault.strerror}: {remedy}") from None
    address = (url or f"http://{host}:{listening.getsockname()[1]}").rstrip("/").lower()
    # as browsers send it in Host and Origin: without the default port of its scheme
    address = re.sub(r"^(http://.*):80$|^(https://.*):443$", lambda m: m[1] or m[2], address)
    new_links = links.make(ws, set(people) - links.holders(ws), address)
    return Served(address, {name: tasks.left(name) for name in people}, new_links, tasks, listening, practice)
