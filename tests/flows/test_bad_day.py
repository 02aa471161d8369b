"""The bad day: Ctrl-C, a full disk, a folder that may not be written to, a clock that jumps, the same command twice.

Each fault hits one command of the pipeline. The command reports it in one line or works in spite of it, and no table is
half written. After the fault the same command leaves the workspace that an undisturbed run leaves. Without
SAFEREC_SOAK each kind of fault hits only some of the commands.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.conftest import Injected
from tests.worlds import calm as world
from tests.worlds.calm import SOAK, Step
from tests.worlds.release_world import tree

pytestmark = pytest.mark.slow

ROUNDS = 12 if SOAK else 1  # of each fault that comes at a random moment
ROOT = os.geteuid() == 0


def some(calm: list[Step], first: int) -> list[Step]:
    """Returns all commands for `make soak`, else one or two that depend on the kind of fault."""
    return calm if SOAK else calm[first::9]


def disturbed(calm: list[Step], first: int, at: Path) -> Iterator[tuple[Step, Path]]:
    """Yields some commands with a copy of the workspace before each; then checks that it completes without a fault."""
    for step in some(calm, first):
        folder = step.before(at / "ws")
        yield step, folder
        step.completes(folder)


# ---- Ctrl-C


def test_ctrl_c_at_any_moment_is_quiet_and_the_same_command_does_the_rest(
    calm: list[Step], tmp_path: Path, injected: Injected
) -> None:
    rng, hits = random.Random(5), 0
    for step, folder in disturbed(calm, 5, tmp_path):
        for _ in range(ROUNDS):
            process = world.start(step.words(folder))
            if world.far(process, rng.uniform(0.05, 1.0) * step.seconds):
                os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
            ended = world.end(process)
            if "Traceback" in ended.err:  # Python itself was still starting
                assert "/saferec_builder/" not in ended.err and ended.code == 130, ended
                continue
            assert ended.code in (0, 130) and len(ended.lines) <= 1, ended
            hits += ended.code == 130
    injected("Ctrl-C in a command", hits)


# ---- no room


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """A separate small disk."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def mountable() -> bool:
    """Whether this user may make a small disk."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        ok = shutil.which("mount") is not None and subprocess.run(words, capture_output=True).returncode == 0
        return ok and subprocess.run(["umount", folder]).returncode == 0


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_full_disk_is_one_line_and_with_room_the_same_command_does_the_rest(
    calm: list[Step], tmp_path: Path, injected: Injected
) -> None:
    if not mountable():
        pytest.skip("only root can make a small disk; the limit on files below stands for it")
    rng, hits = random.Random(6), 0
    with small_disk(tmp_path / "disk") as disk:
        for step, folder in disturbed(calm, 1, disk):
            growth = max(size(step.after) - size(folder), 40_000)
            for n in range(ROUNDS):  # in the first round there is no room at all
                ballast = disk / "ballast"
                free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                with open(ballast, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free - int(growth * rng.random() * n / ROUNDS) or 1)
                ended = world.run(step.words(folder))
                ballast.unlink()
                hits += world.refused(ended, "make room")
                world.between(folder, step)
    injected("disk full under a command", hits)


def test_a_file_that_may_not_grow_is_one_line(calm: list[Step], tmp_path: Path, injected: Injected) -> None:
    rng, hits = random.Random(7), 0
    for step, folder in disturbed(calm, 2, tmp_path):
        largest = max(path.stat().st_size for path in step.after.rglob("*") if path.is_file())
        for n in range(ROUNDS):
            most = int(largest * rng.random() * n / ROUNDS)

            def limit(most: int = most) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

            ended = world.run(step.words(folder), preexec_fn=limit)
            hits += world.refused(ended, "ulimit", "make room", "put your copy")
            world.between(folder, step)
    injected("files that may not grow under a command", hits)


# ---- folders that may not be written to


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Forbids writing by the modes of the files or, as modes do not bind root, by a read-only mount of the disk."""
    if ROOT:
        subprocess.run(["mount", "-o", "remount,ro", str(folder.parent)], check=True)
        yield
        subprocess.run(["mount", "-o", "remount,rw", str(folder.parent)], check=True)
        return
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    yield
    for path, mode in modes.items():
        path.chmod(mode)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in which `read_only` works."""
    if ROOT and not mountable():
        pytest.skip("modes do not bind root, who may not mount a disk here")
    with small_disk(tmp_path / "disk") if ROOT else nullcontext(tmp_path) as folder:
        yield folder


def test_a_folder_that_may_not_be_written_to_is_one_line(calm: list[Step], disk: Path, injected: Injected) -> None:
    hits = 0
    for step, folder in disturbed(calm, 0, disk):
        with read_only(folder):
            assert world.refused(world.run(step.words(folder)), "let yourself write")
        world.between(folder, step)
        hits += 1
    injected("read-only folders under a command", hits)


def test_what_a_workspace_holds_is_told_where_nobody_may_write(calm: list[Step], disk: Path) -> None:
    folder = disk / "what? 100%"  # must be escaped in the URL of a file
    shutil.copytree(calm[-1].after, folder)
    (empty := disk / "empty").mkdir()
    shutil.copy(folder / "saferec.toml", empty)
    for place in (folder, empty):
        status = world.run(["status", "-C", str(place)])
        files = tree(place)
        with read_only(place):
            assert world.run(["status", "-C", str(place)]) == status and status.code == 0
        assert tree(place) == files


# ---- the clock


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long jump(void) { const char *told = getenv("CLOCK_JUMP"); return told ? atol(told) : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += jump();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(now, zone);
    now->tv_sec += jump();
    return code;
}

time_t time(time_t *now) {
    struct timeval told;
    gettimeofday(&told, 0);
    if (now) *now = told.tv_sec;
    return told.tv_sec;
}
"""
DAY = 86_400
JUMPS = (-40 * 365 * DAY, 30 * 365 * DAY, -DAY, 400 * DAY)  # a dead battery, far ahead, yesterday, next year


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that shifts the clock of a process."""
    compiler = shutil.which("cc")
    if compiler is None or os.uname().sysname != "Linux":
        pytest.skip("part not run: a clock that jumps (install: a C compiler, `cc`, on Linux)")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"], check=True)
    return folder / "clock.so"


def test_a_clock_that_jumps_loses_and_doubles_nothing(
    calm: list[Step], clock: Path, tmp_path: Path, injected: Injected
) -> None:
    hits = 0
    for n, step in enumerate(some(calm, 4)):
        for jump in JUMPS if SOAK else JUMPS[n % len(JUMPS) :][:1]:
            folder = step.before(tmp_path / "ws")
            timestamp = max(0.0, time.time() + jump)
            os.utime(folder / "input" / "conversations.jsonl", (timestamp, timestamp))
            ended = world.run(step.words(folder), env=os.environ | {"LD_PRELOAD": str(clock), "CLOCK_JUMP": str(jump)})
            assert ended.code == 0, ended
            world.same(folder, step.after)
            assert "(0 added" in world.run(step.words(folder)).out  # with the right clock again
            world.same(folder, step.after)
            hits += 1
    injected("clock jumps under a command", hits)


# ---- two commands at once


def test_one_command_twice_at_once_doubles_nothing(calm: list[Step], tmp_path: Path, injected: Injected) -> None:
    """Both succeed, or one reports that the other is at work; the result is that of a single run."""
    hits = 0
    for step in some(calm, 3):
        for _ in range(3 if SOAK else 1):
            folder = step.before(tmp_path / "ws")
            endings = [world.end(process) for process in [world.start(step.words(folder)) for _ in range(2)]]
            assert sum(world.refused(ended, "is at work") for ended in endings) < 2, endings
            world.same(folder, step.after)
            hits += 1
        assert "(0 added" in world.run(step.words(folder)).out
    injected("commands run twice at once", hits)
