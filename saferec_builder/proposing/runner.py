"""Reads a job by its proposer, in chunks that a kill leaves whole or absent."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count

from saferec_builder import llm
from saferec_builder.core.errors import ProposerError, StoreError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.llm import batch_ledger
from saferec_builder.llm.batch_ledger import Ledger
from saferec_builder.proposing import jobs, known_ways, prompting
from saferec_builder.proposing.jobs import Job, Todo
from saferec_builder.proposing.paid_answers import PaidAnswers, attempts
from saferec_builder.proposing.prompting import Reading
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.proposing.text_units import Subject, orders
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed

CHUNK = 1_000

Step = Callable[[int], object]  # called with how many more texts were read
Replies = AsyncGenerator[tuple[int, llm.Reply]]  # with the place in the job
Settle = Callable[[str], None]  # writes what was spent since the last call; takes the mark of a batch, or ""


def read(job: Job, step: Step) -> None:
    """Reads and saves a job, by its server or in this process."""
    if job.step.server is None:
        _read_here(job, step)
    elif job.todo or batch_ledger.of_server(job.ws, job.step.server).height:
        _read_by_model(job, step)


# ---- the rules, or `learned`


def _read_here(job: Job, step: Step) -> None:
    job.figures = Counter(proposals=0)
    items = job.corpus.kind == "item_flag"
    find = job.step.find or (rules.flag_items if items else rules.propose)
    for part in job.parts:
        entries = [(n, subject) for n, subject, taxonomy in job.todo if taxonomy.digest == part.digest]
        for start in range(0, len(entries), CHUNK):
            chunk = entries[start : start + CHUNK]
            proposals = find(job.corpus.frame[[n for n, _ in chunk]], part)
            if items:
                pairs = proposals.select("subject", "trait").iter_rows()
                proposals = proposals.filter([trait in job.corpus.unknown[item] for item, trait in pairs])
            jobs.save(job, proposals, [(subject, part) for _, subject in chunk])
            step(len(chunk))


# ---- a model


def _read_by_model(job: Job, step: Step) -> None:
    job.figures = Counter(requests=0, already_paid=0, proposals=0, tokens_in=0, tokens_out=0, turns_giving_orders=0)
    with workspace.keyed(job.ws, tables.REPLIES) as paid, _billing(job) as settle:
        llm.run(_ask(job, paid, settle, step))


@contextmanager
def _billing(job: Job) -> Iterator[Settle]:
    """Gives a function that writes what was spent since its last call; it is always called once more at the end.

    A batch is billed in one row under its mark: a run that was killed and fetches it again adds no second row.
    """
    run, parts = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}-{os.getpid()}", count(1)

    def settle(batch: str) -> None:
        if bill := job.budget.bill:
            if batch:
                job.budget.billed()  # cleared first: if the row is not written, the batch is billed again
            facts = {"run": batch or run, "part": 1 if batch else next(parts)}
            facts |= {"model": job.step.name, "way": "batch" if batch else job.step.way}
            row = {name: (facts | bill).get(name, 0) for name in tables.SPEND.columns}
            workspace.append(job.ws, tables.SPEND, tables.SPEND.frame([row]))
            job.budget.billed()  # cleared only now: what a busy database refused is written by the next call

    try:
        yield settle
    finally:
        settle("")


async def _ask(job: Job, paid: Keyed, settle: Settle, step: Step) -> None:
    """Asks about all texts, and saves a chunk as soon as its last answer has arrived."""
    chunks: dict[int, dict[int, llm.Reply]] = {}
    async with _reply_stream(job, paid, settle) as stream:
        async for n, reply in stream:
            first = n // CHUNK * CHUNK
            chunk = chunks.setdefault(first, {})
            chunk[n] = reply
            step(1)
            if len(chunk) == min(CHUNK, len(job.todo) - first):
                complete = chunks.pop(first)
                _save_replies(job, [(job.todo[place], complete[place]) for place in sorted(complete)])


def answers(job: Job) -> dict[int, Reading]:
    """Place in the job -> reading of its usable answer. Saves replies, their cost and texts, nothing else."""
    readings: dict[int, Reading] = {}
    answered: list[tuple[str, Subject]] = []

    async def ask(paid: Keyed, settle: Settle) -> None:
        async with _reply_stream(job, paid, settle) as stream:
            async for n, reply in stream:
                _, subject, part = job.todo[n]
                if reply.content is not None:
                    readings[n] = _reading(job, subject, part, reply.content)
                if reply.answered:
                    answered.append((reply.request, subject))

    with workspace.keyed(job.ws, tables.REPLIES) as paid, _billing(job) as settle:
        llm.run(ask(paid, settle))
    _note_texts(job, answered)
    return readings


@asynccontextmanager
async def _reply_stream(job: Job, paid: Keyed, settle: Settle) -> AsyncIterator[Replies]:
    """Gives the replies of a job as they come, asked directly or in batches, and writes every second what they cost."""

    async def settling() -> None:
        while True:
            await asyncio.sleep(1)
            with suppress(StoreError):  # an error of the last call, at the end, is raised
                settle("")

    clock = asyncio.create_task(settling())
    try:
        async with aclosing(_replies(job, job.paid_answers(paid), settle)) as stream:
            yield stream
    finally:
        clock.cancel()


async def _replies(job: Job, answers: PaidAnswers, settle: Settle) -> Replies:
    """Gives the replies of a job as they come, asked directly or in batches."""
    found = partial(known_ways.remember_way, job.ws)
    with ExitStack() as stack:
        if job.step.way == "batch":
            from saferec_builder.llm import batch

            ledger, poll = stack.enter_context(_ledger(job, settle)), job.ws.config.propose.batch_poll
            replies = batch.replies(job.server, job.bodies(), answers, job.budget, ledger, poll=poll, found=found)
        else:
            await _fetch_batches(job, answers, settle)
            replies = llm.replies(job.server, job.bodies(), answers, job.budget, found)
        async with aclosing(replies) as stream:
            async for item in stream:
                yield item


async def _fetch_batches(job: Job, answers: PaidAnswers, settle: Settle) -> None:
    """Takes the answers in open batches before their model is asked directly. Raises ProposerError if one is not over:
    its requests would be paid for twice."""
    if batch_ledger.of_server(job.ws, job.server).is_empty():
        return
    from saferec_builder.llm import batch

    price = job.step.price.times(job.ws.config.propose.batch_factor) if job.step.price else None
    with _ledger(job, settle) as ledger:
        rest = await batch.fetch(job.server, job.bodies(), answers, job.budget, ledger, price)
    if rest and job.todo:
        raise ProposerError(
            f"{job.server.base_url}: {rest:,} requests to {job.server.model} are in a batch that is not over, and would"
            f" be paid for twice: wait for it with --proposer batch:{job.step.named}, or cancel it there and run this"
            " again"
        )


@contextmanager
def _ledger(job: Job, settle: Settle) -> Iterator[Ledger]:
    def about(requests: list[tuple[str, int]]) -> None:
        _note_texts(job, [(request, job.todo[n][1]) for request, n in requests])

    with workspace.keyed(job.ws, tables.REQUESTS) as noted:
        yield Ledger(job.ws, job.server, about, settle, noted)


def _save_replies(job: Job, chunk: list[tuple[Todo, llm.Reply]]) -> None:
    readings: list[Reading] = []
    read: list[tuple[Subject, Taxonomy]] = []
    faults: list[jobs.Fault] = []
    for (_, subject, part), reply in chunk:
        job.figures["turns_giving_orders"] += len(orders(subject))
        if reply.cached:
            job.figures["already_paid"] += reply.answered  # a repeated text whose request failed was not paid for
        else:
            job.figures["requests"] += reply.sent
            job.figures["tokens_in"] += reply.tokens_in or 0
            job.figures["tokens_out"] += reply.tokens_out or 0
            if reply.tokens_reasoning:
                job.figures["tokens_reasoning"] += reply.tokens_reasoning
        if reply.error and reply.answered:
            job.figures["answers_of_no_use"] += 1
        if reply.content is None:
            faults.append((subject.subject, reply.error or "", reply.body))
            continue
        reading = _reading(job, subject, part, reply.content)
        readings.append(reading)
        read.append((subject, part))
        job.rejected += reading.rejected
    _note_texts(job, [(reply.request, subject) for (_, subject, _), reply in chunk if reply.answered])
    jobs.save(job, prompting.proposal_rows(readings), read)
    jobs.drop(job, faults)


def _reading(job: Job, subject: Subject, part: Taxonomy, content: str) -> Reading:
    unknown, taxonomy = job.corpus.unknown, job.corpus.taxonomy
    settled = {*taxonomy.slugs} - unknown[subject.subject] if unknown else set()
    return prompting.read_reply(subject, content, taxonomy, (job.name, job.made_by), settled, part.slugs)


def _note_texts(job: Job, pairs: list[tuple[str, Subject]]) -> None:
    """Notes which text each reply is about; a reply without a note is deleted by the next erasure of anybody."""
    last = None if job.step.retries_failed else 1
    names = [(name, text) for request, text in pairs for name in attempts(request)[:last]]
    rows = tables.REQUESTS.frame((name, job.corpus.kind, text.subject, text.digest) for name, text in names)
    workspace.append(job.ws, tables.REQUESTS, rows)
