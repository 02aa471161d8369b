"""propose: what was not read yet is read by the rules or by a model, in chunks that a kill leaves whole or absent."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say
from saferec_builder.errors import UsageError

CHUNK = 1_000
FIELDS = {"sensitivity": "role and text of each turn", "item_flag": "plot"}


def propose(
    *,
    proposer: Annotated[str, typer.Option(help="rules (no network) | openai (any compatible server).")] = "rules",
    model: Annotated[str | None, typer.Option(help="Model of --proposer openai.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Of its server; default: saferec.toml, else OpenAI.")] = None,
    items: Annotated[bool, typer.Option("--items", help="Flag items of unknown verdict, from their plots.")] = False,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Text may leave this machine.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count requests and tokens, send and write nothing.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most so many that were not read yet.")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Propose seekers' sensitivities with evidence from their words, or flags of items from their plots."""
    from saferec_builder import store

    if proposer not in ("rules", "openai"):
        raise UsageError(f"--proposer {proposer}: wanted rules or openai")
    ws = store.open_workspace(folder)
    job = _job(ws, items, _server(ws, model, base_url) if proposer == "openai" else None, limit)
    if dry_run:
        counts = _planned(job)
    elif job.server is None:
        counts = _by_rules(job, as_json)
    else:
        _consent(job, allow_remote or ws.config.propose.allow_remote)
        counts = _by_model(job, as_json)
    say(counts, as_json, "items" if items else "conversations")


@dataclass
class _Job:
    """What this run reads, and what it has come to so far."""

    ws: Any
    server: Any  # llm.Server, or None for the rules
    taxonomy: Any
    kind: Literal["sensitivity", "item_flag"]
    made_by: str  # version of the prompt or of the rules
    frame: Any = None  # rows of conversations or items that this run reads
    todo: list[Any] = field(default_factory=list)  # their subjects, in the same order
    unread: list[tuple[str, str, str]] = field(default_factory=list)  # not worth a reading: subject, why, ""
    skipped: int = 0
    left: int = 0
    unknown: dict[str, frozenset[str]] = field(default_factory=dict)  # item -> traits without a verdict
    added: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def proposer(self) -> str:
        return self.server.model if self.server else "rules"

    def counts(self) -> Counts:
        figures: dict[str, Any] = dict(self.figures)
        figures |= {"claims_rejected": dict(self.rejected)} if self.rejected else {}
        figures |= {"not_read_yet": self.left} if self.left else {}
        return Counts("propose", self.added, self.skipped, dict(+self.dropped), figures)


def _job(ws: Any, items: bool, server: Any, limit: int | None) -> _Job:
    """All subjects of the kind, less those that this proposer has read in this text and taxonomy."""
    import polars as pl

    from saferec_builder import propose as stage
    from saferec_builder import rules, tables, traits
    from saferec_builder.store import read

    path = ws.config.taxonomy.path
    taxonomy = traits.load(ws.root / path if path else None)
    made_by = stage.version() if server else rules.VERSION
    job = _Job(ws, server, taxonomy, "item_flag" if items else "sensitivity", made_by)
    if items:
        frame, job.unknown = _unknown_items(ws, taxonomy)
        subjects = list(stage.item_subjects(frame))
    else:
        frame = tables.last(read(ws, tables.CONVERSATIONS), "conversation")
        subjects = list(stage.conversation_subjects(frame))
    mine = {"kind": job.kind, "proposer": job.proposer, "version": job.made_by, "taxonomy": taxonomy.digest}
    usable = read(ws, tables.READINGS).filter(pl.col("error").is_null(), **mine)
    done = set(usable.select("subject", "digest").iter_rows())
    places = [n for n, s in enumerate(subjects) if (s.subject, s.digest) not in done]
    job.skipped, job.left = len(subjects) - len(places), len(places[limit:]) if limit else 0
    faults = {n: stage.cannot_ask(subjects[n], stage.LONGEST if server else None) for n in places[:limit]}
    job.unread = [(subjects[n].subject, why, "") for n, why in faults.items() if why]
    chosen = [n for n, why in faults.items() if not why]
    job.frame, job.todo = frame[chosen], [subjects[n] for n in chosen]
    return job


def _unknown_items(ws: Any, taxonomy: Any) -> tuple[Any, dict[str, frozenset[str]]]:
    """Items with a trait on which the catalog has no verdict, and those traits."""
    from saferec_builder import catalog, tables, violations
    from saferec_builder.store import read

    items, links = catalog.merge(read(ws, tables.CATALOG_ROWS))
    oracle, _ = catalog.risks(items, links, read(ws, tables.WARNINGS), taxonomy, ws.config.rule)
    open_ = oracle.codes == violations.UNKNOWN
    unknown = {
        item: frozenset(trait for trait, n in oracle.traits.items() if open_[oracle.row(item), n])
        for item in items["item"]
    }
    return items.filter([bool(unknown[item]) for item in items["item"]]), unknown


# ---- plan, consent


def _server(ws: Any, model: str | None, base_url: str | None) -> Any:
    """The model server that options and saferec.toml name; its key comes from OPENAI_API_KEY."""
    import os

    from saferec_builder import llm

    wanted = ws.config.propose
    model = model or wanted.model
    if not model:
        raise UsageError("--proposer openai: which model? give --model or [propose] model in saferec.toml")
    key = os.environ.get("OPENAI_API_KEY") or "unused"
    return llm.Server(model, base_url or wanted.base_url or llm.OPENAI, key, wanted.concurrency)


def _consent(job: _Job, allowed: bool) -> None:
    """Nothing leaves this machine without a yes to this host, and no remote host is asked without a key."""
    server = job.server
    if server.is_loopback or not job.todo:
        return
    if not allowed:
        noun = "items" if job.kind == "item_flag" else "conversations"
        raise UsageError(
            f"{server.host} is not this machine: {len(job.todo):,} {noun} ({FIELDS[job.kind]}) would be sent to it; "
            "allow it with --allow-remote, or [propose] allow_remote = true in saferec.toml"
        )
    if server.key == "unused":
        raise UsageError(f"{server.host} wants a key: set the environment variable OPENAI_API_KEY")


def _planned(job: _Job) -> Counts:
    """Requests and tokens of this run; what was paid for already costs nothing."""
    from saferec_builder import llm
    from saferec_builder import propose as stage

    paid = _Paid(job.ws)
    job.figures = Counter(requests=0, already_paid=0, estimated_tokens_in=0)
    seen: set[str] = set()
    for subject in job.todo if job.server else []:
        body = stage.build_request(subject, job.taxonomy)
        request = job.server.name(body)
        if paid.get(request) or request in seen:
            job.figures["already_paid"] += 1
        else:
            job.figures["requests"] += 1
            job.figures["estimated_tokens_in"] += llm.estimated_tokens(job.server, body)
        seen.add(request)
    job.dropped = Counter(why.split(":")[0] for _, why, _ in job.unread)
    job.dropped["dry run"] = len(job.todo)
    return job.counts()


# ---- reading


def _by_rules(job: _Job, as_json: bool) -> Counts:
    from saferec_builder import rules

    _drop(job, job.unread)
    job.figures = Counter(proposals=0)
    read = rules.flag_items if job.kind == "item_flag" else rules.propose
    with _bar(len(job.todo), as_json) as bar:
        for start in range(0, len(job.todo), CHUNK):
            found = read(job.frame[start : start + CHUNK], job.taxonomy)
            if job.kind == "item_flag":
                pairs = found.select("subject", "trait").iter_rows()
                found = found.filter([trait in job.unknown[item] for item, trait in pairs])
            _save(job, found, job.todo[start : start + CHUNK])
            bar.update(CHUNK)
    return job.counts()


def _by_model(job: _Job, as_json: bool) -> Counts:
    import asyncio

    _drop(job, job.unread)
    job.figures = Counter(requests=0, already_paid=0, proposals=0, tokens_in=0, tokens_out=0, turns_giving_orders=0)
    paid = _Paid(job.ws)
    try:
        with _bar(len(job.todo), as_json) as bar:
            asyncio.run(_ask(job, paid, bar.update))
    finally:
        paid.flush()
    return job.counts()


async def _ask(job: _Job, paid: "_Paid", step: Callable[[int], Any]) -> None:
    """Asks for all, and saves a chunk as soon as its last answer is there."""
    import asyncio
    from contextlib import aclosing

    from saferec_builder import llm
    from saferec_builder import propose as stage

    async def flushing() -> None:
        while True:
            await asyncio.sleep(2)
            paid.flush()

    def check(content: str) -> str | None:
        return stage.off_schema(content, job.taxonomy)

    open_chunks: dict[int, dict[int, Any]] = {}
    bodies = (stage.build_request(s, job.taxonomy) for s in job.todo)
    flush = asyncio.create_task(flushing())
    try:
        async with aclosing(llm.replies(job.server, bodies, get=paid.get, put=paid.put, check=check)) as stream:
            async for n, reply in stream:
                chunk = open_chunks.setdefault(n // CHUNK, {})
                chunk[n] = reply
                step(1)
                if len(chunk) == min(CHUNK, len(job.todo) - n // CHUNK * CHUNK):
                    paid.flush()
                    done = open_chunks.pop(n // CHUNK)
                    _save_replies(job, [(job.todo[place], done[place]) for place in sorted(done)])
    finally:
        flush.cancel()


def _save_replies(job: _Job, chunk: list[tuple[Any, Any]]) -> None:
    from saferec_builder import propose as stage

    readings = []
    for subject, reply in chunk:
        job.figures["already_paid" if reply.cached else "requests"] += 1
        if not reply.cached:
            job.figures["tokens_in"] += reply.tokens_in or 0
            job.figures["tokens_out"] += reply.tokens_out or 0
        job.figures["turns_giving_orders"] += len(stage.orders(subject))
        if reply.error is None:
            settled = frozenset(job.taxonomy.slugs) - job.unknown[subject.subject] if job.unknown else frozenset()
            readings.append(stage.read_reply(subject, reply.content, job.taxonomy, job.proposer, settled))
    for reading in readings:
        job.rejected += reading.rejected
    _save(job, stage.proposal_rows(readings), [r.subject for r in readings])
    _drop(job, [(s.subject, reply.error, reply.body) for s, reply in chunk if reply.error])


def _save(job: _Job, proposals: Any, subjects: list[Any]) -> None:
    """Proposals first: a kill before the readings only means that the same chunk is read again."""
    from saferec_builder import propose as stage
    from saferec_builder import store, tables

    job.figures["proposals"] += store.append(job.ws, tables.PROPOSALS, proposals)
    read = stage.reading_rows(subjects, job.proposer, job.made_by, job.taxonomy.digest)
    job.added += store.append(job.ws, tables.READINGS, read)


def _drop(job: _Job, faults: Iterable[tuple[str, str, str]]) -> None:
    """(subject, error, raw reply) of what has no usable answer: counted, kept in tables.DROPS, asked again next run."""
    import polars as pl

    from saferec_builder import store, tables

    rows = [
        ("propose", job.proposer, place, error.split(":")[0], f"{error}; {raw[:2_000]}" if raw else error)
        for place, error, raw in faults
    ]
    job.dropped.update(row[3] for row in rows)
    store.append(job.ws, tables.DROPS, pl.DataFrame(rows, schema=tables.DROPS.schema, orient="row"))


class _Paid:
    """Replies already paid for: read once, written in batches."""

    def __init__(self, ws: Any) -> None:
        from saferec_builder import store, tables

        self.ws = ws
        self.bodies: dict[str, str] = dict(store.read(ws, tables.REPLIES).select("request", "body").iter_rows())
        self.fresh: list[Any] = []

    def get(self, request: str) -> str | None:
        return self.bodies.get(request)

    def put(self, reply: Any) -> None:
        self.bodies[reply.request] = reply.body
        self.fresh.append((reply.request, reply.model, reply.body, reply.tokens_in, reply.tokens_out))

    def flush(self) -> None:
        import polars as pl

        from saferec_builder import store, tables

        if self.fresh:
            store.append(self.ws, tables.REPLIES, pl.DataFrame(self.fresh, schema=tables.REPLIES.schema, orient="row"))
            self.fresh = []


def _bar(total: int, as_json: bool) -> Any:
    import sys

    from tqdm import tqdm

    return tqdm(total=total, unit="read", file=sys.stderr, disable=as_json or not sys.stderr.isatty(), leave=False)
