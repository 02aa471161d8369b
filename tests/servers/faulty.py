"""A proxy that breaks: before a real server it loses requests, answers and time, one planned fault after another."""

import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("refuse", "fail", "done_but_500", "done_but_cut", "late")
PAUSE = 0.6  # seconds that a late request waits before it is passed on; the client gives up earlier


class Proxy:
    """`faults` are met by the next requests whose method is in `methods`; an empty plan passes everything on."""

    def __init__(self, target: str) -> None:
        self.target, self.faults, self.methods, self.met = target, deque[str](), ("POST", "PUT"), 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def _any(self) -> None:
            import httpx2

            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = ""
            if proxy.faults and self.command in proxy.methods:
                fault, proxy.met = proxy.faults.popleft(), proxy.met + 1
            if fault == "refuse":
                self.close_connection = True
                return
            if fault == "fail":
                self._reply(500, b"broken on purpose")
                return
            if fault == "late":
                time.sleep(PAUSE)
            headers = {
                k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "content-length")
            }
            told = httpx2.request(self.command, proxy.target + self.path, content=body, headers=headers, timeout=120)
            if fault == "done_but_500":
                self._reply(500, b"done, and broken on purpose")
            elif fault in ("done_but_cut", "late"):
                self.close_connection = True
            else:
                self._reply(told.status_code, told.content, told.headers.get("content-type", "application/json"))

        def _reply(self, status: int, content: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

    return Handler
