"""Runs a web server on loopback as long as a test needs it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import unquote_plus

Server = TypeVar("Server", bound=HTTPServer)
JSON = ("Content-Type", "application/json")


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@contextmanager
def running(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(answer: Callable[[Asked], Reply | None], protocol: str = "HTTP/1.0") -> Iterator[str]:
    """Yields the address of a server that answers each request with `answer`; None closes the connection instead."""

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True
        protocol_version = protocol

        def _any(self) -> None:
            reply = answer(Asked(self.command, self.path, self.headers, self._body()))
            self.close_connection |= reply is None
            with suppress(ConnectionError):  # the client may be gone
                if reply is not None:
                    self.send_response(reply.status)
                    for name, value in {"Content-Length": str(len(reply.body)), **dict(reply.headers)}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(b"" if self.command == "HEAD" else reply.body)

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = do_DELETE = _any

        def log_message(self, *words: object) -> None:
            pass

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def parrot(status: int) -> AbstractContextManager[str]:
    """A server that refuses each request as if its key were wrong, and repeats its headers in the message."""

    def answer(asked: Asked) -> Reply:
        message = f"Incorrect key: {dict(asked.headers)}"
        return Reply(status, json.dumps({"detail": message, "error": {"message": message}}).encode(), (JSON,))

    return serving(answer)


@contextmanager
def scripted(replies: dict[str, Any]) -> Iterator[str]:
    """Yields the address of a server that gets exactly these requests (`METHOD path body`, or without the body for
    any), in this order, and answers with this JSON or Reply; a request may come again."""
    requests: list[str] = []

    def answer(asked: Asked) -> Reply:
        line = f"{asked.method} {unquote_plus(asked.path)}"
        if asked.body and line not in replies:
            line += f" {json.dumps(json.loads(asked.body), sort_keys=True)}"
        requests.append(line)
        reply = replies.get(line, Reply(404))
        return reply if isinstance(reply, Reply) else Reply(200, json.dumps(reply).encode(), (JSON,))

    with serving(answer) as url:
        yield url
    assert [*dict.fromkeys(requests)] == [*replies]
