"""demo: the whole line on invented data, one command after the other, each printed as a person would type it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

REVIEWERS = ("ann", "bo")
ADJUDICATOR = "cy"
VERSION = "1.0.0"


def demo(
    to: Annotated[Path, typer.Option(help="Folder of the demo.")] = Path("saferec-demo"),
    generated: Annotated[int, typer.Option(help="Generated conversations beside the 260 hand-written ones.")] = 13700,
    inputs_only: Annotated[bool, typer.Option("--inputs-only", help="Write the input files and stop.")] = False,
    training: Annotated[bool, typer.Option(help="Also train and evaluate three models (about ten minutes).")] = True,
) -> None:
    """Run the whole line on invented conversations with simulated reviewers.

    Safe to interrupt: run it again and it goes on where it stopped.
    """
    from saferec_builder.core import taxonomy as traits
    from saferec_builder.demo import inputs, world
    from saferec_builder.storage import workspace as store

    given = to / "input"
    if inputs_only:
        inputs.write(given, traits.load(), store.replacing, generated)
        typer.echo(f"demo: {', '.join(path.name for path in sorted(given.iterdir()))} in {given}")
        return
    if training:
        _check_training()
    store.make(to, demo=True)
    truth = inputs.write(given, traits.load(), store.replacing, generated)
    line = _runner(to)
    line("catalog", "add", "demo", world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl")
    line("catalog", "add", "warnings", given / "warnings.csv")
    line("mine", "messages", given / "conversations.jsonl")
    line("propose")
    line("propose", "--items")  # sixty items have no warnings: what their plots say goes to people too
    line("propose-score", "--gold", "demo")
    line("propose-score", "--items", "--gold", "demo")
    who = [word for name in REVIEWERS for word in ("--reviewer", name)]
    push = ["review", "push", "--tool", "files", *who, "--adjudicator", ADJUDICATOR, "--all"]
    _pull(line, to, (*REVIEWERS, ADJUDICATOR))  # of a run that was interrupted before its pull
    line(*push)
    _answer(to, truth, REVIEWERS)
    _pull(line, to, REVIEWERS)
    line(*push)  # what the two disagree on goes to the adjudicator
    _answer(to, truth, (ADJUDICATOR,))
    _pull(line, to, (ADJUDICATOR,))
    line("adjudicate")
    line("release", VERSION)
    line("publish", VERSION, "--to", to / "published")
    runs = to / "runs"
    if training:
        _train(to / "releases" / VERSION, runs, given / "gold.jsonl")
    line("report", *(("--runs", runs) if training else ()))
    typer.echo(f"\nrelease  {to / 'releases' / VERSION}\nreport   {to / 'report.html'}")
    if training:
        typer.echo(f"models   {runs}\n\n{(runs / 'table.txt').read_text()}")


def _runner(folder: Path) -> Callable[..., None]:
    """Runs a command of this program on the workspace, and shows it first."""
    from saferec_builder.cli.app import app

    def run(*words: object) -> None:
        typer.echo(f"\n$ saferec-build {' '.join(map(str, words))} -C {folder}")
        app([*map(str, words), "-C", str(folder)], standalone_mode=False)

    return run


def _answer(folder: Path, truth: dict[str, Any], names: tuple[str, ...]) -> None:
    """The simulated reviewers fill in their files; `truth` is by conversation."""
    from annotation.tools.answers import task_id
    from saferec_builder import catalog
    from saferec_builder.core import taxonomy as traits
    from saferec_builder.demo import flags, people
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    assigned = store.read(ws, tables.ASSIGNMENTS).select("kind", "subject", "digest", "reviewer", "role")
    items, _ = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    known = truth | flags.truth(items, traits.load())
    by_task = {task_id(*row): known[row[1]] for row in assigned.iter_rows()}
    for name in names:
        path = folder / "review" / f"{name}.csv"
        rows = people.fill(path, by_task, adjudicator=name == ADJUDICATOR)
        typer.echo(f"  (simulated: {name} answers {rows:,} rows of {path})")


def _pull(line: Callable[..., None], folder: Path, names: tuple[str, ...]) -> None:
    there = [path for name in names if (path := folder / "review" / f"{name}.csv").exists()]
    if there:
        line("review", "pull", "--tool", "files", *there)


def _check_training() -> None:
    """Fails before an hour is spent: the extra must be there, and no folder of the user's may hide our package."""
    from importlib.util import find_spec

    from saferec_builder.core.errors import UsageError

    here = Path.cwd() / "training"
    spec = find_spec("training")
    ours = Path(spec.origin).parent if spec and spec.origin else None
    if ours is None or not (ours / "safecrs.py").exists() or (here.is_dir() and here.resolve() != ours.resolve()):
        where = here if here.is_dir() else ours
        raise UsageError(f"the folder {where} hides this program's package `training`: run from another folder")
    missing = [name for name in ("torch", "trl", "datasets") if find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {missing[0]}: pip install 'saferec-builder[train]', or use --no-training")


def _train(release: Path, runs: Path, gold: Path) -> None:
    import subprocess
    import sys

    from saferec_builder.core.errors import TrainingError

    words = ["run", "--release", release, "--model", "tiny", "--output", runs, "--gold", gold]
    typer.echo(f"\n$ python -m training.safecrs {' '.join(map(str, words))}")
    ran = subprocess.run([sys.executable, "-u", "-m", "training.safecrs", *map(str, words)], check=False)
    if ran.returncode:
        raise TrainingError(f"training stopped with exit code {ran.returncode}: its last lines say why")
