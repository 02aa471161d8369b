"""A file lock, which is released when its process ends, however it ends."""

import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from saferec_builder.core.errors import StoreError, plain

SILENT = 1.0  # seconds of waiting before it is logged
LOG = logging.getLogger(__name__)
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)
_WITHOUT_LOCKS = set[int]()  # file systems (their device numbers) that have no locks, of which a warning was given


@contextmanager
def file_lock(path: Path, others: str, *, wait: bool, shared: bool = False, mode: int | None = 0o666) -> Iterator[None]:
    """Holds the lock of this file. Where others hold it, waits and logs that; raises StoreError if not `wait`.

    `others` says who they are, for the message. Several processes can hold a lock if all of them are `shared`. A
    missing file is made with this `mode`; None: it must exist. Whoever held the lock may have deleted or renamed the
    file: then the lock is that of the file which now has the name. On a file system without locks it logs a warning,
    once, and goes on.
    """
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        way = "r" if mode is None or (path.exists() and not os.access(path, os.W_OK)) else "a"  # may be read-only to us
        with open(path, way, opener=lambda name, flags: os.open(name, flags, mode or 0)) as file:
            try:
                if _times_out(file, operation, SILENT if wait else 0.0):
                    if not wait:
                        raise StoreError(f"{others} is at work: wait until it has ended, then run it again")
                    LOG.warning("%s", plain(f"{others} is at work: waiting until it has ended"))
                    fcntl.flock(file, operation)
            except OSError as fault:
                if fault.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    raise
                _warn_without_locks(file, path)
            if _is_of(file, path):
                yield
                return


def _warn_without_locks(file: IO[str], path: Path) -> None:
    device = os.fstat(file.fileno()).st_dev
    if device not in _WITHOUT_LOCKS:
        _WITHOUT_LOCKS.add(device)
        problem = "its file system has no locks: two commands at once can lose each other's rows: run one at a time"
        LOG.warning("%s", plain(f"{path}: {problem}"))


def _is_of(file: IO[str], path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _times_out(file: IO[str], operation: int, seconds: float) -> bool:
    """Tries to take the lock for so many seconds; returns whether somebody else held it all the time."""
    end, pause = time.monotonic() + seconds, 0.001
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
            return False
        except OSError as fault:
            if fault.errno not in _BUSY:
                raise
        remaining = end - time.monotonic()
        if remaining <= 0:
            return True
        time.sleep(min(pause, remaining))
        pause = min(2 * pause, 0.05)
