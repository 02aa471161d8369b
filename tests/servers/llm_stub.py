"""A stub model server on loopback, which resets or runs out of quota when a test needs it to.

Real answers come from the real server of tiny_gguf.py.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import loopback

SEA = "Write one short sentence about the sea. Plain prose, no JSON."  # the text of the start-up probe


class Stub(ThreadingHTTPServer):
    """Answers each text with its script, one action per request, the last one repeatedly; keeps the requests."""

    daemon_threads = True
    request_queue_size = 128  # with the default, 5, a burst waits for seconds to be accepted

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts: dict[str, list[Callable[[Any], None]]] = {}
        self.usual: Callable[[Any], None] = says("fine")
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.path = "/v1/chat/completions"  # every other path gets 404
        self.now = self.most = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that left (a timeout under test): it is no fault of the stub."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != self.server.path:
            self.inside = 0
            self.reply(404, '{"error": {"message": "unknown path"}}')
            return
        self.text = text = (body.get("messages") or body["input"])[-1]["content"]
        with self.server.lock:
            self.server.asked.append(text)
            self.server.bodies.append(body)
            self.server.now += 1
            self.inside = 1
            self.server.most = max(self.server.most, self.server.now)
            script = self.server.scripts.get(text, [probe if text == SEA else self.server.usual])
            action = script.pop(0) if len(script) > 1 else script[0]
        try:
            action(self)
        finally:
            self.leave()

    def leave(self) -> None:
        """Counts the request as over before the answer is sent: its reader may send the next request at once."""
        with self.server.lock:
            self.server.now -= self.inside
            self.inside = 0

    def reply(self, status: int, body: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.leave()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


def completion(content: str | None, end: str = "stop", **message: Any) -> str:
    choice = {"index": 0, "finish_reason": end, "message": {"role": "assistant", "content": content, **message}}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})


def response(content: str, **more: Any) -> str:
    """Returns a reply of `/responses`: the reasoning first, then a message."""
    part = {"type": "output_text", "text": content, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage: dict[str, Any] = {
        "input_tokens": 7,
        "output_tokens": 3,
        "total_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    usage["input_tokens_details"] = {"cached_tokens": 2, "cache_write_tokens": 0}
    reply = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": []}
    reply |= {"output": [{"type": "reasoning", "id": "rs_1", "summary": []}, message], "parallel_tool_calls": True}
    reply |= {"usage": usage, "tool_choice": "auto"}
    return json.dumps(reply | more)


def unbilled(content: str) -> str:
    return json.dumps(json.loads(completion(content)) | {"usage": None})


def says(content: str | None, end: str = "stop", **message: Any) -> Callable[[Handler], None]:
    return lambda h: h.reply(200, completion(content, end, **message))


def status(code: int, body: str = '{"error": {"message": "no"}}', **headers: str) -> Callable[[Handler], None]:
    return lambda h: h.reply(code, body, **headers)


def probe(h: Handler) -> None:
    """Answers the start-up probe, free of charge."""
    h.reply(200, unbilled('{"word": "zephyr-42"}'))


def slow(h: Handler) -> None:
    time.sleep(1.0)
    h.reply(200, completion("late"))


def reset(h: Handler) -> None:
    h.close_connection = True


def half(h: Handler) -> None:
    h.send_response(200)
    h.send_header("Content-Length", "10000")
    h.end_headers()
    h.leave()
    h.wfile.write(b'{"choices": [')
    h.close_connection = True


def running() -> AbstractContextManager[Stub]:
    return loopback.running(Stub())
