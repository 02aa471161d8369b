"""A server that refuses everybody and repeats everything that it was sent: nobody's own words for a wrong key."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def running(status: int) -> Iterator[str]:
    """Its address; each request is answered with the status."""

    class Parrot(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told = f"Incorrect key: {dict(self.headers)}"
            said = json.dumps({"detail": told, "error": {"message": told}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else said)

        do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = answer

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Parrot)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
