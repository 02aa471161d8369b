"""The command tree, and the one place where an error becomes a line and an exit code."""

import sys

import typer

from saferec_builder import __version__
from saferec_builder.cli import (
    adjudicate,
    catalog,
    demo,
    diff,
    doctor,
    interrupts as ending,
    mine,
    propose,
    propose_score,
    publish,
    rebuild,
    release,
    report,
    review,
    withdraw,
    workspace,
)
from saferec_builder.core import refusals
from saferec_builder.core.errors import SafeRecError, plain

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Make personal-safety datasets for conversational recommenders.

    init -> catalog -> mine -> propose -> review -> adjudicate -> release -> publish
    """
    if version:
        typer.echo(f"saferec-build {__version__}")
        raise typer.Exit


app.command("init")(workspace.init)
app.command("mine")(mine.mine)
app.add_typer(catalog.app, name="catalog", help="Items, their warnings and the oracle's verdicts.")
app.command("propose")(propose.propose)
app.command("propose-score")(propose_score.propose_score)
app.add_typer(review.app, name="review", help="Send tasks to reviewers and bring their reviews back.")
app.command("adjudicate")(adjudicate.adjudicate)
app.command("release")(release.release)
app.command("publish")(publish.publish)
app.command("verify")(publish.verify)
app.command("rebuild")(rebuild.rebuild)
app.command("diff")(diff.diff)
app.command("withdraw")(withdraw.withdraw)
app.command("report")(report.report)
app.command("status")(workspace.status)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)


def main() -> None:
    """Exit 0 done, 1 a mistake or a machine that refuses (one line), 2 usage, 130 Ctrl-C; a bug keeps its traceback."""
    with ending.listening() as pressed:
        try:
            app()
        except Exception as fault:
            if pressed():  # what Ctrl-C made of a library is nobody's fault
                sys.exit(ending.INTERRUPTED)
            told = str(fault) if isinstance(fault, SafeRecError) else refusals.line(fault)
            if told is None:
                raise
            typer.echo(f"error: {plain(' '.join(told.split()))}", err=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
