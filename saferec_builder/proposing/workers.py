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

from saferec_builder.core.errors import UsageError, whole_object
from saferec_builder.proposing.runner import Job, World, read_here

SHARD = 2_000
TOGETHER = 50  # shards saved at once: each table grows by a file, and all its files are looked through for the next


@dataclass(frozen=True)
class How:
    engine: Any  # parallel.How
    shard: int = SHARD  # texts of one


def plan(ws: Any, engine: str, address: str, workers: int) -> How | None:
    """None where one process does it all."""
    from saferec_builder.storage import parallel as edge

    if engine not in ("local", "ray"):
        raise UsageError(f"--engine {engine}: wanted local or ray")
    if engine == "ray" and address != "local" and not (ws.config.store.url or "").startswith("postgresql"):
        raise UsageError("a cluster shares its replies: set [store] url to a PostgreSQL database in saferec.toml")
    if engine == "local" and workers == 1:
        return None
    return How(edge.How(engine, workers, address))


def read(work: Job, how: How) -> None:
    """Reads the job in shards and adds up what they say; only one command at a time, as they share a folder."""
    from saferec_builder.storage import workspace as store

    if work.purse and work.purse.limit is not None:
        raise UsageError("--budget-usd counts in one process: leave --workers and --engine away")
    with store.alone(work.ws, "propose"):
        _read_alone(work, how)


def _read_alone(work: Job, how: How) -> None:
    from saferec_builder.storage import parallel as engine

    folder = work.ws.root / "shards" / "propose"
    parts = [_part(work, work.todo[n : n + how.shard], how) for n in range(0, len(work.todo), how.shard)]
    named = {_named(part): part for part in parts}
    _ask_again(folder, named)
    done = list(engine.map_shards(_shard, named, folder, how.engine).items())
    for n in range(0, len(done), TOGETHER):
        _save(work, folder, dict(done[n : n + TOGETHER]))
    shutil.rmtree(folder)  # and what a killed run of another plan has left


def _ask_again(folder: Path, names: Iterable[str]) -> None:
    """A shard that a run left here without all of its answers is not done: they are asked for, as in any next run."""
    for name in names:
        manifest = folder / f"{name}.json"
        if manifest.exists() and (whole_object(manifest.read_bytes()) or {}).get("dropped"):
            manifest.unlink()


def _save(work: Job, folder: Path, shards: dict[str, dict[str, Any]]) -> None:
    """Rows and counts of these shards, which are gone after that."""
    import polars as pl

    from saferec_builder.storage import tables, workspace as store

    for table in (tables.PROPOSALS, tables.READINGS, tables.DROPS):  # readings last of what counts, as everywhere
        files = [path for name in shards if (path := folder / name / f"{table.name}.parquet").exists()]
        if files:
            added = store.append(work.ws, table, pl.concat(pl.read_parquet(path, glob=False) for path in files))
            work.added += added if table is tables.READINGS else 0
    for name, facts in shards.items():
        for into, counts in ((work.figures, "figures"), (work.dropped, "dropped"), (work.rejected, "rejected")):
            into.update(facts[counts])
        if work.purse:
            work.purse.spent += facts["spent"]
        (folder / f"{name}.json").unlink()
        shutil.rmtree(folder / name)


def _named(part: Job) -> str:
    """By all that a reading depends on: what a killed run has left is no answer to another question."""
    from saferec_builder.storage import tables

    texts = [(subject.subject, subject.digest, asked.digest) for _, subject, asked in part.todo]
    return str(tables.digest(part.world.kind, part.name, part.made_by, texts))


def _part(work: Job, todo: list[Any], how: How) -> Job:
    """A part of the job that can travel: its own rows only, and its share of the requests in flight."""
    world, step = work.world, work.step
    rows = [(n, subject, part) for n, (_, subject, part) in enumerate(todo)]
    frame = world.frame[[n for n, _, _ in todo]] if step.server is None else None
    known = {s.subject: world.unknown[s.subject] for _, s, _ in todo} if world.unknown else {}
    if step.server:
        at_once = max(1, step.server.concurrency // (how.engine.workers or 1))
        step = replace(step, server=replace(step.server, concurrency=at_once))
    small = World(world.ws, world.taxonomy, world.kind, world.prompt, [], frame, known)
    return Job(small, step, work.purse, work.name, work.made_by, rows, samples=work.samples, kept={})


def _shard(work: Job, folder: Path) -> dict[str, Any]:
    """Runs in a worker: reads, writes its rows into the folder, says its counts."""
    import polars as pl

    before = work.purse.spent if work.purse else 0.0
    read_here(work, lambda _: None)
    for name, frames in (work.kept or {}).items():
        pl.concat(frames).write_parquet(folder / f"{name}.parquet", compression="zstd")
    counters: dict[str, Counter[str]] = {"figures": work.figures, "dropped": work.dropped, "rejected": work.rejected}
    spent = work.purse.spent - before if work.purse else 0.0
    return {"spent": spent, **{name: dict(counts) for name, counts in counters.items()}}
