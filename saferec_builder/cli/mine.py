"""mine: conversations from files into the workspace."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say


class Source(StrEnum):
    redial = "redial"
    messages = "messages"


def mine(
    source: Annotated[Source, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders with .jsonl files.", metavar="PATH...")],
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Read conversations: seekers become pseudonyms, an id counts once, what is left out is counted.

    redial: JSON lines as published. messages: JSON lines with {"messages": [{"role": "user", "content": ...}, ...]}.
    """
    from tqdm import tqdm

    from saferec_builder import mine as stage
    from saferec_builder import sources, store, tables
    from saferec_builder.sources import conversations, messages, redial

    ws = store.open_workspace(folder)
    files = _files(paths)
    reader = {Source.redial: redial.read, Source.messages: messages.read}[source]
    read = sources.together(map(reader, tqdm(files, "mine", unit="file", disable=None)), conversations.SCHEMA)
    rows, drops = stage.mine(read.rows, store.read(ws, tables.CONVERSATIONS), ws.secret)
    added = store.append(ws, tables.CONVERSATIONS, rows)
    drops = drops.vstack(read.drops).sort("place", "reason")
    store.append(ws, tables.DROPS, drops)
    figures = {"turns": int(rows["turns"].list.len().sum()), "seekers": rows["seeker"].drop_nulls().n_unique()}
    reasons = sources.reasons(drops)
    say(Counts("mine", added, rows.height - added, reasons, figures | read.figures), as_json, "conversations")


def _files(paths: list[Path]) -> list[Path]:
    """Every file once; a folder stands for its .jsonl files."""
    from saferec_builder import sources
    from saferec_builder.errors import UsageError

    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path}: no .jsonl file in this folder")
        files += map(sources.existing, inside)
    return list(dict.fromkeys(files))
