"""review opt-out, hand-back and set-aside: what reviewers asked for, and what became of their work."""

from pathlib import Path
from typing import Annotated

import typer

from annotation import opt_outs
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.storage.workspace import Workspace

Name = Annotated[str, typer.Argument(help="The reviewer's name in this workspace.")]


def opt_out(
    name: Name,
    trait: Annotated[list[str], typer.Argument(help="Slugs that this person would rather not see.")],
    remove: Annotated[bool, typer.Option("--remove", help="Forget these instead.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Keep sensitivities away from a reviewer: no reason asked, in no table, no report; --remove deletes it."""
    say(opt_outs.opt_out(Workspace.open(folder), name, trait, remove=remove), as_json, "traits")


def hand_back(name: Name, folder: Folder = Path("."), as_json: Json = False) -> None:
    """Give back what a reviewer has not finished (a holiday, a mistyped name); what they answered stays."""
    say(opt_outs.hand_back(Workspace.open(folder), name), as_json, "tasks")


def set_aside(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the rows, never released.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it count again.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Take a reviewer's work out of every label, with a reason; nothing is deleted, and --undo brings it back."""
    say(opt_outs.set_aside(Workspace.open(folder), name, reason=reason, undo=undo), as_json, "reviews")
