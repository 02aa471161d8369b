"""The command tree, and the only place that turns an error into a line and an exit code.

The module of a command is imported when the command is called, so that `--help` is fast whatever the commands import.
"""

import logging
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from saferec_builder import __version__
from saferec_builder.cli import interrupts
from saferec_builder.cli.output import PLAIN, working
from saferec_builder.core import os_error_messages as refusals
from saferec_builder.core.errors import SafeRecError, plain

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class Entry(NamedTuple):
    """The module of a command and the function in it (None: a group of commands, `app` in the module)."""

    module: str
    function: str | None
    help: str  # its line in `saferec-build --help`: at most 60 characters, else it is cut at 80 columns
    slow: bool = False  # says at times that it is at work, where no progress is shown


COMMANDS = {  # in the order of the pipeline
    "init": Entry("workspace", "init", "Make a workspace with a commented saferec.toml."),
    "catalog": Entry("catalog", None, "Items, their warnings and the oracle's verdicts."),
    "screen": Entry("screen", "screen", "Screen a recommender's lists, trait by trait."),
    "mine": Entry("mine", "mine", "Read conversations; pseudonyms and placeholders come in.", slow=True),
    "propose": Entry("propose", "propose", "Propose sensitivities, or flags of items, with evidence.", slow=True),
    "browse": Entry("browse", "browse", "Read proposals or labels beside the words they rest on."),
    "propose-score": Entry("propose_score", "propose_score", "Score a proposer: precision, recall, calibration."),
    "plan": Entry("plan", "plan", "Forecast a release, and what to look up next.", slow=True),
    "review": Entry("review", None, "Send tasks to reviewers and bring their reviews back."),
    "adjudicate": Entry("adjudicate", "adjudicate", "Make labels of reviews, and say what they may miss.", slow=True),
    "release": Entry("release", "release", "Freeze the labels as releases/VERSION.", slow=True),
    "publish": Entry("publish", "publish", "Copy a release to a folder, or send it to the Hub.", slow=True),
    "verify": Entry("publish", "verify", "Check every file, row and column of a release.", slow=True),
    "rebuild": Entry("finished_releases", "rebuild", "Put texts that a source keeps back into a release.", slow=True),
    "linkage": Entry("finished_releases", "linkage", "Count whom the source's owner finds in a release.", slow=True),
    "diff": Entry("finished_releases", "diff", "Compare two releases: rows, labels, agreement, alarms.", slow=True),
    "withdraw": Entry("finished_releases", "withdraw", "Take a version back, here and on the Hub."),
    "forget": Entry("forget", "forget", "Erase people from the workspace, with a receipt."),
    "report": Entry("report", "report", "Write report.html, one page that needs no network.", slow=True),
    "status": Entry("workspace", "status", "Rows in each table of the workspace, and its releases."),
    "doctor": Entry("doctor", "doctor", "What this machine and saferec.toml lack, with remedies."),
    "demo": Entry("demo", "demo", "The whole line on invented data, reviewers simulated."),
}


class _Commands(TyperGroup):
    """The commands of COMMANDS, each imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # the names, for suggestions after a typo

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        for group, entry in COMMANDS.items():
            if entry.function is None and args[0] not in COMMANDS and args[0] in getattr(_load(group), "commands", ()):
                ctx.fail(f"No such command {args[0]!r}. Did you mean '{group} {args[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@cache
def _load(name: str) -> "Command":
    entry = COMMANDS[name]
    module = import_module(f"saferec_builder.cli.{entry.module}")
    if entry.function is None:
        group = module.app
    else:
        group = typer.Typer(**PLAIN)
        function = getattr(module, entry.function)
        group.command(name)(working(name)(function) if entry.slow else function)
    command = get_command(group)
    command.name = name
    return command


app = typer.Typer(cls=_Commands, no_args_is_help=True, **PLAIN)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Make personal-safety datasets for conversational recommenders.

    init -> catalog -> mine -> propose -> review -> adjudicate -> release -> publish
    """
    if version:
        typer.echo(f"saferec-build {__version__}")
        raise typer.Exit


def main() -> None:
    """Exits with 0 (done), 1 (an error, in one line), 2 (usage) or 130 (Ctrl-C); a bug prints its traceback."""
    log = logging.getLogger("saferec_builder")  # what library functions log goes to stderr
    log.handlers, log.propagate = [h for h in (logging.lastResort,) if h], False
    with interrupts.listening() as pressed:
        try:
            app()
        except Exception as fault:
            if pressed():  # an error of a library that Ctrl-C broke off
                sys.exit(interrupts.INTERRUPTED)
            message = str(fault) if isinstance(fault, SafeRecError) else refusals.line(fault)
            if message is None:
                raise
            typer.echo(f"error: {plain(' '.join(message.split()))}", err=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
