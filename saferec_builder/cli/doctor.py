"""doctor: what this machine and this workspace have, what is missing, and the one line that helps."""

import json
from pathlib import Path

import typer

from saferec_builder.cli.output import Folder, Json, line
from saferec_builder.diagnostics import examine


def doctor(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Look at versions, extras, servers, keys, disk and memory; exit 1 where saferec.toml asks for what is missing.

    Keys are never printed. Servers that saferec.toml names are asked whether they answer; no conversation is sent.
    """
    found = examine(folder)
    if as_json:
        checks = [vars(one) for one in found.checks]
        typer.echo(json.dumps({"command": "doctor", "missing": found.missing, "checks": checks}))
    else:
        for one in found.checks:
            typer.echo(line(f"{one.state:<8}{one.what}: {one.found}{f' -> {one.remedy}' if one.remedy else ''}"))
        typer.echo(f"doctor: {len(found.checks)} checks, {found.missing} missing")
    if found.missing:
        raise typer.Exit(1)
