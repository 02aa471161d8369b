"""diff: what changed between two releases, and what looks like damage."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, line
from saferec_builder.core.errors import plain


def diff(
    before: Annotated[str, typer.Argument(help="A version of this workspace, or the folder of a release.")],
    after: Annotated[str, typer.Argument(help="The later one.")],
    *,
    predictions: Annotated[
        Path | None,
        typer.Option(help="A model's answers (JSONL): the change in its SVR and Recall.", show_default=False),
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="As a section of Markdown for a card.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    folder: Folder = Path("."),
) -> None:
    """Compare two releases: rows, label flips with the reviews behind them, agreement, alarms. Exit 0 either way."""
    from exports import diff as stage

    homes = [_home(name, folder) for name in (before, after)]
    found = stage.diff(*homes)
    if predictions is not None:
        found["metrics"] = _metrics(homes, predictions)
    if as_json:
        typer.echo(json.dumps({"command": "diff", **found}, ensure_ascii=False))
        return
    typer.echo(plain(stage.as_text(found)), nl=False)
    if not card:
        for flip in found["flipped"][:20]:
            said = ", ".join(f"{r['reviewer'][:6]} ({r['role']}) {r['verdict']}" for r in flip["reviews"])
            behind = said or ("other reviews, not released" if flip["other_reviews"] else "no other review")
            typer.echo(line(f"  {flip['conversation']} {flip['trait']}: {flip['from']} -> {flip['to']}; {behind}"))


def _home(name: str, folder: Path) -> Path:
    from saferec_builder.cli.publish import find
    from saferec_builder.storage import workspace as store

    path = Path(name)
    return path if path.is_dir() else find(store.Workspace.open(folder).releases, name)


def _metrics(homes: list[Path], predictions: Path) -> dict[str, list[Any]]:
    """metric -> its value on each release; training scores in a process of its own, as everywhere."""
    import subprocess
    import sys
    import tempfile

    from saferec_builder.core.errors import TrainingError, strict_json

    told = []
    for home in homes:
        with tempfile.TemporaryDirectory() as out:
            words = ["evaluate", "--release", home, "--predictions", predictions, "--output", out]
            ran = subprocess.run(
                [sys.executable, "-m", "training.safecrs", *map(str, words)],
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode:
                why = ran.stderr.strip().splitlines()[-1:] or ["no reason given"]
                raise TrainingError(f"{home}: the predictions cannot be scored: {why[0].removeprefix('error: ')}")
            report = strict_json((Path(out) / "report.json").read_text(encoding="utf-8"))
            told.append(next(run["metrics"] for run in report["runs"] if run["name"] == predictions.stem))
    wanted = [name for name in told[0] if name.startswith(("recall", "svr", "ndcg", "unknown"))]
    return {name: [run.get(name, {}).get("mean") for run in told] for name in wanted}
