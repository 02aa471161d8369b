"""Ends a command on Ctrl-C without a traceback.

What was saved before stays, no file is half written, and the same command run again does the rest.
"""

import _thread
import atexit
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def listening() -> Iterator[Callable[[], bool]]:
    """Yields a function: was Ctrl-C pressed? Libraries may turn KeyboardInterrupt into another error, or swallow it."""
    presses: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        logging.disable()  # libraries would log what was interrupted, with a traceback
        if _in_polars_types(frame):
            retry()
        else:
            default(number, frame)

    def retry() -> None:  # later, as no exception can be raised here
        threading.Timer(0.01, _thread.interrupt_main).start()

    def swallowed(caught: "sys.UnraisableHookArgs") -> None:  # raised in a destructor
        if caught.exc_type is KeyboardInterrupt:
            retry()
        else:
            hook(caught)

    is_handled = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # else it is to go on (nohup, &)
    if not is_handled or threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield lambda: False
        return

    def in_thread(caught: threading.ExceptHookArgs) -> None:  # errors of a library whose event loop Ctrl-C closed
        if not presses:
            thread_hook(caught)

    previous, default, hook = signal.signal(signal.SIGINT, handle), signal.default_int_handler, sys.unraisablehook
    thread_hook, threading.excepthook = threading.excepthook, in_thread
    vars(signal)["default_int_handler"] = handle  # asyncio ends its tasks in order only if it finds the default
    sys.unraisablehook = swallowed
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)  # nothing is left to clean up
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, previous)
        logging.disable(logging.NOTSET)
        vars(signal)["default_int_handler"] = default
        sys.unraisablehook = hook
        threading.excepthook = thread_hook


@contextmanager
def ending() -> Iterator[Callable[[], bool]]:
    """Yields a function: was Ctrl-C pressed? The first press lets the work finish; the next acts as usual."""
    previous, presses = signal.getsignal(signal.SIGINT), list[int]()

    def handle(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        signal.signal(signal.SIGINT, previous)

    if previous is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, previous)


def _in_polars_types(frame: FrameType | None) -> bool:
    """Whether polars is building its types: its Rust code calls Python for it, and panics if that raises."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("polars.datatypes"):
            return True
        frame = frame.f_back
    return False
