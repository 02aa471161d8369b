"""The line on a small demo, undisturbed, kept as it was before each step: what every disturbed run must come to.

A fault is put into one step, on a copy of what came before it; then the same command runs again and the workspace has
to be what the undisturbed run left.
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

from saferec_builder.storage import workspace as store
from tests.worlds import line
from tests.worlds.release_world import tree

SOAK = bool(os.environ.get("SAFEREC_SOAK"))
GENERATED = 40  # conversations beside the hand-written ones


@dataclass(frozen=True)
class Step:
    """One command of the line."""

    number: int
    seconds: float  # of the processor that it took undisturbed
    calm: Path

    @property
    def name(self) -> str:
        return " ".join(word for word in self.words(Path("x"))[:2] if not word.startswith("-"))

    def words(self, folder: Path) -> list[str]:
        found = list(line.steps(folder))[self.number]
        assert isinstance(found, list)
        return [*found, "-C", str(folder)]

    def completes(self, folder: Path) -> None:
        """The command, once nothing hinders it, leaves what the undisturbed run left."""
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
    home = tmp_path_factory.mktemp("calm")
    folder = home / "ws"
    truth = line.prepare(folder, GENERATED)
    _ = store.Workspace.open(folder).secret  # the same pseudonyms in every copy
    made = []
    for number, step in enumerate(line.steps(folder)):
        shutil.copytree(folder, home / f"{number:02d}")
        if isinstance(step, tuple):
            line.fill(folder, step, truth)
            continue
        spent = _children()
        line.run(folder, step)
        made.append(Step(number, _children() - spent, home))
    folder.rename(home / f"{number + 1:02d}")
    return made


def _children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@dataclass(frozen=True)
class Ended:
    """How a disturbed command ended."""

    code: int  # as a shell says it: 130 for Ctrl-C
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [one for one in self.err.replace("\r", "\n").splitlines() if one.strip()]


def start(words: list[str], **how: Any) -> subprocess.Popen[str]:
    """The command in a group of its own, as a shell starts it."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([line.TOOL, *words], start_new_session=True, **pipes, **how)


def far(process: subprocess.Popen[str], seconds: float) -> bool:
    """Waits until the command has spent so much of the processor, whatever else the machine does; False: it is over."""
    try:
        while process.poll() is None:
            told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            if sum(map(int, told[11:13])) / os.sysconf("SC_CLK_TCK") >= seconds:
                return True
            time.sleep(0.002)
    except FileNotFoundError:  # no Linux: no such file; the clock on the wall has to do
        time.sleep(seconds)
    return process.poll() is None


def end(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=600)
    code = process.returncode
    return Ended(code if code >= 0 else 128 - code, out, err)


def run(words: list[str], **how: Any) -> Ended:
    return end(start(words, **how))


def refused(ended: Ended, *words: str) -> bool:
    """Whether the command gave up, in one line for people; anything else but success is a fault of ours."""
    assert ended.code in (0, 1), ended
    if ended.code == 0:
        return False
    assert len(ended.lines) == 1 and ended.lines[0].startswith("error: "), ended
    assert not words or any(word in ended.lines[0] for word in words), ended
    return True


# ---- what a workspace holds


def same(folder: Path, wanted: Path) -> None:
    """The tables, the release and every other file are those of the undisturbed run; nothing temporary is left."""
    ours, theirs = line.contents(folder), line.contents(wanted)
    unlike = {name: frame.height for name, frame in ours.items() if not frame.equals(theirs[name])}
    assert not unlike, f"tables {unlike}"
    mine, wanted_files = others(folder), others(wanted)
    strange = [name for name in mine.keys() | wanted_files.keys() if mine.get(name) != wanted_files.get(name)]
    left = [str(path.relative_to(folder)) for path in folder.rglob("*.tmp*")]
    assert not strange and not left, f"files {strange}, temporary {left}"


def others(folder: Path) -> dict[str, bytes]:
    """Files beside the tables, without the paths of this very folder in them."""
    here = str(folder).encode()
    found = {name: text.replace(here, b"") for name, text in tree(folder).items()}
    mine = ("tables/", "workspace.db", "mining/")
    return {name: text for name, text in found.items() if not name.startswith(mine) and not name.endswith(".lock")}


def between(folder: Path, step: Step) -> None:
    """What a command that gave up has left: every table whole, with all its old rows and none but the new ones."""
    now, old, new = (line.contents(place) for place in (folder, step.calm / f"{step.number:02d}", step.after))
    for name, frame in now.items():
        assert old[name].height <= frame.height <= new[name].height, name
        assert _inside(old[name], frame) and _inside(frame, new[name]), name


def _inside(some: pl.DataFrame, every: pl.DataFrame) -> bool:
    digests = every.hash_rows(1).implode()
    return bool(some.hash_rows(1).is_in(digests).all())
