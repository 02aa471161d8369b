"""The command tree, and the one place where an error becomes a line and an exit code.

The file of a command is imported when the command is called, so that `--help` is quick whatever the others need.
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


class Where(NamedTuple):
    """The file of a command and the function in it (None: a group of commands, which the file calls `app`)."""

    module: str
    function: str | None
    help: str  # a line of `saferec-build --help`, of 60 characters at most: nothing of it is cut at 80 columns
    slow: bool = False  # and draws no bar of its own


COMMANDS = {  # in the order of the data
    "init": Where("workspace", "init", "Make a workspace with a commented saferec.toml."),
    "catalog": Where("catalog", None, "Items, their warnings and the oracle's verdicts."),
    "screen": Where("screen", "screen", "Screen a recommender's lists, trait by trait."),
    "mine": Where("mine", "mine", "Read conversations; pseudonyms and placeholders come in."),
    "propose": Where("propose", "propose", "Propose sensitivities, or flags of items, with evidence."),
    "browse": Where("browse", "browse", "Read proposals or labels beside the words they rest on."),
    "propose-score": Where("propose_score", "propose_score", "Score a proposer: precision, recall, calibration."),
    "plan": Where("plan", "plan", "Forecast a release, and what to look up next.", slow=True),
    "review": Where("review", None, "Send tasks to reviewers and bring their reviews back."),
    "adjudicate": Where("adjudicate", "adjudicate", "Make labels of reviews, and say what they may miss.", slow=True),
    "release": Where("release", "release", "Freeze the labels as releases/VERSION.", slow=True),
    "publish": Where("publish", "publish", "Copy a release to a folder, or send it to the Hub.", slow=True),
    "verify": Where("publish", "verify", "Check every file, row and column of a release.", slow=True),
    "rebuild": Where("finished_releases", "rebuild", "Put texts that a source keeps back into a release.", slow=True),
    "linkage": Where("finished_releases", "linkage", "Count whom the source's owner finds in a release.", slow=True),
    "diff": Where("finished_releases", "diff", "Compare two releases: rows, labels, agreement, alarms.", slow=True),
    "withdraw": Where("finished_releases", "withdraw", "Take a version back, here and on the Hub."),
    "forget": Where("forget", "forget", "Erase people from the workspace, with a receipt."),
    "report": Where("report", "report", "Write report.html, one page that needs no network.", slow=True),
    "status": Where("workspace", "status", "Rows in each table of the workspace, and its releases."),
    "doctor": Where("doctor", "doctor", "What this machine and saferec.toml lack, with remedies."),
    "demo": Where("demo", "demo", "The whole line on invented data, reviewers simulated."),
}


class _Commands(TyperGroup):
    """COMMANDS, each imported when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names to compare

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, where.help) for name, where in COMMANDS.items()])


@cache
def _loaded(name: str) -> "Command":
    where = COMMANDS[name]
    module = import_module(f"saferec_builder.cli.{where.module}")
    if where.function is None:
        one = module.app
    else:
        one = typer.Typer(**PLAIN)
        function = getattr(module, where.function)
        one.command(name)(working(name)(function) if where.slow else function)
    made = get_command(one)
    made.name = name
    return made


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
    """Exit 0 done, 1 a mistake or a machine that refuses (one line), 2 usage, 130 Ctrl-C; a bug keeps its traceback."""
    log = logging.getLogger("saferec_builder")  # what a library function has to say while it works goes to stderr
    log.handlers, log.propagate = [h for h in (logging.lastResort,) if h], False
    with interrupts.listening() as pressed:
        try:
            app()
        except Exception as fault:
            if pressed():  # what Ctrl-C made of a library is nobody's fault
                sys.exit(interrupts.INTERRUPTED)
            message = str(fault) if isinstance(fault, SafeRecError) else refusals.line(fault)
            if message is None:
                raise
            typer.echo(f"error: {plain(' '.join(message.split()))}", err=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
