"""OpenAI's Batch API: the same requests at half the price, answered within a day; safe to kill at any moment.

A ledger remembers what is uploaded and submitted. A run first settles the batches that are open, then submits what no
reply was paid for. A kill between the submission and the note is found again by the mark that the batch carries on the
server, so nothing is submitted twice.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeVar

import openai

from saferec_builder.core.errors import ProposerError, whole_object
from saferec_builder.llm.answer_forms import RESPONSES
from saferec_builder.llm.capabilities import Found, probed
from saferec_builder.llm.client import NO_MONEY, Check, Get, Put, checked
from saferec_builder.llm.pricing import Budget, Price
from saferec_builder.llm.requests_and_replies import UNSENT, Body, Reply, Server, read_body, refusal
from saferec_builder.llm.transport import Wire
from saferec_builder.storage.tables import digest

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # of one file
OVER = ("completed", "failed", "expired", "cancelled")
MARK = "saferec_batch"
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A batch as the ledger has it: uploaded (remote is the file) | submitted (remote is the batch) | done."""

    batch: str
    state: str
    remote: str
    requests: int
    usd: float = 0.0  # the most that it can cost; 0 where an older program has submitted it
    billed: bool = False

    @property
    def mark(self) -> str:
        """What names it on the server, as long as only its file is there."""
        return f"{self.batch}-{self.remote}"


class Ledger(Protocol):
    """What is remembered of the batches of one server and model, and of what they ask about."""

    def open(self) -> list[Entry]:
        """Those that are not done, each as it was noted last."""

    def note(self, entry: Entry) -> None: ...

    def about(self, asked: list[tuple[str, int]]) -> None:
        """Called before these requests (name, place among the bodies) leave: whose texts they are, an erasure finds."""

    def knows(self, request: str) -> bool:
        """Whether it is still noted whose text a request is about: after an erasure it is not."""

    def bill(self, entry: Entry | None = None) -> None:
        """Writes what the budget has paid since the last call; that of a batch once, however often it is fetched."""


async def replies(
    server: Server,
    bodies: Iterable[Body],
    *,
    get: Get,
    put: Put,
    check: Check,
    budget: Budget,
    ledger: Ledger,
    poll: float = 30.0,
    found: Found | None = None,
) -> AsyncGenerator[tuple[int, Reply]]:
    """As `client.replies`, by way of batches: waits until every batch is over, asking every `poll` seconds."""
    todo = list(bodies)
    names = [server.name(body) for body in todo]
    asked = dict(zip(names, todo, strict=True))
    taken = _Taken(server, asked, get, put, check, budget, ledger)
    failed = taken.failed
    async with Wire(server) as wire:
        batches = _Batches(server, wire, taken)
        await batches.settle(ledger.open(), poll)
        missing = {n: b for n, b in asked.items() if get(n) is None and n not in failed}
        if any(budget.affords(server, len(server.payload(body))) for body in missing.values()):
            # before the batch: that it refuses something would be known a day later
            server = batches.server = await probed(wire, server, budget, found)
        made = []
        for part in _parts(server, missing, budget, failed):
            ledger.about([(name, n) for n, name in enumerate(names) if name in part])
            made.append(await batches.submit(part))
        await batches.settle(made, poll)
    given: set[str] = set()  # of texts that are there twice, the first is what was asked
    for n, request in enumerate(names):
        paid = get(request)
        if paid is not None:
            reply = checked(read_body(request, server.model, paid), check)
            yield n, replace(reply, cached=request not in taken.fresh or request in given)
        else:
            lost = Reply(
                request, server.model, error=f"not answered: the batch ended without this request{batches.why}"
            )
            yield n, replace(failed.get(request, lost), cached=request in given)
        given.add(request)


async def fetch(
    server: Server,
    bodies: Iterable[Body],
    *,
    get: Get,
    put: Put,
    check: Check,
    budget: Budget,
    ledger: Ledger,
    price: Price | None,
) -> int:
    """Takes the answers of open batches that are over, before these bodies are asked directly: how many requests are in
    those that are not. price: of a batch. What the server has no more, or shows to another key only, stays open."""
    taken = _Taken(server, {server.name(body): body for body in bodies}, get, put, check, budget, ledger, price)
    async with Wire(server) as wire:
        return sum(entry.requests for entry in await _Batches(server, wire, taken).settle(ledger.open(), None))


@dataclass
class _Taken:
    """What came of the batches of a run."""

    server: Server
    asked: Mapping[str, Body]
    get: Get
    put: Put
    check: Check
    budget: Budget
    ledger: Ledger
    price: Price | None = None  # where it is not the budget's own
    fresh: set[str] = field(default_factory=set)  # requests whose answers this run has fetched
    failed: dict[str, Reply] = field(default_factory=dict)  # requests without one

    def take(self, entry: Entry, replies: list[Reply]) -> None:
        """All that a batch has answered: its bill first, as a whole. A kill leaves both to the next run, or the answers
        alone; the other way round those that are kept would never be billed."""
        found: dict[str, Reply] = {}
        for reply in replies:
            if not (reply.request in found and found[reply.request].answered):
                found[reply.request] = reply  # a line that stands there twice was paid for once
        if not entry.billed:
            self.ledger.bill()  # what was paid before is none of this batch's
            for name, reply in found.items():
                body = self.asked.get(name)  # None: a killed run asked it in other words
                sent, most = len(self.server.payload(body)) if body else 0, entry.usd / max(1, entry.requests)
                self.budget.pay(reply, sent, price=self.price, most=most)
            self.ledger.bill(entry)
        for reply in found.values():
            self._keep(reply)
        self.done(entry)

    def lose(self, entry: Entry) -> None:
        """A batch whose answers nobody can fetch: it was paid for, and the most that it can have cost is billed."""
        if not entry.billed:
            self.ledger.bill()
            self.budget.pay_sum(entry.usd)
            self.ledger.bill(entry)
        self.done(entry)

    def done(self, entry: Entry) -> None:
        self.ledger.note(replace(entry, state="done"))
        self.budget.aside -= entry.usd

    def _keep(self, reply: Reply) -> None:
        if reply.answered and self.get(reply.request) == reply.body:
            return  # a killed run has kept it
        if reply.request not in self.asked and not self.ledger.knows(reply.request):
            return  # of somebody who was erased while the batch was out
        reply = checked(reply, self.check)
        self.fresh.add(reply.request)
        if reply.answered:
            self.failed.pop(reply.request, None)
            self.put(reply)
        else:
            self.failed[reply.request] = reply


def _endpoint(server: Server) -> Literal["/v1/responses", "/v1/chat/completions"]:
    return "/v1/responses" if server.way == RESPONSES else "/v1/chat/completions"


def _parts(
    server: Server, missing: dict[str, Body], budget: Budget, failed: dict[str, Reply]
) -> Iterator[dict[str, bytes]]:
    """Files of at most so many requests and bytes: name -> its line; what the budget cannot pay is not sent."""
    part: dict[str, bytes] = {}
    size = 0
    for request, body in missing.items():
        payload = server.payload(body)
        if not budget.hold(request, server, len(payload)):
            failed[request] = Reply(request, server.model, error=f"{NO_MONEY}{UNSENT}")
            continue
        head = json.dumps({"custom_id": request, "method": "POST", "url": _endpoint(server)})
        line = head[:-1].encode() + b', "body": ' + payload + b"}\n"
        if part and (len(part) == MOST_REQUESTS or size + len(line) > MOST_BYTES):
            yield part
            part, size = {}, 0
        part[request] = line
        size += len(line)
    if part:
        yield part


class _Gone(ProposerError):
    """A batch, or its answers, that the server does not have, or not for this key."""


class _Batches:
    """Uploads, submits, waits and fetches; every step is noted before the next begins."""

    def __init__(self, server: Server, wire: Wire, taken: _Taken) -> None:
        self.server, self.wire, self.taken, self.note = server, wire, taken, taken.ledger.note
        self.client, self.once = wire.client, wire.client.with_options(max_retries=0)  # once: never done twice
        self.why = ""  # what the server answers about a batch that failed as a whole

    async def submit(self, part: dict[str, bytes]) -> Entry:
        name = digest("batch", sorted(part))
        lines = (f"{name}.jsonl", b"".join(part.values()), "application/jsonl")
        file = (await self._checked("upload", self.once.files.create(file=lines, purpose="batch"))).id
        return await self._start(
            self._noted(Entry(name, "uploaded", file, len(part), self.taken.budget.hold_as_one(part)))
        )

    async def _start(self, entry: Entry) -> Entry:
        start = self.once.batches.create(
            input_file_id=entry.remote,
            endpoint=_endpoint(self.server),
            completion_window="24h",
            metadata={MARK: entry.mark},
        )
        return self._noted(replace(entry, state="submitted", remote=(await self._checked("submit", start)).id))

    def _noted(self, entry: Entry) -> Entry:
        self.note(entry)
        return entry

    async def settle(self, entries: list[Entry], poll: float | None) -> list[Entry]:
        """Waits for these batches and takes what is in them. Without `poll` it waits for none: those that are not over
        come back, and one that the server has no more is passed over."""
        left = []
        for entry in entries:
            try:
                if not await self._settled(entry, poll):
                    left.append(entry)
            except _Gone:
                if poll is not None:
                    raise
        return left

    async def _settled(self, entry: Entry, poll: float | None) -> bool:
        """Whether it is over. One that was uploaded only is looked for; if it was never submitted, it is not now: of
        what it asks, somebody may have asked to be removed since."""
        if entry.state == "uploaded":
            found: Entry | None = await self._checked("list", self._found(entry), "")
            if found is None:
                self.taken.done(entry)
                return True
            entry = self._noted(found)
        while True:
            batch = await self._checked("ask for", self.client.batches.retrieve(entry.remote))
            if batch.status in OVER:
                break
            if poll is None:
                return False
            await asyncio.sleep(poll)
        # all of it first: what is taken is billed, and what is noted as done is not fetched and billed again
        files = filter(None, (batch.output_file_id, batch.error_file_id))
        try:
            replies = [reply for file in files for reply in await self._fetched(file)]
        except _Gone:  # deleted there, and nobody's other key finds it: the batch itself is known
            self.taken.lose(entry)
            raise
        for fault in getattr(batch.errors, "data", None) or []:
            self.why = f", {batch.status}: {str(getattr(fault, 'message', fault))[:200]}"
        self.taken.take(entry, replies)
        return True

    async def _found(self, entry: Entry) -> Entry | None:
        """The batch on the server that carries this entry's mark: its submission was not noted."""
        async for batch in self.client.batches.list(limit=100):
            if (batch.metadata or {}).get(MARK) == entry.mark:
                return replace(entry, state="submitted", remote=batch.id)
        return None

    async def _fetched(self, file: str) -> list[Reply]:
        content = await self._checked("fetch", self.client.files.content(file), "response")
        lines = self.wire.text(content.response).split("\n")  # an answer may hold other line ends, such as U+2028
        return [reply for line in lines if (reply := reply_of(line, self.server))]

    async def _checked(self, verb: str, call: Awaitable[T], field: str = "id") -> T:
        """What a call gives, an object with this field; the client passes on what has another shape."""
        error, next_, fatal = "an answer of another shape", "nothing is lost, run the command again", ProposerError
        try:
            answer = await call
            if not field or getattr(answer, field, None):
                return answer
        except (openai.OpenAIError, ValueError) as fault:
            error = self.wire.failure(fault)[0]
            if error == "timeout" and verb in ("upload", "fetch"):  # of a large file: again would end here each time
                less = " or send less at once (--limit)" if verb == "upload" else ""
                longer = f"give it more than {self.server.timeout:g} seconds ([propose] timeout)"
                next_ = f"nothing is lost: {longer}{less}, and run the command again"
            if isinstance(fault, openai.NotFoundError) and verb in ("ask for", "fetch"):  # and will not be there again
                next_ = "run it with the key that submitted the batch, or ask without one: --proposer openai:NAME"
                fatal = _Gone
        except AttributeError:  # in a page of a list
            pass
        raise fatal(f"{self.server.base_url}: cannot {verb} a batch: {error}: {next_}")


def reply_of(line: str, server: Server) -> Reply | None:
    """The reply in one line of a batch's output or error file; None for a line that names no request.

    It was paid for: of any line that names its request something is kept, whatever shape the rest has.
    """
    row = whole_object(line)
    if row is None or not isinstance(request := row.get("custom_id"), str):
        return None
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, dict) or (response.get("status_code") is None and response.get("body") is None):
        why = error.get("code") if isinstance(error, dict) else error
        return Reply(request, server.model, error=f"not answered: {_whole(str(why or 'no reason given'))}", body=line)
    status, body = response.get("status_code"), _whole(json.dumps(response.get("body"), ensure_ascii=False))
    if status == 200:
        return read_body(request, server.model, body)
    return Reply(request, server.model, error=refusal(status if isinstance(status, int) else 0, body), body=line)


def _whole(text: str) -> str:
    """Without half characters, such as an answer may end in that was cut off: no table holds them."""
    return text.encode(errors="replace").decode()
