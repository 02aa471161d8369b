"""What was not read yet is read by one proposer, in chunks that a kill leaves whole or absent."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal

import polars as pl

from saferec_builder import catalog, llm
from saferec_builder.core import oracle as violations
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import StoreError
from saferec_builder.proposing import batch_ledger as batches, cascade as votes, prompting as stage
from saferec_builder.proposing.proposers import Step, running
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables, workspace as store

CHUNK = 1_000


@dataclass
class World:
    """What all proposers of a run read, and by which instructions."""

    ws: Any
    taxonomy: Any
    kind: Literal["sensitivity", "item_flag"]
    prompt: Any
    subjects: list[Any]
    frame: Any  # rows of conversations or items, in the same order
    unknown: dict[str, frozenset[str]] = field(default_factory=dict)  # item -> traits without a verdict
    withheld: int = 0  # conversations that nobody is given


def world(ws: Any, items: bool) -> World:
    from saferec_builder.mining import withheld

    prompt = ws.config.propose.prompt
    taxonomy = ws.taxonomy
    asked = stage.prompt(ws.root / prompt) if prompt else stage.prompt()
    if items:
        frame, unknown = _unknown_items(ws, taxonomy)
        return World(ws, taxonomy, "item_flag", asked, list(stage.item_subjects(frame)), frame, unknown)
    frame = tables.last(store.read(ws, tables.CONVERSATIONS), "conversation")
    held = withheld.reasons(ws, frame)
    frame = frame.filter(~frame["conversation"].is_in(list(held)))
    return World(
        ws, taxonomy, "sensitivity", asked, list(stage.conversation_subjects(frame)), frame, withheld=len(held)
    )


def _unknown_items(ws: Any, taxonomy: Any) -> tuple[Any, dict[str, frozenset[str]]]:
    """Items with a trait on which the catalog has no verdict, and those traits."""
    items, open_ = unknown(ws, taxonomy)
    return items.filter([bool(open_[item]) for item in items["item"]]), open_


def unknown(ws: Any, taxonomy: Any, *, reviews: bool = True) -> tuple[Any, dict[str, frozenset[str]]]:
    """All items, and for each the traits without a verdict; `reviews`: what reviewers said of items counts too."""
    from saferec_builder.storage.workspace import read

    items, links = catalog.merge(read(ws, tables.CATALOG_ROWS))
    warnings = read(ws, tables.WARNINGS).filter(pl.lit(reviews) | (pl.col("kind") != "review"))
    oracle, _ = catalog.risks(items, links, warnings, taxonomy, ws.config.rule)
    codes = oracle.codes == violations.UNKNOWN
    rows = {item: codes[oracle.row(item)] for item in items["item"]}
    return items, {i: frozenset(t for t, n in oracle.traits.items() if row[n]) for i, row in rows.items()}


@dataclass
class Job:
    """What one proposer reads in this run, and what it has come to so far."""

    world: World
    step: Step
    purse: Any  # llm.Budget
    name: str  # of the proposer; samples have one of their own
    made_by: str  # version of the prompt or of the rules
    todo: list[tuple[int, Any, Any]] = field(default_factory=list)  # row of the frame, subject, part of the taxonomy
    unread: list[tuple[str, str, str]] = field(default_factory=list)  # not worth a reading: subject, why, ""
    skipped: int = 0
    left: int = 0
    samples: int = 0
    added: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[Any]] | None = None  # of a shard: rows by table, for whoever started it to save

    @property
    def ws(self) -> Any:
        return self.world.ws

    def counts(self) -> Counts:
        figures: dict[str, Any] = dict(self.figures)
        figures |= {"usd": round(self.purse.spent - self.before, 6)} if self.purse and self.purse.price else {}
        figures |= {"claims_rejected": dict(self.rejected)} if self.rejected else {}
        figures |= {"not_read_yet": self.left} if self.left else {}
        figures |= {"withheld": self.world.withheld} if self.world.withheld else {}
        return Counts("propose", self.added, self.skipped, dict(self.dropped), figures)

    def __post_init__(self) -> None:
        self.before = self.purse.spent if self.purse else 0.0


def job(
    world: World, step: Step, purse: Any, *, only: set[str] | None = None, limit: int | None = None, samples: int = 0
) -> Job:
    """What this proposer has not read yet, of all subjects or of `only` these."""
    from saferec_builder.proposing import pending as asked

    name = f"{step.name} x{samples}" if samples else step.name
    made = Job(world, step, purse, name, world.prompt.version if step.server else rules.VERSION, samples=samples)
    mine = {"kind": world.kind, "proposer": name, "version": made.made_by}
    read = store.read(world.ws, tables.READINGS).filter(**mine)
    part_of = asked.left(world.taxonomy, read, store.read(world.ws, tables.ASKED))
    longest = stage.LONGEST if step.server else None
    for n, subject in enumerate(world.subjects):
        if only is not None and subject.subject not in only:
            continue
        part = part_of(subject.subject, subject.digest)
        if part is None:
            made.skipped += 1
        elif limit and len(made.todo) >= limit:
            made.left += 1
        elif why := stage.cannot_ask(subject, longest):
            made.unread.append((subject.subject, why, ""))
        else:
            made.todo.append((n, subject, part))
    return made


def read(work: Job, bar: Callable[[int], AbstractContextManager[Any]], how: Any = None) -> Counts:
    """Reads, saves and counts all of a job; `how` (workers.How): in several processes, or on Ray."""
    from saferec_builder.proposing import pending as asked

    _drop(work, work.unread)
    for part in {part.digest: part for _, _, part in work.todo}.values():
        store.append(work.ws, tables.ASKED, asked.rows(part))
    with bar(len(work.todo)) as shown, running(work.step) as work.step:
        if how is not None and len(work.todo) > how.shard:
            from saferec_builder.proposing import workers as shards

            shards.read(work, how)
        else:
            read_here(work, shown.update)
    return work.counts()


def read_here(work: Job, step: Callable[[int], Any]) -> None:
    """Reads a job whose server answers, in this process."""
    if work.step.server is None:
        _by_rules(work, step)
    elif work.todo:
        _by_model(work, step)


# ---- the rules


def _by_rules(work: Job, step: Callable[[int], Any]) -> None:
    work.figures = Counter(proposals=0)
    items = work.world.kind == "item_flag"
    read = rules.flag_items if items else rules.propose
    for part in {part.digest: part for _, _, part in work.todo}.values():
        mine = [(n, subject) for n, subject, p in work.todo if p.digest == part.digest]
        for start in range(0, len(mine), CHUNK):
            chunk = mine[start : start + CHUNK]
            found = read(work.world.frame[[n for n, _ in chunk]], part)
            if items:
                pairs = found.select("subject", "trait").iter_rows()
                found = found.filter([trait in work.world.unknown[item] for item, trait in pairs])
            _save(work, found, [(subject, part) for _, subject in chunk])
            step(len(chunk))


# ---- a model


def _by_model(work: Job, step: Callable[[int], Any]) -> None:
    work.figures = Counter(requests=0, already_paid=0, proposals=0, tokens_in=0, tokens_out=0, turns_giving_orders=0)
    with store.keyed(work.ws, tables.REPLIES) as paid, _bills(work) as settle:
        llm.run(_ask(work, paid, settle, step))


@contextmanager
def _bills(work: Job) -> Iterator[Callable[[], None]]:
    """A call writes what was spent since the last one; the last call is at the end, however it comes."""
    run, parts = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}-{os.getpid()}", count(1)

    def settle() -> None:
        if bill := work.purse.bill:
            named = {"run": run, "part": next(parts), "model": work.step.name, "way": work.step.way}
            row = {name: (named | bill)[name] for name in tables.SPEND.columns}
            store.append(work.ws, tables.SPEND, pl.DataFrame([row], schema=tables.SPEND.schema))
            work.purse.billed()  # only now: what a busy database did not take is written next time

    try:
        yield settle
    finally:
        settle()


async def _ask(work: Job, paid: Any, settle: Callable[[], None], step: Callable[[int], Any]) -> None:
    """Asks for all, and saves a chunk as soon as its last answer is there."""

    async def settling() -> None:
        while True:
            await asyncio.sleep(1)
            with suppress(StoreError):  # the last one, at the end, is heard
                settle()

    def check(content: str) -> str | None:
        return stage.off_schema(content, work.world.taxonomy)

    times = work.samples or 1
    chunks: dict[int, dict[int, Any]] = {}
    how = {**_cache(paid), "check": check, "budget": work.purse}
    clock = asyncio.create_task(settling())
    try:
        async with aclosing(_asker(work)(work.step.server, bodies(work), **how)) as stream:
            async for n, reply in stream:
                chunk = chunks.setdefault(n // times // CHUNK, {})
                chunk[n] = reply
                step(1)
                first = n // times // CHUNK * CHUNK
                if len(chunk) == times * min(CHUNK, len(work.todo) - first):
                    done = chunks.pop(n // times // CHUNK)
                    told = [
                        [done[place * times + k] for k in range(times)]
                        for place in range(first, first + len(done) // times)
                    ]
                    _save_replies(work, list(zip(work.todo[first:], told, strict=False)))
    finally:
        clock.cancel()


def answers(work: Job) -> dict[int, Any]:
    """Place in the job -> its reading, of those with a usable answer: asked and paid for, nothing else is saved."""
    found: dict[int, Any] = {}

    async def ask(paid: Any) -> None:
        check = lambda content: stage.off_schema(content, work.world.taxonomy)  # noqa: E731
        how = {**_cache(paid), "check": check, "budget": work.purse}
        async for n, reply in _asker(work)(work.step.server, bodies(work), **how):
            if reply.error is None:
                _, subject, part = work.todo[n]
                found[n] = _reading(work, subject, part, reply.content)

    with running(work.step) as work.step, store.keyed(work.ws, tables.REPLIES) as paid, _bills(work):
        llm.run(ask(paid))
    return found


def _cache(paid: Any) -> dict[str, Any]:
    """get and put over the table of paid replies."""

    def get(request: str) -> str | None:
        row = paid.get(request)
        return None if row is None else str(row.body)

    def put(reply: Any) -> None:
        names = ("request", "model", "body", "tokens_in", "tokens_out")
        paid.add({name: getattr(reply, name) for name in names})

    return {"get": get, "put": put}


def bodies(work: Job) -> Iterator[dict[str, Any]]:
    """The requests of a job in its order; of samples, each `samples` times with seeds of their own."""
    for _, subject, part in work.todo:
        body = stage.build_request(subject, part, work.world.prompt)
        if not work.samples:
            yield body
        for seed in range(work.samples):
            yield body | {"temperature": 0.7, "seed": seed}


def _asker(work: Job) -> Any:
    if work.step.way != "batch":
        return llm.replies

    return batches.asker(work.ws)


def _save_replies(work: Job, chunk: list[tuple[tuple[int, Any, Any], list[Any]]]) -> None:
    readings, faults = [], []
    for (_, subject, part), told in chunk:
        work.figures["turns_giving_orders"] += len(stage.orders(subject))
        found = []
        for reply in told:
            work.figures["already_paid" if reply.cached else "requests"] += reply.sent
            if not reply.cached:
                work.figures["tokens_in"] += reply.tokens_in or 0
                work.figures["tokens_out"] += reply.tokens_out or 0
            if reply.error is None:
                found.append(_reading(work, subject, part, reply.content))
            else:
                faults.append((subject.subject, reply.error, reply.body))
        usable = [reading for reading in found if reading.error is None]
        faults += [(subject.subject, reading.error, reading.raw or "") for reading in found if reading.error]
        if usable and len(usable) > len(told) // 2:
            readings.append((_voted(usable) if work.samples else usable[0], part))
    for reading, _ in readings:
        work.rejected += reading.rejected
    proposals = stage.proposal_rows(reading for reading, _ in readings)
    _save(work, proposals, [(reading.subject, part) for reading, part in readings])
    read = {reading.subject.subject for reading, _ in readings}
    _drop(work, [fault for fault in faults if fault[0] not in read])


def _reading(work: Job, subject: Any, part: Any, content: str) -> Any:
    unknown = work.world.unknown
    taxonomy = work.world.taxonomy
    settled = frozenset(taxonomy.slugs) - unknown[subject.subject] if unknown else frozenset()
    return stage.read_reply(subject, content, taxonomy, work.name, settled, work.made_by, part.slugs)


def _voted(readings: list[Any]) -> Any:
    rejected = sum((reading.rejected for reading in readings), Counter[str]())
    return stage.Reading(readings[0].subject, votes.tally([r.proposals for r in readings]), rejected)


# ---- saving


def _save(work: Job, proposals: Any, read: list[tuple[Any, Any]]) -> None:
    """Proposals first: a kill before the readings only means that the same chunk is read again."""
    proposals, gone, texts = stage.founded(proposals, [subject for subject, _ in read])
    work.rejected += gone
    work.figures["proposals"] += _append(work, tables.PROPOSALS, proposals, texts=texts)
    parts: dict[str, list[Any]] = {}
    for subject, part in read:
        parts.setdefault(part.digest, []).append(subject)
    frames = [stage.reading_rows(subjects, work.name, work.made_by, name) for name, subjects in parts.items()]
    if frames:
        work.added += _append(work, tables.READINGS, pl.concat(frames))


def _drop(work: Job, faults: Iterable[tuple[str, str, str]]) -> None:
    """(subject, error, raw reply) of what has no usable answer: counted, kept in tables.DROPS, asked again next run."""
    last = {place: (error, raw) for place, error, raw in faults}
    rows = [
        ("propose", work.name, place, error.split(":")[0], f"{error}; {raw[:2_000]}" if raw else error)
        for place, (error, raw) in last.items()
    ]
    work.dropped.update(row[3] for row in rows)
    _append(work, tables.DROPS, pl.DataFrame(rows, schema=tables.DROPS.schema, orient="row"))


def _append(work: Job, table: Any, frame: Any, **held: Any) -> int:
    if work.kept is None:
        return store.append(work.ws, table, frame, **held)
    work.kept.setdefault(table.name, []).append(frame)
    return int(frame.height)
