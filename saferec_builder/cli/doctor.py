"""doctor: what this machine and this workspace have, what is missing, and the one line that helps."""

from pathlib import Path

import typer

from saferec_builder.cli.output import Folder, Json, line


def doctor(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Look at versions, extras, servers, keys, disk and memory; exit 1 where saferec.toml asks for what is missing.

    Keys are never printed. Servers that saferec.toml names are asked whether they answer; no conversation is sent.
    """
    import json

    from saferec_builder import diagnostics as health
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import config, workspace as store

    found = list(health.machine(folder))
    if (folder / config.FILE).exists():
        try:
            found += health.asked(store.Workspace.open(folder))
        except UsageError as fault:  # the machine was looked at all the same
            found.append(health.Finding("saferec.toml", health.MISSING, " ".join(str(fault).split()), "correct it"))
    else:
        found.append(health.Finding("workspace", health.NOTE, "none here", "saferec-build init DIR, then cd DIR"))
    missing = [one for one in found if one.state == health.MISSING]
    if as_json:
        typer.echo(json.dumps({"command": "doctor", "missing": len(missing), "checks": [vars(one) for one in found]}))
    else:
        for one in found:
            typer.echo(line(f"{one.state:<8}{one.what}: {one.found}{f' -> {one.remedy}' if one.remedy else ''}"))
        typer.echo(f"doctor: {len(found)} checks, {len(missing)} missing")
    if missing:
        raise typer.Exit(1)
