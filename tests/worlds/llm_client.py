"""Requests to a stub through the client, with replies in the order of the texts."""

from typing import Any

from saferec_builder import llm
from tests.servers.llm_stub import Stub, status

KEY = "sk-a-secret-of-the-user"
BUSY = status(429, retry_after_ms="20")


def body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


class Kept:
    """Paid answers in memory."""

    def __init__(self, paid: dict[str, str] | None = None) -> None:
        self.paid = {} if paid is None else paid

    def get(self, request: str) -> str | None:
        return self.paid.get(request)

    def put(self, reply: llm.Reply) -> None:
        self.paid[reply.request] = reply.body

    def check(self, content: str) -> str | None:
        return None if content == "fine" else "off schema: wanted fine"


def ask(stub: Stub, *texts: str, paid: dict[str, str] | None = None, **options: Any) -> list[llm.Reply]:
    """Replies in the order of the texts."""
    options = {"retries": 1, "concurrency": 4, "timeout": 5.0, "key": KEY} | options
    budget = options.pop("budget", llm.Budget())
    server = llm.Server("m", stub.url, **options)

    async def run() -> list[llm.Reply]:
        numbered = [r async for r in llm.replies(server, map(body, texts), Kept(paid), budget)]
        return [reply for _, reply in sorted(numbered, key=lambda pair: pair[0])]

    return llm.run(run())
