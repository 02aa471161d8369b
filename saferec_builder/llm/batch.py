"""OpenAI's Batch API: the same requests at half the price, answered within a day; safe to kill at any moment.

A ledger remembers what is uploaded and submitted. A run first settles the open batches, then submits the requests
without a paid reply. If a run is killed after a submission and before its note, the next run finds the batch on the
server by the mark that it carries there, so nothing is submitted twice.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import openai

from saferec_builder.core.errors import ProposerError, whole_object
from saferec_builder.llm.answer_forms import RESPONSES
from saferec_builder.llm.batch_ledger import Entry, Ledger
from saferec_builder.llm.capabilities import Found, probed
from saferec_builder.llm.client import NO_MONEY, Answers, checked
from saferec_builder.llm.pricing import Budget, Price
from saferec_builder.llm.requests_and_replies import DONE, UNSENT, Body, Reply, Server, encodable, read_body, refusal
from saferec_builder.llm.transport import Wire
from saferec_builder.storage.tables import digest

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # in one file
OVER = ("completed", "failed", "expired", "cancelled")
MARK = "saferec_batch"
T = TypeVar("T")


async def replies(
    server: Server,
    bodies: Iterable[Body],
    answers: Answers,
    budget: Budget,
    ledger: Ledger,
    *,
    poll: float,
    found: Found | None = None,
) -> AsyncGenerator[tuple[int, Reply]]:
    """Yields as `client.replies` does, by batches: waits until every batch is over, asking every `poll` seconds."""
    all_bodies = list(bodies)
    names = [server.name(body) for body in all_bodies]
    by_name = dict(zip(names, all_bodies, strict=True))
    async with Wire(server) as wire:
        batches = _Batches(server, wire, by_name, answers, budget, ledger)
        await batches.settle(ledger.open(), poll)
        failed = batches.failed
        missing = {n: b for n, b in by_name.items() if answers.get(n) is None and n not in failed}
        if any(budget.affords(server, len(server.payload(body))) for body in missing.values()):
            # probed before the batch: otherwise a refused parameter would be known a day later
            server = batches.server = await probed(wire, server, budget, found)
        submitted = []
        for part in _parts(server, missing, budget, failed):
            ledger.about([(name, n) for n, name in enumerate(names) if name in part])
            submitted.append(await batches.submit(part))
        await batches.settle(submitted, poll)
    yielded: set[str] = set()  # if a text occurs twice, only its first reply counts as fresh
    for n, request in enumerate(names):
        stored = answers.get(request)
        if stored is not None:
            reply = checked(read_body(request, server.model, stored), answers)
            yield n, replace(reply, cached=request not in batches.fresh or request in yielded)
        else:
            unanswered = Reply(
                request, server.model, error=f"not answered: the batch ended without this request{batches.reason}"
            )
            yield n, replace(failed.get(request, unanswered), cached=request in yielded)
        yielded.add(request)


async def fetch(
    server: Server, bodies: Iterable[Body], answers: Answers, budget: Budget, ledger: Ledger, price: Price | None
) -> int:
    """Takes the answers of batches that are over, before these bodies are sent directly; returns the number of requests
    in those that are not. price: of a batch. A batch that this key cannot see on the server stays open."""
    by_name = {server.name(body): body for body in bodies}
    async with Wire(server) as wire:
        batches = _Batches(server, wire, by_name, answers, budget, ledger, price)
        return sum(entry.requests for entry in await batches.settle(ledger.open(), None))


def _endpoint(server: Server) -> Literal["/v1/responses", "/v1/chat/completions"]:
    return "/v1/responses" if server.way == RESPONSES else "/v1/chat/completions"


def _parts(
    server: Server, missing: dict[str, Body], budget: Budget, failed: dict[str, Reply]
) -> Iterator[dict[str, bytes]]:
    """Yields files to upload (request -> its line), within the limits; what the budget cannot pay goes to `failed`."""
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


class _Missing(ProposerError):
    """The server does not have a batch or its answers, or not for this key."""


@dataclass
class _Batches:
    """Uploads, submits, waits and fetches, bills and stores; every step is noted before the next begins."""

    server: Server
    wire: Wire
    by_name: Mapping[str, Body]
    answers: Answers
    budget: Budget
    ledger: Ledger
    price: Price | None = None  # of a batch, if it is not the budget's own
    fresh: set[str] = field(default_factory=set)  # requests whose answers this run has fetched
    failed: dict[str, Reply] = field(default_factory=dict)  # requests without an answer
    reason: str = ""  # what the server says about a batch that failed as a whole

    def __post_init__(self) -> None:
        self.client, self.once = self.wire.client, self.wire.client.with_options(max_retries=0)  # once: without retries

    async def submit(self, part: dict[str, bytes]) -> Entry:
        name = digest("batch", sorted(part))
        lines = (f"{name}.jsonl", b"".join(part.values()), "application/jsonl")
        file = (await self._awaited("upload", self.once.files.create(file=lines, purpose="batch"))).id
        return await self._start(self._record(Entry(name, "uploaded", file, len(part), self.budget.hold_as_one(part))))

    async def _start(self, entry: Entry) -> Entry:
        start = self.once.batches.create(
            input_file_id=entry.remote,
            endpoint=_endpoint(self.server),
            completion_window="24h",
            metadata={MARK: entry.mark},
        )
        return self._record(replace(entry, state="submitted", remote=(await self._awaited("submit", start)).id))

    def _record(self, entry: Entry) -> Entry:
        self.ledger.note(entry)
        return entry

    async def settle(self, entries: list[Entry], poll: float | None) -> list[Entry]:
        """Waits for these batches and takes their replies. Without `poll` it does not wait: it returns the batches that
        are not over, and skips one that the server no longer has."""
        unfinished = []
        for entry in entries:
            try:
                if not await self._settled(entry, poll):
                    unfinished.append(entry)
            except _Missing:
                if poll is not None:
                    raise
        return unfinished

    async def _settled(self, entry: Entry, poll: float | None) -> bool:
        """Takes the replies of a batch that is over; returns whether it is. If only its file was noted, looks for its
        batch. If there is none, it is not submitted now: a person in it may have asked to be removed since."""
        if entry.state == "uploaded":
            submitted: Entry | None = await self._awaited("list", self._find_submitted(entry), "")
            if submitted is None:
                self._done(entry)
                return True
            entry = self._record(submitted)
        while True:
            batch = await self._awaited("ask for", self.client.batches.retrieve(entry.remote))
            if batch.status in OVER:
                break
            if poll is None:
                return False
            await asyncio.sleep(poll)
        # fetches all files first: replies that are taken are billed, and a batch that is done is never fetched again
        try:
            replies = await self._fetched(batch.output_file_id)
        except _Missing:  # the answers are deleted: this key sees the batch, so no other key would find them
            self._bill(entry, None)
            self._done(entry)
            raise
        with suppress(_Missing):  # without the file of errors, its requests count as not answered
            replies += await self._fetched(batch.error_file_id)
        for fault in getattr(batch.errors, "data", None) or []:
            self.reason = f", {batch.status}: {str(getattr(fault, 'message', fault))[:200]}"
        self._take(entry, replies)
        return True

    def _take(self, entry: Entry, replies: list[Reply]) -> None:
        """Bills all replies of a batch, then stores them. If a run is killed, the next does both, or only the
        storing; in the reverse order, stored answers would never be billed."""
        by_request: dict[str, Reply] = {}
        for reply in replies:
            if not (reply.request in by_request and by_request[reply.request].answered):
                by_request[reply.request] = reply  # a request with two lines was paid for once
        self._bill(entry, by_request)
        for reply in by_request.values():
            self._store(reply)
        self._done(entry)

    def _bill(self, entry: Entry, by_request: Mapping[str, Reply] | None) -> None:
        """Bills a batch once, however often it is fetched; without its replies, the most that it can cost."""
        if entry.billed:
            return
        self.ledger.write("")  # what was paid before does not belong to this batch
        if by_request is None:
            self.budget.pay_sum(entry.usd)
        for name, reply in (by_request or {}).items():
            body = self.by_name.get(name)  # None: another run asked, about other texts or with other settings
            usual = round((reply.tokens_in or 0) * self.budget.habit.bytes_per_token)
            sent = len(self.server.payload(body)) if body else usual
            self.budget.pay(reply, sent, price=self.price, most=entry.usd / max(1, entry.requests))
        self.ledger.write(entry.mark)

    def _done(self, entry: Entry) -> None:
        self.ledger.note(replace(entry, state="done"))
        self.budget.aside -= entry.usd

    def _store(self, reply: Reply) -> None:
        if reply.answered and self.answers.get(reply.request) == reply.body:
            return  # a killed run has stored it
        if reply.request not in self.by_name and not self.ledger.knows(reply.request):
            return  # about somebody who was erased while the batch was out
        reply = checked(reply, self.answers)
        self.fresh.add(reply.request)
        if reply.answered:
            self.failed.pop(reply.request, None)
            self.answers.put(reply)
        else:
            self.failed[reply.request] = reply

    async def _find_submitted(self, entry: Entry) -> Entry | None:
        """Finds the batch on the server that carries this entry's mark, whose submission was not noted."""
        async for batch in self.client.batches.list(limit=100):
            if (batch.metadata or {}).get(MARK) == entry.mark:
                return replace(entry, state="submitted", remote=batch.id)
        return None

    async def _fetched(self, file: str | None) -> list[Reply]:
        if not file:
            return []
        content = await self._awaited("fetch", self.client.files.content(file), "response")
        lines = self.wire.text(content.response).split("\n")  # an answer may contain other line ends, such as U+2028
        return [reply for line in lines if (reply := reply_of(line, self.server))]

    async def _awaited(self, verb: str, call: Awaitable[T], field: str = "id") -> T:
        """Awaits a call and checks that its result has this field: the client passes on results of any shape."""
        error, advice, kind = "an answer of another shape", "nothing is lost, run the command again", ProposerError
        try:
            answer = await call
            if not field or getattr(answer, field, None):
                return answer
        except (openai.OpenAIError, ValueError) as fault:
            error = self.wire.failure(fault)[0]
            if error == "timeout" and verb in ("upload", "fetch"):  # a large file would time out every time
                less = " or send less at once (--limit)" if verb == "upload" else ""
                longer = f"give it more than {self.server.timeout:g} seconds ([propose] timeout)"
                advice = f"nothing is lost: {longer}{less}, and run the command again"
            if isinstance(fault, openai.NotFoundError) and verb == "upload":
                advice = "it seems to have no Batch API: ask without one: --proposer openai:NAME"
            elif isinstance(fault, openai.NotFoundError) and verb in ("ask for", "fetch"):  # a retry would not find it
                advice = "run it with the key that submitted the batch, or ask without one: --proposer openai:NAME"
                kind = _Missing
        except AttributeError:  # raised by a page of a list
            pass
        raise kind(f"{self.server.base_url}: cannot {verb} a batch: {error}: {advice}")


def reply_of(line: str, server: Server) -> Reply | None:
    """Reads the reply in one line of a batch's output or error file; None if the line names no request.

    It was paid for, so any line that names its request gives a reply, whatever shape the rest has.
    """
    row = whole_object(line)
    if row is None or not isinstance(request := row.get("custom_id"), str):
        return None
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, dict) or (response.get("status_code") is None and response.get("body") is None):
        reason = error.get("code") if isinstance(error, dict) else error
        return Reply(
            request, server.model, error=f"not answered: {encodable(str(reason or 'no reason given'))}", body=line
        )
    status, body = response.get("status_code"), response.get("body")
    text = encodable(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False))
    if status in (*DONE, "200", None):
        return read_body(request, server.model, text)
    return Reply(request, server.model, error=refusal(status if isinstance(status, int) else 0, text), body=line)
