"""A lock of a file, which goes with its process, however that ends."""

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

SILENT = 1.0  # seconds of waiting that nobody needs to hear of
LOG = logging.getLogger(__name__)
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def held(path: Path, others: str, *, wait: bool, shared: bool = False) -> Iterator[None]:
    """Holds the lock of this file; where `others` (who they are) hold it, waits for them, and logs that, or raises.

    `shared`: together with whoever else shares it."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with open(path, "r" if path.exists() and not os.access(path, os.W_OK) else "a") as file:  # a colleague's, in a team
        try:
            if _taken(file, how, SILENT if wait else 0.0):
                if not wait:
                    raise StoreError(f"{others} is at work: wait until it has ended, then run it again")
                LOG.warning("%s", plain(f"{others} is at work: waiting until it has ended"))
                fcntl.flock(file, how)
        except OSError as fault:
            if fault.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system that has no locks
                raise
        yield


def _taken(file: IO[str], how: int, seconds: float) -> bool:
    """Whether somebody else holds it for so long; else it is ours."""
    end, pause = time.monotonic() + seconds, 0.001
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return False
        except OSError as fault:
            if fault.errno not in _BUSY:
                raise
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.05)
