"""A faulty proxy in front of a real server: it loses or delays requests and answers, one planned fault after another.

refuse        the connection is cut, nothing was passed on
fail          500, nothing was passed on
done_but_500  passed on, and 500 all the same
done_but_cut  passed on, and the connection is cut instead of an answer
late          passed on after the client has given up
slow          passed on at once, the answer comes after the client has given up
lock          another connection holds the write lock of the server's database until after the client has given up
kill          passed on, and the client is killed instead of an answer
elsewhere     redirected to another server (`elsewhere`), nothing was passed on
deny          400, nothing was passed on
pass          passed on, and nothing breaks: a placeholder in the plan
"""

import os
import signal
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

Spoil = Callable[[str, int, bytes], tuple[int, bytes]]  # path and the server's answer -> the client's answer
FAULTS = ("refuse", "fail", "done_but_500", "done_but_cut", "late", "slow", "lock")
MORE = 0.4  # seconds beyond the client's timeout


class Proxy:
    """Each next request whose method is in `methods` meets one of `faults`; without faults, all is passed on.

    `patience`: the client's timeout; `database`: the server's SQLite file; `victim`: the client's process.
    """

    def __init__(self, target: str, database: Path, patience: float) -> None:
        self.target, self.database, self.patience = target, database, patience
        self.faults, self.methods, self.met, self.victim = deque[str](), ("POST", "PUT"), Counter[str](), 0
        self.elsewhere = ""
        self.told: dict[str, Any] | None = None  # a dict caches replies: the server gets each GET once
        self.spoil: Spoil = lambda path, status, body: (status, body)
        self.port = 0
        self.back()
        self.url = f"http://127.0.0.1:{self.port}"

    def back(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def away(self) -> None:
        """Closes the proxy's address until `back` opens it."""
        self.server.shutdown()
        self.server.server_close()

    def lock(self) -> threading.Thread:
        """Takes the database's write lock; a thread holds it until after the client's timeout."""
        locked = threading.Event()

        def hold() -> None:
            with closing(sqlite3.connect(self.database, timeout=30, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                locked.set()
                time.sleep(self.patience + MORE)
                connection.execute("ROLLBACK")

        thread = threading.Thread(target=hold)
        thread.start()
        assert locked.wait(60)
        return thread


HOPS = ("host", "connection", "content-length")  # headers that each hop sets itself


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = ""
            if proxy.faults and self.command in proxy.methods:
                fault = proxy.faults.popleft()
                proxy.met[fault] += 1
            if fault == "refuse":
                self.close_connection = True
                return
            if fault in ("fail", "deny", "elsewhere"):
                self._reply({"fail": 500, "deny": 400, "elsewhere": 307}[fault], b"broken on purpose")
                return
            if fault == "late":
                time.sleep(proxy.patience + MORE)
            lock = proxy.lock() if fault == "lock" else None
            reply = self._told(body)
            if lock:
                lock.join()
            if fault == "slow":
                time.sleep(proxy.patience + MORE)
            if fault == "kill":
                with suppress(ProcessLookupError):
                    os.kill(proxy.victim, signal.SIGKILL)
            if fault in ("done_but_cut", "late", "kill"):
                self.close_connection = True
            elif fault == "done_but_500":
                self._reply(500, b"done, and broken on purpose")
            else:
                status, content = proxy.spoil(self.path, reply.status_code, reply.content)
                self._reply(status, content, reply.headers.get("content-type", "application/json"))

        def _told(self, body: bytes) -> Any:
            if proxy.told is None or self.command != "GET":
                return self._pass_on(body)
            if self.path not in proxy.told:
                proxy.told[self.path] = self._pass_on(body)
            return proxy.told[self.path]

        def _pass_on(self, body: bytes) -> Any:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOPS}
            return httpx2.request(self.command, proxy.target + self.path, content=body, headers=headers, timeout=120)

        def _reply(self, status: int, content: bytes, kind: str = "text/plain") -> None:
            with suppress(ConnectionError):  # the client may be gone
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if status in (302, 307):
                    self.send_header("Location", proxy.elsewhere + self.path)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

    return Handler
