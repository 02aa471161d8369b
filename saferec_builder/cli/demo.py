"""The command demo: runs all steps on invented data and prints each command as a person would type it."""

from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.app import app
from saferec_builder.core import taxonomy
from saferec_builder.demo import inputs, walkthrough


def demo(
    to: Annotated[Path, typer.Option(help="Folder of the demo.")] = Path("saferec-demo"),
    generated: Annotated[
        int, typer.Option(min=0, help="Generated conversations beside the 260 hand-written ones.")
    ] = 13700,
    inputs_only: Annotated[bool, typer.Option("--inputs-only", help="Write the input files and stop.")] = False,
    training: Annotated[bool, typer.Option(help="Also train and evaluate four models (9 to 16 minutes).")] = True,
) -> None:
    """Run the whole line on invented conversations with simulated reviewers.

    Safe to interrupt: run it again and it goes on where it stopped.
    """
    if inputs_only:
        folder = to / "input"
        inputs.write(folder, taxonomy.load(), generated)
        typer.echo(f"demo: {', '.join(path.name for path in sorted(folder.iterdir()))} in {folder}")
        return

    def command(*words: object) -> None:
        typer.echo(f"\n$ saferec-build {' '.join(map(str, words))} -C {to}")
        if code := app([*map(str, words), "-C", str(to)], standalone_mode=False):
            raise typer.Exit(code)  # such as 130, which typer returns after Ctrl-C

    result = walkthrough.run(to, command, typer.echo, generated=generated, training=training)
    typer.echo(f"\nrelease  {result.release}\nreport   {result.report}")
    if result.runs:
        typer.echo(f"models   {result.runs}")
