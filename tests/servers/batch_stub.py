"""A double of OpenAI's file and batch endpoints on loopback, which loses half a batch when a test needs it to."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.llm_stub import unbilled
from tests.servers.loopback import Asked, Reply, serving

Line = dict[str, Any]


class Batches:
    """`answer` returns the reply body for a request's text, or None for a request that expires."""

    def __init__(self, answer: Callable[[str], str | None]) -> None:
        self.answer, self.url = answer, ""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Line] = {}
        self.looks = 2  # how many polls find a batch in progress before it ends
        self.breaks: list[str] = []  # paths whose next request takes effect, but gets no reply
        self.end = "completed"
        self.refuses = ""  # the reason why every batch fails as a whole
        self.fixed = False  # whether a request with a temperature is an error
        self.probes = 0

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
        good, bad = list[Line](), list[Line]()
        for line in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(line)
            name, body = {"custom_id": request["custom_id"]}, request["body"]
            if self.fixed and "temperature" in body:
                bad.append(name | {"response": {"status_code": 400, "body": {}}})
            elif (completion := self.answer((body.get("messages") or body["input"])[-1]["content"])) is None:
                bad.append(name | {"response": None, "error": {"code": "batch_expired"}})
            else:
                good.append(name | {"response": {"status_code": 200, "body": json.loads(completion)}, "error": None})
        batch["status"] = self.end
        for file, lines in (("output_file_id", good[::-1]), ("error_file_id", bad)):
            batch[file] = self.put("\n".join(map(json.dumps, lines)).encode()) if lines else None

    def reply(self, asked: Asked) -> Reply | None:
        if asked.method == "GET":
            return self._looked_up(asked)
        if asked.path == "/v1/files":
            mark = b"--" + asked.headers["Content-Type"].split("boundary=")[1].encode()
            part = next(p for p in asked.body.split(mark) if b'name="file"' in p)
            return self._say(asked, {"id": self.put(part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n"))})
        body = json.loads(asked.body)
        if asked.path == "/v1/chat/completions":  # the start-up probe, the only request outside a batch
            self.probes += 1
            if self.fixed and "temperature" in body:
                return Reply(400, b'{"error": {"message": "temperature"}}')
            return Reply(200, unbilled('{"word": "zephyr-42"}').encode())
        name = f"batch-{len(self.batches)}"
        self.batches[name] = body | {"id": name, "status": "in_progress", "looks": 0}
        return self._say(asked, self.batches[name])

    def _looked_up(self, asked: Asked) -> Reply | None:
        if (file := re.fullmatch(r"/v1/files/(.+)/content", asked.path)) and file[1] not in self.files:
            return Reply(404, b'{"error": {"message": "No such File object"}}')
        if file:
            return self._say(asked, self.files[file[1]])
        if not (match := re.fullmatch(r"/v1/batches/(.+)", asked.path)):
            return self._say(asked, {"data": list(reversed(self.batches.values())), "has_more": False})
        batch = self.batches[match[1]]
        batch["looks"] += 1
        if batch["looks"] > self.looks and batch["status"] == "in_progress":
            self.settle(batch)
        return self._say(asked, batch)

    def _say(self, asked: Asked, told: Any) -> Reply | None:
        if asked.path in self.breaks:
            self.breaks.remove(asked.path)
            return None
        return Reply(200, told if isinstance(told, bytes) else json.dumps(told).encode())


@contextmanager
def running(answer: Callable[[str], str | None]) -> Iterator[Batches]:
    batches = Batches(answer)
    with serving(batches.reply, "HTTP/1.1") as url:
        batches.url = f"{url}/v1"
        yield batches
