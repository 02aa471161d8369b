"""An undisturbed run of all commands on a small demo, with a copy of the workspace before each of them.

A test disturbs one step, on a copy of the workspace before it; then the same command runs again, and the workspace has
to equal what the undisturbed run left.
"""

import os
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from saferec_builder.demo import inputs, people
from saferec_builder.storage import workspace as store
from tests.worlds import line
from tests.worlds.release_world import tree

SOAK = bool(os.environ.get("SAFEREC_SOAK"))
GENERATED = 40  # conversations beside the hand-written ones


@dataclass(frozen=True)
class Step:
    """One command of the line."""

    number: int
    seconds: float  # of processor time that it took undisturbed
    calm: Path

    def words(self, folder: Path) -> list[str]:
        step = list(line.steps(folder))[self.number]
        assert isinstance(step, list)
        return [*step, "-C", str(folder)]

    def completes(self, folder: Path) -> None:
        """Asserts that the command, when nothing hinders it, leaves what the undisturbed run left."""
        assert run(self.words(folder)).code == 0
        same(folder, self.after)

    def before(self, to: Path) -> Path:
        """A copy of the workspace as the command found it."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.calm / f"{self.number:02d}", to, dirs_exist_ok=True)
        return to

    @property
    def after(self) -> Path:
        return self.calm / f"{self.number + 1:02d}"


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """Every command of the line, each with the workspace before and after it."""
    root = tmp_path_factory.mktemp("calm")
    folder = root / "ws"
    ws = store.Workspace.create(folder, demo=True)
    truth = inputs.write(folder / "input", ws.taxonomy, GENERATED)
    _ = ws.secret  # the same pseudonyms in every copy
    steps = []
    for number, step in enumerate(line.steps(folder)):
        shutil.copytree(folder, root / f"{number:02d}")
        if isinstance(step, tuple):
            people.answer(ws, truth, step)
            continue
        seconds_before = _children()
        ended = run([*step, "-C", str(folder)])
        assert ended.code == 0, ended
        steps.append(Step(number, _children() - seconds_before, root))
    folder.rename(root / f"{number + 1:02d}")
    return steps


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Ended:
    """How a disturbed command ended."""

    code: int  # as a shell says it: 130 for Ctrl-C
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [text for text in self.err.replace("\r", "\n").splitlines() if text.strip()]


def start(words: list[str], **how: Any) -> subprocess.Popen[str]:
    """Starts the command in a process group of its own, as a shell does."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([line.TOOL, *words], start_new_session=True, **pipes, **how)


def far(process: subprocess.Popen[str], seconds: float) -> bool:
    """Waits until the command has used so much processor time, however busy the machine is; False: it has ended."""
    try:
        while process.poll() is None:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            if sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") >= seconds:
                return True
            time.sleep(0.002)
    except FileNotFoundError:  # not Linux, so there is no such file: wall-clock time has to do
        time.sleep(seconds)
    return process.poll() is None


def end(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=600)
    code = process.returncode
    return Ended(code if code >= 0 else 128 - code, out, err)


def run(words: list[str], **how: Any) -> Ended:
    return end(start(words, **how))


def refused(ended: Ended, *words: str) -> bool:
    """Whether the command gave up with a one-line message; asserts that it succeeded otherwise."""
    assert ended.code in (0, 1), ended
    if ended.code == 0:
        return False
    assert len(ended.lines) == 1 and ended.lines[0].startswith("error: "), ended
    assert not words or any(word in ended.lines[0] for word in words), ended
    return True


# ---- what a workspace holds


def same(folder: Path, wanted: Path) -> None:
    """Asserts that tables, release and other files equal those of the undisturbed run; no temporary file is left."""
    ours, theirs = line.contents(folder), line.contents(wanted)
    differing = {name: frame.height for name, frame in ours.items() if not frame.equals(theirs[name])}
    assert not differing, f"tables {differing}"
    files, wanted_files = others(folder), others(wanted)
    changed = [name for name in files.keys() | wanted_files.keys() if files.get(name) != wanted_files.get(name)]
    temporary = [str(path.relative_to(folder)) for path in folder.rglob("*.tmp*")]
    assert not changed and not temporary, f"files {changed}, temporary {temporary}"


def others(folder: Path) -> dict[str, bytes]:
    """Files other than the tables; the path of this folder is cut out of their contents."""
    folder_path = str(folder).encode()
    files = {name: text.replace(folder_path, b"") for name, text in tree(folder).items()}
    excluded = ("tables/", "workspace.db", "mining/")
    return {name: text for name, text in files.items() if not name.startswith(excluded) and not name.endswith(".lock")}


def between(folder: Path, step: Step) -> None:
    """Asserts that a command that gave up left every table whole: all its old rows, and no others but the new ones."""
    now, old, new = (line.contents(place) for place in (folder, step.calm / f"{step.number:02d}", step.after))
    for name, frame in now.items():
        assert old[name].height <= frame.height <= new[name].height, name
        assert _inside(old[name], frame) and _inside(frame, new[name]), name


def _inside(some: pl.DataFrame, every: pl.DataFrame) -> bool:
    digests = every.hash_rows(1).implode()
    return bool(some.hash_rows(1).is_in(digests).all())
