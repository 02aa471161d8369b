"""A second process ends with the first, however the first one ends; an error in either of them is one line."""

import signal
import subprocess
import sys
import threading

import pytest

from tests import ROOT

pytest.importorskip("torch")
from training.process_setup import second_process

pytestmark = pytest.mark.training
SCRIPT = """
import os, signal, sys, time
from saferec_builder.core.errors import TrainingError
from training.process_setup import second_process

try:
    with second_process(2, "tiny") as later:
        second = later(os.getpid)()
        print(second != os.getpid(), flush=True)
        shown = later(print, "of the second")
        print("of the first", flush=True)
        shown()
        wrong, endless = later(int, "seven"), later(time.sleep, 600)
        WHAT
except TrainingError as fault:
    sys.exit(f"error: {fault}")
except KeyboardInterrupt:
    sys.exit(130)
"""
CASES = [  # what happens while the second process is at work, the exit code, the message
    ("os.killpg(0, signal.SIGINT), time.sleep(600)", 130, ""),
    ("os.kill(os.getpid(), signal.SIGINT), time.sleep(600)", 130, ""),
    ("os.kill(second, signal.SIGKILL), endless()", 1, "error: the second process was ended from outside, perhaps"),
    ("wrong()", 1, "ValueError: invalid literal"),
    ("os.kill(os.getpid(), signal.SIGKILL)", -9, "resource_tracker"),  # Python's own message about what was left behind
]


@pytest.mark.parametrize(("what", "code", "said"), CASES)
def test_a_second_process_ends_with_the_first(what: str, code: int, said: str) -> None:
    # the second process holds our pipes as long as it lives: `run` returns once both have ended
    arguments = [sys.executable, "-c", SCRIPT.replace("WHAT", what)]
    process = subprocess.run(arguments, capture_output=True, text=True, timeout=120, cwd=ROOT, start_new_session=True)
    assert process.returncode == code, process.stderr
    assert process.stdout.split("\n") == ["True", "of the first", "of the second", ""]
    assert said in process.stderr and bool(process.stderr) == bool(said)


def test_after_work_that_cannot_be_sent_ctrl_c_still_ends_the_run() -> None:
    with second_process(2, "tiny") as later, pytest.raises(TypeError, match="lock"):
        later(print, threading.Lock())
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
