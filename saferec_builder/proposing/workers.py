"""A job in shards of a few thousand texts, each read by a process of its own, here or on a Ray cluster.

Replies are paid into the shared database as they come, so a lost worker costs what it had in flight; the rows of a
shard are saved by whoever started it, in the order of the shards, and the shard is gone after that.
"""

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core.errors import UsageError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.proposing import runner
from saferec_builder.proposing.jobs import Job, Todo
from saferec_builder.storage import parallel, tables, workspace
from saferec_builder.storage.workspace import Workspace

SHARD = 2_000
TOGETHER = 50  # shards saved at once: each table grows by a file, and all its files are looked through for the next


@dataclass(frozen=True)
class How:
    engine: parallel.How
    shard: int = SHARD  # texts of one


def plan(ws: Workspace, name: str, address: str, workers: int) -> How | None:
    """None where one process does it all."""
    if name not in ("local", "ray"):
        raise UsageError(f"--engine {name}: expected local or ray")
    if name == "ray" and address != "local" and not (ws.config.store.url or "").startswith("postgresql"):
        raise UsageError("a cluster shares its replies: set [store] url to a PostgreSQL database in saferec.toml")
    return None if name == "local" and workers == 1 else How(parallel.How(name, workers, address))


def read(job: Job, how: How) -> None:
    """Reads the job in shards and adds up their counts; only one command at a time, as they share a folder."""
    if job.budget.limit is not None:
        raise UsageError("--budget-usd counts in one process: leave --workers and --engine away")
    with workspace.alone(job.ws, "propose"):
        _read_alone(job, how)


def _read_alone(job: Job, how: How) -> None:
    folder = job.ws.root / "shards" / "propose"
    parts = [_part(job, job.todo[n : n + how.shard], how) for n in range(0, len(job.todo), how.shard)]
    named = {_named(part): part for part in parts}
    _ask_again(folder, named)
    done = list(parallel.map_shards(_shard, named, folder, how.engine).items())
    for n in range(0, len(done), TOGETHER):
        _save(job, folder, dict(done[n : n + TOGETHER]))
    shutil.rmtree(folder)  # and what a killed run of another plan has left


def _ask_again(folder: Path, names: Iterable[str]) -> None:
    """A shard that a run left here without all of its answers is not done: they are asked for, as in any next run."""
    for name in names:
        manifest = folder / f"{name}.json"
        if manifest.exists() and (whole_object(manifest.read_bytes()) or {}).get("dropped"):
            manifest.unlink()


def _save(job: Job, folder: Path, shards: dict[str, dict[str, Any]]) -> None:
    """Rows and counts of these shards, which are gone after that."""
    for table in (tables.PROPOSALS, tables.READINGS, tables.DROPS):  # readings last of what counts, as everywhere
        files = [path for name in shards if (path := folder / name / f"{table.name}.parquet").exists()]
        if files:
            added = workspace.append(job.ws, table, pl.concat(pl.read_parquet(path, glob=False) for path in files))
            job.added += added if table is tables.READINGS else 0
    for name, facts in shards.items():
        for into, counts in ((job.figures, "figures"), (job.dropped, "dropped"), (job.rejected, "rejected")):
            into.update(facts[counts])
        job.budget.spent += facts["spent"]
        (folder / f"{name}.json").unlink()
        shutil.rmtree(folder / name)


def _named(part: Job) -> str:
    """By all that a reading depends on: what a killed run has left is no answer to another question."""
    texts = [(subject.subject, subject.digest, asked.digest) for _, subject, asked in part.todo]
    return tables.digest(part.corpus.kind, part.name, part.made_by, texts)


def _part(job: Job, todo: list[Todo], how: How) -> Job:
    """A part of the job that can travel: its own rows only, and its share of the requests in flight."""
    corpus, step = job.corpus, job.step
    rows = [(n, subject, part) for n, (_, subject, part) in enumerate(todo)]
    frame = corpus.frame.clear() if step.server else corpus.frame[[n for n, _, _ in todo]]
    known = {s.subject: corpus.unknown[s.subject] for _, s, _ in todo} if corpus.unknown else {}
    if step.server:
        at_once = max(1, step.server.concurrency // (how.engine.workers or 1))
        step = replace(step, server=replace(step.server, concurrency=at_once))
    small = replace(corpus, subjects=[], frame=frame, unknown=known, withheld=0)
    budget = replace(job.budget, held={}, bill={})  # of its own: what it costs is added up by `_save`
    return Job(small, step, budget, job.name, job.made_by, rows, samples=job.samples, kept={})


def _shard(job: Job, folder: Path) -> dict[str, JsonValue]:
    """Runs in a worker: reads, writes its rows into the folder, gives its counts."""
    runner.read(job, lambda _: None)
    for name, frames in (job.kept or {}).items():
        pl.concat(frames).write_parquet(folder / f"{name}.parquet", compression="zstd")
    counters: dict[str, Counter[str]] = {"figures": job.figures, "dropped": job.dropped, "rejected": job.rejected}
    return {"spent": job.spent, **{name: dict(counts) for name, counts in counters.items()}}
