"""The command doctor: what this machine and workspace have, what is missing, and how to get it."""

import json
from pathlib import Path

import typer

from saferec_builder.cli.output import Folder, Json, line
from saferec_builder.diagnostics import examine


def doctor(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Look at versions, extras, servers, keys, disk and memory; exit 1 where saferec.toml asks for what is missing.

    Keys are never printed. Servers that saferec.toml names are asked whether they answer; no conversation is sent.
    """
    examination = examine(folder)
    if as_json:
        checks = [vars(row) for row in examination.checks]
        typer.echo(json.dumps({"command": "doctor", "missing": examination.missing, "checks": checks}))
    else:
        for row in examination.checks:
            typer.echo(line(f"{row.state:<8}{row.what}: {row.found}{f' -> {row.remedy}' if row.remedy else ''}"))
        typer.echo(f"doctor: {len(examination.checks)} checks, {examination.missing} missing")
    raise typer.Exit(1 if examination.missing else 0)
