"""A double of OpenAI's file and batch endpoints on loopback, which loses half a batch when a test needs it to."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import loopback
from tests.servers.llm_stub import unbilled

Line = dict[str, Any]


class Batches(ThreadingHTTPServer):
    """`answer` returns the reply body for a request's text, or None for a request that expires."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str], str | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Line] = {}
        self.looks = 2  # how many polls find a batch in progress before it ends
        self.breaks: list[str] = []  # paths whose next request takes effect, but gets no reply
        self.end = "completed"
        self.refuses = ""  # the reason why every batch fails as a whole
        self.fixed = False  # whether a request with a temperature is an error
        self.probes = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def sent(self) -> list[str]:
        """The ids of all requests in all batches."""
        contents = (self.files[b["input_file_id"]] for b in self.batches.values())
        return [json.loads(line)["custom_id"] for content in contents for line in content.splitlines()]

    def put(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def settle(self, batch: Line) -> None:
        if self.refuses:
            batch |= {"status": "failed", "errors": {"data": [{"code": "invalid", "message": self.refuses}]}}
            return
        good, bad = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(line)
            if self.fixed and "temperature" in request["body"]:
                bad.append(
                    json.dumps({"custom_id": request["custom_id"], "response": {"status_code": 400, "body": {}}})
                )
                continue
            completion = self.answer((request["body"].get("messages") or request["body"]["input"])[-1]["content"])
            if completion is None:
                expired = {"custom_id": request["custom_id"], "response": None, "error": {"code": "batch_expired"}}
                bad.append(json.dumps(expired))
            else:
                reply = {"status_code": 200, "body": json.loads(completion)}
                good.append(json.dumps({"custom_id": request["custom_id"], "response": reply, "error": None}))
        batch |= {"status": self.end, "output_file_id": self.put("\n".join(reversed(good)).encode()) if good else None}
        batch |= {"error_file_id": self.put("\n".join(bad).encode()) if bad else None}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Batches

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/files":
            mark = b"--" + self.headers["Content-Type"].split("boundary=")[1].encode()
            part = next(p for p in content.split(mark) if b'name="file"' in p)
            self._say({"id": self.server.put(part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n"))})
        elif self.path == "/v1/chat/completions":
            self._probed("temperature" in json.loads(content))
        else:
            name = f"batch-{len(self.server.batches)}"
            batch = json.loads(content) | {"id": name, "status": "in_progress", "looks": 0}
            self.server.batches[name] = batch
            self._say(batch)

    def do_GET(self) -> None:
        if (file := re.fullmatch(r"/v1/files/(.+)/content", self.path)) and file[1] not in self.server.files:
            self._bare(404, b'{"error": {"message": "No such File object"}}')
        elif file:
            self._say(self.server.files[file[1]])
        elif match := re.fullmatch(r"/v1/batches/(.+)", self.path):
            batch = self.server.batches[match[1]]
            batch["looks"] += 1
            if batch["looks"] > self.server.looks and batch["status"] == "in_progress":
                self.server.settle(batch)
            self._say(batch)
        else:
            self._say({"data": list(reversed(self.server.batches.values())), "has_more": False})

    def _probed(self, temperature: bool) -> None:
        """Answers the start-up probe, the only request outside a batch."""
        self.server.probes += 1
        refused = self.server.fixed and temperature
        body = b'{"error": {"message": "temperature"}}' if refused else unbilled('{"word": "zephyr-42"}').encode()
        self._bare(400 if refused else 200, body)

    def _say(self, told: Any) -> None:
        if self.path in self.server.breaks:
            self.server.breaks.remove(self.path)
            self.close_connection = True
            return
        self._bare(200, told if isinstance(told, bytes) else json.dumps(told).encode())

    def _bare(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def running(answer: Callable[[str], str | None]) -> AbstractContextManager[Batches]:
    return loopback.running(Batches(answer))
