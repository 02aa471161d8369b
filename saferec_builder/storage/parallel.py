"""Runs one function over many shards: in this process, in one process per core, or on Ray.

A shard is done when its manifest is beside its folder. The folder is written under a temporary name and renamed, and
then its manifest is written, so that a killed process leaves a shard done or not done; a rerun does the missing ones.
"""

import hashlib
import json
import os
import platform
import shutil
import socket
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeVar

from saferec_builder.core.errors import StoreError, UsageError, near, strict_json, whole_object
from saferec_builder.core.locks import file_lock
from saferec_builder.core.processes import cores, end_with_parent, ignoring_interrupts

Work = TypeVar("Work")  # the input of a shard; it is sent to another process
Facts = TypeVar("Facts", bound=Mapping[str, object])  # the facts about a finished shard, as JSON can hold them
Make = Callable[[Work, Path], Facts]  # (input, empty folder to write into) -> facts about the shard
ENGINES = ("local", "ray")
_TRIES = 3  # runs of a shard, if its workers die
SECONDS = 10.0  # to wait for the answer of a cluster


@dataclass(frozen=True)
class How:
    """Where shards run. `address` of Ray is `local` or that of a cluster: Ray does not search for one."""

    engine: str = "local"
    workers: int | None = None  # default: one per core that this process may use
    address: str = "local"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine {self.engine}: {near(self.engine, ENGINES)}")


def map_shards(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, how: How) -> dict[str, Facts]:
    """Returns name -> facts of every shard, in the order of `shards`; the files of shard NAME are in folder/NAME/."""
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder, shards)
    missing = {name: work for name, work in shards.items() if _facts(folder, name) is None}
    if missing and how.engine == "ray":
        _on_ray(function, missing, folder, how)
    elif len(missing) > 1 and (workers := how.workers or cores()) > 1:
        _in_processes(function, missing, folder, workers)
    else:
        for name, work in missing.items():
            _make_shard(function, name, work, folder)
    _remove_leftovers(folder, shards)
    return {name: strict_json(_manifest(folder, name).read_text(encoding="utf-8")) for name in shards}


def _manifest(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _facts(folder: Path, name: str) -> Mapping[str, object] | None:
    """The facts in the manifest of a shard; None if the shard is not done. A power cut may leave an empty manifest."""
    manifest = _manifest(folder, name)
    return whole_object(manifest.read_bytes()) if manifest.exists() else None


def _temporary(name: str, unique: object) -> str:
    return f".{name}.{unique}.tmp"


@cache
def _machine() -> str:
    """A name for this machine among those that may share a folder."""
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()


def _remove_leftovers(folder: Path, shards: Container[str]) -> None:
    """Removes the files that killed runs left of these shards, while other runs may write the same or other shards.
    Files from another machine, whose processes cannot be checked from here, are removed once the shard is done."""
    for path in folder.glob(_temporary("*", "*")):
        name, owner, _ = path.name[1:].rsplit(".", 2)
        machine, _, process = owner.rpartition("-")
        in_use = _is_running(process) if machine in ("", _machine()) else _facts(folder, name) is None
        if name in shards and not in_use:
            remove(path)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_running(process: str) -> bool:
    """Whether this process id belongs to a running process of this machine."""
    if not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):  # a random name of digits alone is no process id
        return False
    except PermissionError:
        pass  # it runs, as another user
    return True


def _make_shard(function: Make[Work, Facts], name: str, work: Work, folder: Path, probe: str = "") -> str:
    if probe and not (folder / probe).exists():
        raise StoreError(f"{folder}: a worker does not see this folder: a cluster needs one that all its nodes share")
    tmp = folder / _temporary(name, f"{_machine()}-{os.getpid()}")
    remove(tmp)  # left by a killed run with the same process id: a folder, or the manifest
    tmp.mkdir()
    facts = function(work, tmp)
    with file_lock(folder.with_name(f".{folder.name}.lock"), f"{folder}: another command", wait=True):
        if _facts(folder, name) is not None:  # done by another run, which may be reading it already
            remove(tmp)
            return name
        shutil.rmtree(folder / name, ignore_errors=True)  # left by a run that was killed before it wrote the manifest
        os.replace(tmp, folder / name)
        tmp.write_text(json.dumps(facts), encoding="utf-8")
        os.replace(tmp, _manifest(folder, name))
    return name


def _in_processes(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, workers: int) -> None:
    missing = dict(shards)
    for _ in range(_TRIES):
        # each gets a new interpreter: threads of polars do not survive a fork
        with ProcessPoolExecutor(min(workers, len(missing)), get_context("spawn"), end_with_parent) as pool:
            try:
                with ignoring_interrupts(), _sharing_cores(min(workers, len(missing))):
                    futures = [pool.submit(_make_shard, function, name, work, folder) for name, work in missing.items()]
                for future in as_completed(futures):
                    future.result()
            except BrokenProcessPool:  # a worker was killed, which ends the pool: the missing shards run again
                pass
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.kill()
                raise
            except BaseException:  # an error of a shard: those that have not begun do not run
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        missing = {name: work for name, work in missing.items() if _facts(folder, name) is None}
        if not missing:
            return
    raise _workers_died(folder, missing)


def _workers_died(folder: Path, shards: Iterable[str]) -> StoreError:
    missing = sum(_facts(folder, name) is None for name in shards)
    return StoreError(
        f"{folder}: workers died {_TRIES} times (out of memory?), {missing} shards are missing: give fewer --workers"
        " and run the command again: it does only these"
    )


@contextmanager
def _sharing_cores(workers: int) -> Iterator[None]:
    """Processes that start in this block divide the cores: by default, polars uses all cores in each process."""
    name = "POLARS_MAX_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, cores() // workers))
    try:
        yield
    finally:
        del os.environ[name]


def _on_ray(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, how: How) -> None:
    if how.address != "local":
        _check_address(how.address)
    try:
        import ray
    except ImportError:
        raise UsageError("--engine ray needs the library: pip install 'saferec-builder[ray]'") from None
    probe = _temporary(next(iter(shards)), os.urandom(8).hex())
    (folder / probe).touch()
    cpus = (how.workers or cores()) if how.address == "local" else None  # a cluster knows its cores
    with _sharing_cores(cpus or 1):  # nodes of a cluster have the setting of whoever started them
        ray.init(address=how.address, num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        task: Any = ray.remote(max_retries=_TRIES - 1, num_cpus=1)(_make_shard)
        waiting = [task.remote(function, name, work, folder.resolve(), probe) for name, work in shards.items()]
        while waiting:
            ready, waiting = ray.wait(waiting)
            ray.get(ready)
    except ray.exceptions.RayTaskError as fault:
        cause: Exception = fault.cause  # the error that the shard raised
        raise cause from None
    except ray.exceptions.WorkerCrashedError:
        raise _workers_died(folder, shards) from None
    finally:
        ray.shutdown()
        (folder / probe).unlink(missing_ok=True)


def _check_address(address: str) -> None:
    """Raises UsageError if nothing answers: Ray would try far too long, and search for a cluster at `auto`."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, ValueError, OverflowError) as fault:
        raise UsageError(
            f"--ray-address {address}: nothing answers there ({fault}): expected local, or a cluster's address, such as"
            " 10.0.0.5:6379"
        ) from None
