"""Sends many requests to a model server at once: within its limits and the budget, and each only once."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from saferec_builder.llm.capabilities import Found, post, probed
from saferec_builder.llm.pricing import Budget
from saferec_builder.llm.rate_limit import Pace
from saferec_builder.llm.requests_and_replies import UNSENT, Body, Reply, Server, read_body

FATAL = ("quota exhausted", "key refused")  # the next request would end in the same way
GIVE_UP_AFTER = 20  # replies in a row that never came, or were refused
_GONE = ("timeout", "connection failed", "server error", "web page instead of JSON", "redirected")
SILENT = dict.fromkeys(_GONE, "server gone")
SILENT |= {"forbidden": "key refused", "bad request": "every request refused"}  # what so many in a row say
NO_MONEY = "budget reached"
UNUSABLE = ("cut off", "refused", "off schema", "empty answer", "no choices", "broken JSON")  # of answers that cost
LAST, A_THIRD = 100, 34
NO_USE = "answers of no use (raise [propose] max_tokens, or name another model)"  # so many of them, one after the other

Get = Callable[[str], str | None]  # what was put in this run it gives, too
Put = Callable[[Reply], None]
Check = Callable[[str], str | None]
Ended = asyncio.Queue[Reply | Exception]
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on uvloop, where there is one: half the CPU of a request."""
    factory = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


async def replies(
    server: Server,
    bodies: Iterable[Body],
    *,
    get: Get,
    put: Put,
    check: Check,
    budget: Budget | None = None,
    found: Found | None = None,
) -> AsyncGenerator[tuple[int, Reply]]:
    """(place, reply) of every body, in the order in which they end; a body that comes twice is asked once.

    check: what is wrong with an answer's text, or None. put: called as soon as an answer is there that costs something,
    of use or not, also where nobody reads on. found: called with the server as it wants to be asked.
    Raises ProposerError before the first request where the server cannot be used at all; what `check` or `put` raises.
    """
    budget, broke = budget or Budget(), False
    async with AsyncExitStack() as stack:
        talk: _Talk | None = None
        ended: Ended = asyncio.Queue()
        waiting: dict[str, list[int]] = {}
        todo = iter(enumerate(bodies))
        kept: list[tuple[int, Body]] = []  # one that the budget cannot pay before others are settled
        while True:
            while talk is None or len(waiting) < talk.room:
                n, body = kept.pop() if kept else next(todo, (-1, None))
                if body is None:
                    break
                request = server.name(body)
                paid = get(request)
                if paid is not None:
                    yield n, checked(replace(read_body(request, server.model, paid), cached=True), check)
                elif request in waiting:
                    waiting[request].append(n)
                elif broke or (talk is None and not budget.affords(server, len(server.payload(body)))):
                    broke = True  # and nothing is sent, not even the question at the start
                    yield n, Reply(request, server.model, error=f"{NO_MONEY}{UNSENT}")
                else:
                    if talk is None:
                        talk = await stack.enter_async_context(_Talk(server, check, put, ended, budget, found))
                    if not talk.start(request, body, alone=not waiting):
                        kept.append((n, body))
                        break
                    waiting[request] = [n]
                    await asyncio.sleep(0)  # it leaves now: a burst that waits for its last stays one for ever
            if not waiting:
                return
            reply = await ended.get()
            if isinstance(reply, Exception):
                raise reply
            for again, n in enumerate(waiting.pop(reply.request)):
                yield n, replace(reply, cached=True) if again else reply


def checked(reply: Reply, check: Check) -> Reply:
    fault = check(reply.content) if reply.content is not None else None
    return replace(reply, error=fault, content=None) if fault else reply


class _Talk:
    """The open connection of one run: probed at its start, requests in flight cancelled at its end."""

    def __init__(
        self, server: Server, check: Check, put: Put, ended: Ended, budget: Budget, found: Found | None
    ) -> None:
        from saferec_builder.llm.transport import Wire  # openai is loaded when the first request is sent

        self.server, self.check, self.put, self.ended, self.budget = server, check, put, ended, budget
        self.found = found
        self.pace = Pace(server.concurrency)
        self.wire = Wire(server, self.pace)
        self.flying: set[asyncio.Task[None]] = set()
        self.stopped: str | None = None
        self.silent = self.useless = 0
        self.proven = False  # whether an answer was of use
        self.paid: deque[bool] = deque(maxlen=LAST)  # of the last answers, which were of no use

    async def __aenter__(self) -> "_Talk":
        await self.wire.__aenter__()
        try:
            self.server = await probed(self.wire, self.server, self.budget, self.found)
        except BaseException:
            await self.wire.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.flying:
            task.cancel()
        try:
            await asyncio.gather(*self.flying, return_exceptions=True)
        finally:
            await self.wire.__aexit__()

    @property
    def room(self) -> int:
        """Requests that may be out at once: no more than it takes to give up, until one was answered well."""
        left = self.pace.most if self.proven else GIVE_UP_AFTER - max(self.useless, self.silent)
        return max(1, min(int(self.pace.limit), left))

    def start(self, request: str, body: Body, *, alone: bool) -> bool:
        """False where the budget cannot pay now, and may once those in flight are settled; `alone`: none is."""
        payload = self.server.payload(body)
        if not self.stopped and not self.budget.hold(request, self.server, len(payload)):
            if not alone:
                return False
            self.stopped = NO_MONEY
        if self.stopped:
            self.ended.put_nowait(Reply(request, self.server.model, error=f"{self.stopped}{UNSENT}"))
            return True
        task = asyncio.create_task(self._run(request, payload))
        self.flying.add(task)
        task.add_done_callback(self.flying.discard)
        return True

    async def _run(self, request: str, payload: bytes) -> None:
        """Every end reaches `ended`: a fault that stayed in its task would leave the reader waiting for ever."""
        try:
            self.ended.put_nowait(await self._reply(request, payload))
        except Exception as fault:
            self.ended.put_nowait(fault)

    async def _reply(self, request: str, payload: bytes) -> Reply:
        if self.stopped in (*FATAL, NO_USE):
            return Reply(request, self.server.model, error=f"{self.stopped}{UNSENT}")
        reply = await post(self.wire, self.server, request, payload)
        self.budget.pay(reply, len(payload))
        reply = checked(reply, self.check)
        if reply.answered:
            self.put(reply)
        self._note(reply)
        return reply

    def _note(self, reply: Reply) -> None:
        if reply.error is None:
            self.proven = True
            self.pace.ok()
        self.silent = self.silent + 1 if reply.reason in SILENT else 0
        if reply.reason in FATAL:
            self.stopped = reply.reason
        elif reply.reason and self.silent >= GIVE_UP_AFTER:
            self.stopped = SILENT[reply.reason]
        if reply.error is None or reply.reason in UNUSABLE:
            self.paid.append(reply.error is not None)
            self.useless = self.useless + 1 if reply.error else 0
            if self.useless >= GIVE_UP_AFTER or sum(self.paid) >= A_THIRD:
                self.stopped = self.stopped or NO_USE
