"""Runs commands one after the other in a separate process with limits on its memory and time."""

import contextlib
import io
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TypedDict

from saferec_builder.cli.app import main as ours
from tests import ROOT
from training.safecrs import main as training

MEMORY = 2 << 30  # bytes of data, not of addresses: libraries reserve more than they touch
SECONDS = 60  # of processor time
WAIT = 600  # wall-clock seconds after which a command counts as stuck, however busy the machine is


class Done(TypedDict):
    code: int  # 99: a traceback; below zero: the process died of this signal
    out: str
    err: str
    seconds: float  # of processor time
    peak: int  # MiB


class Guarded:
    """A process that is started again whenever it has died."""

    def __init__(self) -> None:
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "2", "HF_HUB_OFFLINE": "1"}
        words, pipe = [sys.executable, "-m", "tests.worlds.guarded"], subprocess.PIPE
        return subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment, start_new_session=True
        )

    def run(self, at: Path, words: list[str]) -> Done:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([str(at), words]).encode() + b"\n")
        self.process.stdin.flush()
        is_stuck = not select.select([self.process.stdout], [], [], WAIT)[0]
        if line := b"" if is_stuck else self.process.stdout.readline():
            done: Done = json.loads(line)
            return done
        self.end()
        code, self.process = self.process.returncode, self._start()
        return Done(code=code, out="", err="it waits without end" if is_stuck else "", seconds=0, peak=0)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def one(words: list[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr); `train` is python -m training.safecrs."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["saferec-build", *words]
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = training(words[1:]) if words[0] == "train" else ours()
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = 99
            traceback.print_exc()
    return int(code or 0), out.getvalue(), err.getvalue()[-20_000:]


def peak() -> int:
    fields = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
    return int(fields[0]) >> 10


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not get into the answers
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for line in sys.stdin:
        folder, words = json.loads(line)
        os.chdir(folder)
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of this command
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        start = time.process_time()
        code, out, err = one(words)
        spent = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(Done(code=code, out=out, err=err, seconds=spent, peak=peak())) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
