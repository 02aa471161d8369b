"""Further processes of a command: how many cores they may use, and how they end."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def cores() -> int:
    """The number of cores that this process may use: a container or `taskset` may allow fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Ends this process when its parent ends: otherwise it would go on after a kill, pay for its requests, and wait."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Processes that start in this block ignore Ctrl-C: the parent handles it, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
