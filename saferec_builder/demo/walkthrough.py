"""Runs the demo from its input files to a report: one command after the other, with simulated reviewers in between."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from saferec_builder.core.errors import TrainingError, UsageError
from saferec_builder.core.processes import cores
from saferec_builder.demo import inputs, people, world
from saferec_builder.demo.people import ADJUDICATOR, REVIEWERS, Gold
from saferec_builder.storage.workspace import Workspace

VERSION = "1.0.0"

Command = Callable[..., None]  # runs `saferec-build` with these words in the demo's workspace
Say = Callable[[str], None]  # shows a line about a step between two commands


@dataclass(frozen=True)
class Demo:
    """The results of a run. runs: the folder of training, with its `table.txt`; None: nothing was trained."""

    release: Path
    report: Path
    runs: Path | None


def run(folder: Path, command: Command, say: Say, *, generated: int = 13_700, training: bool = True) -> Demo:
    """Runs all steps in a workspace `folder`; after an interruption, the next run continues.

    generated: conversations besides the 260 hand-written ones. training: also train and evaluate four models.
    Raises UsageError, before anything is written, if training is requested and cannot run here, or if the folder is
    another workspace.
    """
    if training:
        _check_training()
    ws = Workspace.create(folder, demo=True)
    if not ws.config.demo:
        raise UsageError(f"{folder} is a workspace, and no demo: give --to another folder")
    data = folder / "input"
    truth = inputs.write(data, ws.taxonomy, generated, ws.released_id)
    command("catalog", "add", "demo", world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl")
    command("catalog", "add", "warnings", data / "warnings.csv")
    command("mine", "messages", data / "conversations.jsonl")
    command("propose")
    command("propose", "--items")  # sixty items have no warnings: people review proposals from their plots
    command("propose-score", "--gold", "demo")
    command("propose-score", "--items", "--gold", "demo")
    _review(ws, truth, command, say)
    command("adjudicate")
    command("release", VERSION)
    command("publish", VERSION, "--to", folder / "published")
    release, runs = folder / "releases" / VERSION, folder / "runs" if training else None
    if runs:
        _train(release, runs, data / "gold.jsonl", say)
    command("report", *(("--runs", runs) if runs else ()))
    return Demo(release, folder / "report.html", runs)


def _review(ws: Workspace, truth: Mapping[str, Gold], command: Command, say: Say) -> None:
    """Two people review; their disagreements go to the adjudicator."""
    reviewers = [word for name in REVIEWERS for word in ("--reviewer", name)]
    push = ("review", "push", "--tool", "files", *reviewers, "--adjudicator", ADJUDICATOR, "--all")

    def pull(names: tuple[str, ...]) -> None:
        paths = [path for name in names if (path := people.path_of(ws.root, name)).exists()]
        if paths:
            command("review", "pull", "--tool", "files", *paths)

    pull((*REVIEWERS, ADJUDICATOR))  # files of a run that was interrupted before its pull
    for names in (REVIEWERS, (ADJUDICATOR,)):
        command(*push)
        for path, rows in people.answer(ws, truth, names).items():
            say(f"  (simulated: {path.stem} answers {rows:,} rows of {path})")
        pull(names)


def _check_training() -> None:
    """Raises UsageError if the extra `train` is missing, before an hour is spent."""
    missing = [name for name in ("torch", "trl", "datasets") if find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {missing[0]}: pip install 'saferec-builder[train]', or use --no-training")


def _train(release: Path, runs: Path, gold: Path, say: Say) -> None:
    """Trains in separate processes that write to the same output."""
    words = [str(w) for w in ("run", "--release", release, "--model", "tiny", "--output", runs, "--gold", gold)]
    words += ["--processes", "2"] if cores() > 1 else []
    say(f"\n$ python -m training.safecrs {' '.join(words)}")
    with subprocess.Popen([sys.executable, "-u", "-P", "-m", "training.safecrs", *words]) as process:
        try:
            process.wait()
        except KeyboardInterrupt:  # in a terminal both get it: wait until training has ended its processes
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.send_signal(signal.SIGINT)
            raise
    if process.returncode:
        raise TrainingError(f"training stopped with exit code {process.returncode}: its last lines say why")
