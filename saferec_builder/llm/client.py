"""Sends many requests to a model server at once, within its limits and the budget, and each request only once."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from saferec_builder.llm.capabilities import Found, post, probed
from saferec_builder.llm.pricing import Budget
from saferec_builder.llm.rate_limit import Pace
from saferec_builder.llm.requests_and_replies import UNSENT, Body, Reply, Server, read_body

FATAL = ("quota exhausted", "key refused")  # every further request would end in the same way
GIVE_UP_AFTER = 20  # requests in a row that got no reply, were refused, or got an unusable answer
_UNREACHABLE = ("timeout", "connection failed", "server error", "web page instead of JSON", "redirected")
SILENT = dict.fromkeys(_UNREACHABLE, "server gone")
# reason of a request's error -> why a run stops after GIVE_UP_AFTER of them in a row
SILENT |= {"forbidden": "key refused", "bad request": "every request refused"}
SILENT["rate limited"] = "limit of requests reached (run again later, with less concurrency or more retries)"
SILENT["longer than the context"] = "texts longer than the context (give the model a longer one, or lower max_tokens)"
NO_MONEY = "budget reached"
UNUSABLE = ("cut off", "refused", "off schema", "empty answer", "no choices", "broken JSON")  # of answers that cost
RECENT, MOST_UNUSABLE = 100, 34  # a run stops at 34 unusable answers among the last 100
TOO_MANY_UNUSABLE = "not sent, as too many answers before were of no use"
_OTHER_MODEL = "name another model, or serve this one so that it keeps to the schema"
_ADVICE = {  # by the reason of most of them
    "cut off": "raise [propose] max_tokens or the model's own limit",
    "refused": "name a model that reads such texts",
}
_SAID = "do what `dropped` says above"
RESUME = {  # beginning of the reason why a run stopped -> what to do before it goes on
    NO_MONEY: "raise the budget (--budget-usd, or [propose] budget_usd)",
    "server gone": "start the server",
    "quota exhausted": "raise the quota of the key",
    "key refused": "correct the key",
    "every request refused": "see in `drops` what the server says, and correct it",
    "limit of requests reached": _SAID,
    "texts longer than the context": _SAID,
    TOO_MANY_UNUSABLE: _SAID,
}

T = TypeVar("T")


class Answers(Protocol):
    """Where paid answers are kept, and what makes them usable."""

    def get(self, request: str, /) -> str | None:
        """The body of the answer to a request, also of one that was put in this run."""

    def put(self, reply: Reply, /) -> None:
        """Keeps an answer that cost something, usable or not: called as soon as it arrives, even if the caller of
        `replies` stops reading."""

    def check(self, text: str, /) -> str | None:
        """What is wrong with an answer's text, or None."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine as asyncio.run does, on uvloop: that halves the CPU time of a request."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


async def replies(
    server: Server, bodies: Iterable[Body], answers: Answers, budget: Budget, found: Found | None = None
) -> AsyncGenerator[tuple[int, Reply]]:
    """Yields (place, reply) of every body, in the order in which they end; a body that occurs twice is sent once.

    found: called with the server as it must be asked. Raises ProposerError before the first request if the server
    cannot be used at all, and what `answers` raises.
    """
    exhausted = False
    async with AsyncExitStack() as stack:
        talk: _Talk | None = None
        waiting: dict[str, list[int]] = {}
        upcoming = iter(enumerate(bodies))
        postponed: list[tuple[int, Body]] = []  # at most one, which the budget cannot pay until others have ended
        while True:
            while talk is None or len(waiting) < talk.capacity:
                place, body = postponed.pop() if postponed else next(upcoming, (-1, None))
                if body is None:
                    break
                request = server.name(body)
                stored = answers.get(request)
                if stored is not None:
                    yield place, checked(replace(read_body(request, server.model, stored), cached=True), answers)
                elif request in waiting:
                    waiting[request].append(place)
                elif exhausted or (talk is None and not budget.affords(server, len(server.payload(body)))):
                    exhausted = True  # nothing is sent, not even the probe
                    yield place, Reply(request, server.model, error=f"{NO_MONEY}{UNSENT}")
                else:
                    if talk is None:
                        talk = await stack.enter_async_context(_Talk(server, answers, budget, found))
                    if not talk.start(request, body, alone=not waiting):
                        postponed.append((place, body))
                        break
                    waiting[request] = [place]
                    await asyncio.sleep(0)  # sends it now: requests sent together would keep coming in bursts
            if talk is None or not waiting:
                return
            reply = await talk.results.get()
            if isinstance(reply, Exception):
                raise reply
            for repeats, place in enumerate(waiting.pop(reply.request)):
                yield place, replace(reply, cached=True) if repeats else reply


def checked(reply: Reply, answers: Answers) -> Reply:
    fault = answers.check(reply.content) if reply.content is not None else None
    return replace(reply, error=fault, content=None) if fault else reply


class _Talk:
    """The connection of one run: probes the server at its start, cancels requests in flight at its end."""

    def __init__(self, server: Server, answers: Answers, budget: Budget, found: Found | None) -> None:
        from saferec_builder.llm.transport import Wire  # openai is loaded when the first request is sent

        self.server, self.answers, self.budget, self.found = server, answers, budget, found
        self.results: asyncio.Queue[Reply | Exception] = asyncio.Queue()
        self.pace = Pace(server.concurrency)
        self.wire = Wire(server, self.pace)
        self.in_flight: set[asyncio.Task[None]] = set()
        self.stop_reason: str | None = None
        self.silent_in_row = self.unusable_in_row = 0
        self.has_usable = False  # whether any answer was usable
        self.recent_unusable: deque[str] = deque(maxlen=RECENT)  # of the last answers: why one was unusable, or ""

    async def __aenter__(self) -> "_Talk":
        await self.wire.__aenter__()
        try:
            self.server = await probed(self.wire, self.server, self.budget, self.found)
        except BaseException:
            await self.wire.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.in_flight:
            task.cancel()
        try:
            await asyncio.gather(*self.in_flight, return_exceptions=True)
        finally:
            await self.wire.__aexit__()
            self.budget.n_busy += self.pace.n_busy

    @property
    def capacity(self) -> int:
        """How many requests may be in flight: no more than it takes to give up, until one had a usable answer."""
        allowed = self.pace.most if self.has_usable else GIVE_UP_AFTER - max(self.unusable_in_row, self.silent_in_row)
        return max(1, min(int(self.pace.limit), allowed))

    def start(self, request: str, body: Body, *, alone: bool) -> bool:
        """Starts a request. Returns False if the budget cannot pay until others end; alone: no other is in flight."""
        payload = self.server.payload(body)
        if not self.stop_reason and not self.budget.hold(request, self.server, len(payload)):
            if not alone:
                return False
            self.stop_reason = NO_MONEY
        if self.stop_reason:
            self.results.put_nowait(Reply(request, self.server.model, error=f"{self.stop_reason}{UNSENT}"))
            return True
        task = asyncio.create_task(self._queue_reply(request, payload))
        self.in_flight.add(task)
        task.add_done_callback(self.in_flight.discard)
        return True

    async def _queue_reply(self, request: str, payload: bytes) -> None:
        """Puts the reply or the exception into `results`: an exception that stayed here would block the reader."""
        try:
            self.results.put_nowait(await self._reply(request, payload))
        except Exception as error:
            self.results.put_nowait(error)

    async def _reply(self, request: str, payload: bytes) -> Reply:
        if self.stop_reason and self.stop_reason.startswith((*FATAL, TOO_MANY_UNUSABLE)):
            return Reply(request, self.server.model, error=f"{self.stop_reason}{UNSENT}")
        reply = await post(self.wire, self.server, request, payload)
        self.budget.pay(reply, len(payload))
        reply = checked(reply, self.answers)
        if reply.answered:
            self.answers.put(reply)
        self._update(reply)
        return reply

    def _update(self, reply: Reply) -> None:
        if reply.error is None:
            self.has_usable = True
            self.pace.ok()
        is_crowd = reply.reason == "rate limited" and self.pace.limit >= 2  # fewer at once may do
        self.silent_in_row = self.silent_in_row + 1 if reply.reason in SILENT and not is_crowd else 0
        if reply.reason in FATAL:
            self.stop_reason = reply.reason
        elif reply.reason and self.silent_in_row >= GIVE_UP_AFTER:
            self.stop_reason = SILENT[reply.reason]
        if reply.error is None or reply.reason in UNUSABLE:
            self.recent_unusable.append(reply.reason or "")
            self.unusable_in_row = self.unusable_in_row + 1 if reply.error else 0
            reasons = Counter(filter(None, self.recent_unusable))
            if self.unusable_in_row >= GIVE_UP_AFTER or reasons.total() >= MOST_UNUSABLE:
                advice = _ADVICE.get(reasons.most_common(1)[0][0], _OTHER_MODEL)
                self.stop_reason = self.stop_reason or f"{TOO_MANY_UNUSABLE} ({advice})"
