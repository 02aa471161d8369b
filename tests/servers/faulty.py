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
from pathlib import Path
from typing import Any

import httpx2

from tests.servers.loopback import Asked, Reply, serving

Spoil = Callable[[str, int, bytes], tuple[int, bytes]]  # path and the server's answer -> the client's answer
FAULTS = ("refuse", "fail", "done_but_500", "done_but_cut", "late", "slow", "lock")
MORE = 0.4  # seconds beyond the client's timeout
HOPS = ("host", "connection", "content-length")  # headers that each hop sets itself


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
        self.stack = serving(self.answer)
        self.url = self.stack.__enter__()

    def away(self) -> None:
        """Closes the proxy's address."""
        self.stack.__exit__(None, None, None)

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

    def answer(self, asked: Asked) -> Reply | None:
        fault = ""
        if self.faults and asked.method in self.methods:
            fault = self.faults.popleft()
            self.met[fault] += 1
        if fault == "refuse":
            return None
        if status := {"fail": 500, "deny": 400, "elsewhere": 307}.get(fault):
            return self._reply(asked, status, b"broken on purpose")
        if fault == "late":
            time.sleep(self.patience + MORE)
        lock = self.lock() if fault == "lock" else None
        reply = self._passed_on(asked)
        if lock:
            lock.join()
        if fault == "slow":
            time.sleep(self.patience + MORE)
        if fault == "kill":
            with suppress(ProcessLookupError):
                os.kill(self.victim, signal.SIGKILL)
        if fault in ("done_but_cut", "late", "kill"):
            return None
        if fault == "done_but_500":
            return self._reply(asked, 500, b"done, and broken on purpose")
        status, content = self.spoil(asked.path, reply.status_code, reply.content)
        return self._reply(asked, status, content, reply.headers.get("content-type", "application/json"))

    def _passed_on(self, asked: Asked) -> Any:
        if asked.method == "GET" and asked.path in (self.told or {}):
            return self.told[asked.path]
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in HOPS}
        url = self.target + asked.path
        reply = httpx2.request(asked.method, url, content=asked.body, headers=headers, timeout=120)
        if asked.method == "GET" and self.told is not None:
            self.told[asked.path] = reply
        return reply

    def _reply(self, asked: Asked, status: int, content: bytes, kind: str = "text/plain") -> Reply:
        location = (("Location", self.elsewhere + asked.path),) if status in (302, 307) else ()
        return Reply(status, content, (("Content-Type", kind), *location))
