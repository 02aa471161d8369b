"""How a command ends when somebody presses Ctrl-C: no traceback.

What was saved before stays, nothing is half there, and the same command run again does the rest.
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
    """Whether Ctrl-C was pressed since: libraries turn its exception into one of their own, or swallow it."""
    presses: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        logging.disable()  # libraries log what it broke off, with a traceback
        if _panics(frame):
            again()
        else:
            raises(number, frame)

    def again() -> None:  # where no exception can be raised: a little later
        threading.Timer(0.01, _thread.interrupt_main).start()

    def swallowed(caught: "sys.UnraisableHookArgs") -> None:  # it fell into a destructor
        if caught.exc_type is KeyboardInterrupt:
            again()
        else:
            hook(caught)

    asked = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # else who started it wants it to go on (nohup, &)
    if not asked or threading.current_thread() is not threading.main_thread():  # only the main one hears of it
        yield lambda: False
        return

    def in_thread(caught: threading.ExceptHookArgs) -> None:  # of a library whose loop it closed
        if not presses:
            thread_hook(caught)

    before, raises, hook = signal.signal(signal.SIGINT, press), signal.default_int_handler, sys.unraisablehook
    thread_hook, threading.excepthook = threading.excepthook, in_thread
    vars(signal)["default_int_handler"] = press  # only before this one does asyncio end its tasks in order
    sys.unraisablehook = swallowed
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)  # nothing is left to be tidied up
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)
        vars(signal)["default_int_handler"] = raises
        sys.unraisablehook = hook
        threading.excepthook = thread_hook


@contextmanager
def ending() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the first raises nothing, so that what is under way ends well; the next as ever."""
    before, presses = signal.getsignal(signal.SIGINT), list[int]()

    def first(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        signal.signal(signal.SIGINT, before)

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, first)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)


def _panics(frame: FrameType | None) -> bool:
    """Whether polars is telling its types: its Rust makes them in Python, and of an exception there a panic."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("polars.datatypes"):
            return True
        frame = frame.f_back
    return False
