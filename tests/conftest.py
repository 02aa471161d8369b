"""Fixtures and hooks for all tests: a workspace, the command line as a user runs it, the real data if it is there."""

import contextlib
import gc
import io
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from saferec_builder.cli.app import main
from saferec_builder.core import progress
from saferec_builder.storage import workspace as store

# "ci": the same examples in every run; `make soak` searches for new ones
settings.load_profile("default" if os.environ.get("SAFEREC_SOAK") else "ci")

pytest_plugins = ["tests.servers.fixtures"]
pytest_plugins += [f"tests.worlds.{name}" for name in ("calm", "reviewing", "review_memory", "oracle_world")]


def pytest_configure() -> None:
    """Puts temporary folders into memory, and restores Ctrl-C: tests that run in the background ignore it, and so would
    the commands that they start.

    It is not done at import: workers that import a test's module ignore Ctrl-C on purpose (storage/parallel.py).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder := in_memory(6 << 30):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def in_memory(room: int) -> Path | None:
    """/dev/shm, if it has so many free bytes and we may write and run there: on a disk, SQLite waits for each write."""
    shm = Path("/dev/shm")
    facts = os.statvfs(shm) if os.access(shm, os.W_OK | os.X_OK) else None
    has_room = facts and facts.f_bavail * facts.f_frsize >= room and not facts.f_flag & os.ST_NOEXEC
    return shm if has_room else None


@dataclass(frozen=True)
class Ran:
    """The result of a command: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


# types of fixtures, for annotations in tests
Cli = Callable[..., Ran]
Patch = pytest.MonkeyPatch
Printed = pytest.CaptureFixture[str]
Injected = Callable[[str, int], None]


@pytest.fixture
def workspace(tmp_path: Path) -> store.Workspace:
    return store.Workspace.create(tmp_path / "ws")


@pytest.fixture
def demo_workspace(tmp_path: Path) -> store.Workspace:
    return store.Workspace.create(tmp_path / "demo", demo=True)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """cli("mine", "redial", path, "-C", ws.root) runs a command in this process through main(): exit codes are real."""

    def run(*words: object) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(progress, "PATIENCE", 600.0)  # no progress line on a busy machine
        monkeypatch.setattr(sys, "argv", ["saferec-build", *map(str, words)])
        code: Any = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        return Ran(int(code), out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; tests that use it are skipped if there is none."""
    folder = os.environ.get("SAFEREC_REAL_DATA")
    if not folder:
        pytest.skip(f"{NOT_RUN}real data (set SAFEREC_REAL_DATA to a folder with ReDial, MovieLens, CCPE, ...)")
    return Path(folder)


NOT_RUN = "part not run: "  # a test reports a missing real part by skip(f"{NOT_RUN}chromium (install: ...)")


# a minute or more each; then those that take longest in `make quick`
LONGEST = ("servers/", "flows/test_kill", "flows/test_bad_day", "test_wheel", "flows/test_line", "flows/test_notebook")
LONGEST += ("flows/test_team_database", "erasure/test_places", "mining/test_ingest", "mining/test_rules_version")
# files that share what is made once per process: the real servers, the workspaces before each command, parsed code
TOGETHER = {
    "code": ("tests/test_layering.py", "tests/test_layout.py", "tests/flows/test_security.py"),
    "servers": ("tests/servers/", "tests/annotation/tools/test_sync.py"),
    "calm": tuple(f"tests/flows/test_{name}.py" for name in ("kill", "bad_day", "damage")),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not load a file if `-m` deselects all its tests: torch, transformers and TRL take ten seconds."""
    if collection_path.suffix != ".py":
        return None
    marked = re.search(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", collection_path.read_text(), re.MULTILINE)
    return True if marked and f"not {marked[1]}" in config.option.markexpr else None


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # all objects stay alive during collection: repeated garbage collection takes a fifth of the time


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs files with long tests first, so that no process has a long file left at the end."""
    marks = {"slow", "servers", "training"}
    long = {item.path for item in items if any(mark.name in marks for mark in item.iter_markers())}
    items.sort(
        key=lambda item: (not item.nodeid.startswith(tuple(f"tests/{name}" for name in LONGEST)), item.path not in long)
    )


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Sends each file to one process, and files of one group of TOGETHER to the same process."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = (name for name, files in TOGETHER.items() if nodeid.startswith(files))
            return next(together, super()._split_scope(nodeid))

    return Files(config, log) if config.option.dist == "loadfile" else None


FAULTS = "faults: "  # prefix of the counts in a report's properties: they reach the summary from any process


@pytest.fixture
def injected(record_property: Callable[[str, object], None]) -> Injected:
    """Reports faults at the end of a test: injected("kills of a command", 36). They count if the test passes."""
    return lambda what, number: record_property(FAULTS + what, number)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the faults injected, and which parts could not run here, with the command that installs each."""
    counts, stats = Counter[str](), terminalreporter.stats
    for name, number in (entry for report in stats.get("passed", []) for entry in report.user_properties):
        if name.startswith(FAULTS):
            counts[name.removeprefix(FAULTS)] += number
    if counts:
        terminalreporter.section("faults injected")
        for campaign, number in sorted(counts.items()):
            terminalreporter.write_line(f"{number:>7,}  {campaign}")
        lost = len(stats.get("failed", [])) + len(stats.get("error", []))
        outcome = "all survived: no row lost or doubled, no traceback" if not lost else f"{lost} TESTS FAILED"
        terminalreporter.write_line(f"{counts.total():>7,}  in all; {outcome}")
    missing = _parts_not_run(terminalreporter)
    if missing:
        terminalreporter.section("parts not run")
        for part in missing:
            terminalreporter.write_line(part)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if SAFEREC_EVERY_PART is set (as in CI) and a part did not run: no silent skips."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")  # None in worker processes
    if reporter and os.environ.get("SAFEREC_EVERY_PART") and _parts_not_run(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _parts_not_run(reporter: Any) -> list[str]:
    reasons = {str(r.longrepr[2]) for r in reporter.stats.get("skipped", []) if isinstance(r.longrepr, tuple)}
    return sorted(r.removeprefix("Skipped: ").removeprefix(NOT_RUN) for r in reasons if NOT_RUN in r)
