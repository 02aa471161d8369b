"""The same function over many shards: in this process, in one process per core, or on Ray.

A shard is done when its manifest stands beside its folder. Each is written under a temporary name, renamed, then named
by the manifest, so that whoever is killed leaves a shard done or not done, and a rerun does only what is missing.
"""

import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import threading
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
from saferec_builder.core.locks import held

Work = TypeVar("Work")  # what a shard is made of; it travels to another process
Facts = TypeVar("Facts", bound=Mapping[str, object])  # what is to know of a shard, as JSON holds it
Make = Callable[[Work, Path], Facts]  # (what to do, empty folder to write into) -> facts about it
ENGINES = ("local", "ray")
_TRIES = 3  # of a shard whose worker died
SECONDS = 10.0  # that a cluster has for its answer


@dataclass(frozen=True)
class How:
    """Where shards run. `address` of Ray is `local` or that of a cluster: nothing is ever looked for."""

    engine: str = "local"
    workers: int | None = None  # default: all cores
    address: str = "local"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine {self.engine}: {near(self.engine, ENGINES)}")


def map_shards(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, how: How) -> dict[str, Facts]:
    """name -> facts of every shard, in the order of `shards`; files of shard NAME lie in folder/NAME/."""
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder, shards)
    missing = {name: work for name, work in shards.items() if _facts(folder, name) is None}
    if missing and how.engine == "ray":
        _on_ray(function, missing, folder, how)
    elif len(missing) > 1 and (how.workers or os.cpu_count() or 1) > 1:
        _in_processes(function, missing, folder, how.workers or os.cpu_count() or 1)
    else:
        for name, work in missing.items():
            _shard(function, name, work, folder)
    _sweep(folder, shards)
    return {name: strict_json(_manifest(folder, name).read_text(encoding="utf-8")) for name in shards}


def _manifest(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _facts(folder: Path, name: str) -> Mapping[str, object] | None:
    """What the manifest of a shard says; None: the shard is not done. A power cut may leave one that is empty."""
    manifest = _manifest(folder, name)
    return whole_object(manifest.read_bytes()) if manifest.exists() else None


def _temporary(name: str, unique: object) -> str:
    return f".{name}.{unique}.tmp"


@cache
def _node() -> str:
    """This machine, among those that may share a folder."""
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()


def _sweep(folder: Path, shards: Container[str]) -> None:
    """What killed workers and runs left of these shards; another run may be at work on the same or on others. Whether
    a process of another machine lives cannot be seen from here: what it left goes once its shard is done."""
    for left in folder.glob(_temporary("*", "*")):
        name, maker, _ = left.name[1:].rsplit(".", 2)
        node, _, process = maker.rpartition("-")
        busy = _lives(process) if node in ("", _node()) else _facts(folder, name) is None
        if name in shards and not busy:
            _remove(left)


def _remove(left: Path) -> None:
    if left.is_dir():
        shutil.rmtree(left, ignore_errors=True)
    else:
        left.unlink(missing_ok=True)


def _lives(process: str) -> bool:
    """Whether that is a process of this machine that still runs."""
    if not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs as somebody else
    return True


def _shard(function: Make[Work, Facts], name: str, work: Work, folder: Path, probe: str = "") -> str:
    if probe and not (folder / probe).exists():
        raise StoreError(f"{folder}: a worker does not see this folder: a cluster needs one that all its nodes share")
    tmp = folder / _temporary(name, f"{_node()}-{os.getpid()}")
    _remove(tmp)  # of a killed run, whose process had our number: a folder, or the manifest
    tmp.mkdir()
    facts = function(work, tmp)
    with held(folder.with_name(f".{folder.name}.lock"), f"{folder}: another command", wait=True):
        if _facts(folder, name) is not None:  # of another run, which may be reading it by now
            _remove(tmp)
            return name
        shutil.rmtree(folder / name, ignore_errors=True)  # of a run that was killed before its manifest
        os.replace(tmp, folder / name)
        tmp.write_text(json.dumps(facts), encoding="utf-8")
        os.replace(tmp, _manifest(folder, name))
    return name


def _in_processes(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, workers: int) -> None:
    left = dict(shards)
    for _ in range(_TRIES):
        # a fresh interpreter each: threads of polars do not survive a fork
        with ProcessPoolExecutor(min(workers, len(left)), get_context("spawn"), _mortal) as pool:
            try:
                with _deaf(), _sharing(min(workers, len(left))):
                    begun = [pool.submit(_shard, function, n, w, folder) for n, w in left.items()]
                for done in as_completed(begun):
                    done.result()
            except BrokenProcessPool:  # a worker was killed and took the pool with it: do what is missing again
                pass
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.kill()
                raise
            except BaseException:  # a shard's own error: those that have not begun need not
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        left = {name: work for name, work in left.items() if _facts(folder, name) is None}
        if not left:
            return
    raise _died(folder, left)


def _died(folder: Path, shards: Iterable[str]) -> StoreError:
    missing = sum(_facts(folder, name) is None for name in shards)
    return StoreError(
        f"{folder}: workers died {_TRIES} times (out of memory?), {missing} shards are missing: give fewer --workers"
        " and run the command again: it does only these"
    )


def _mortal() -> None:
    """This worker ends with whoever started it: after a kill it would do what was begun, and pay for it, and wait."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start here do not hear Ctrl-C: this one does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _sharing(workers: int) -> Iterator[None]:
    """Processes that start here divide the cores: polars takes all for each, unless it was told otherwise."""
    name = "POLARS_MAX_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, _cores() // workers))
    try:
        yield
    finally:
        del os.environ[name]


def _on_ray(function: Make[Work, Facts], shards: dict[str, Work], folder: Path, how: How) -> None:
    if how.address != "local":
        _reach(how.address)
    try:
        import ray
    except ImportError:
        raise UsageError("--engine ray needs the library: pip install 'saferec-builder[ray]'") from None
    probe = _temporary(next(iter(shards)), os.urandom(8).hex())
    (folder / probe).touch()
    cpus = (how.workers or os.cpu_count()) if how.address == "local" else None  # a cluster knows its own
    with _sharing(cpus or 1):  # nodes of a cluster have theirs from who started them
        ray.init(address=how.address, num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        task: Any = ray.remote(max_retries=_TRIES - 1, num_cpus=1)(_shard)
        waiting = [task.remote(function, name, work, folder.resolve(), probe) for name, work in shards.items()]
        while waiting:
            ready, waiting = ray.wait(waiting)
            ray.get(ready)
    except ray.exceptions.RayTaskError as fault:
        cause: Exception = fault.cause  # what the shard itself raised
        raise cause from None
    except ray.exceptions.WorkerCrashedError:
        raise _died(folder, shards) from None
    finally:
        ray.shutdown()
        (folder / probe).unlink(missing_ok=True)


def _reach(address: str) -> None:
    """Ray tries an address at which nothing is for longer than anybody waits, and takes `auto` for looking around."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, ValueError, OverflowError) as fault:
        raise UsageError(
            f"--ray-address {address}: nothing answers there ({fault}): expected local, or a cluster's address, such as"
            " 10.0.0.5:6379"
        ) from None
