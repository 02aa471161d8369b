"""The command tree: each command exists, is imported when called, and has a complete line in `--help`."""

import os
import subprocess
import sys

import pytest

from saferec_builder.cli import app


def test_the_list_of_commands_is_whole_at_80_columns_and_each_is_there():
    for name, entry in app.COMMANDS.items():
        command = app._load(name)
        assert command.name == name and command.params is not None
        assert len(entry.help) <= 60 and entry.help.endswith("."), name
    arguments, env = [sys.executable, "-m", "saferec_builder.cli.app", "--help"], {**os.environ, "COLUMNS": "80"}
    run = subprocess.run(arguments, capture_output=True, text=True, env=env)
    assert "..." not in run.stdout.replace("COMMAND [ARGS]...", "") and run.returncode == 0
    assert [line.split()[0] for line in run.stdout.split("Commands:\n")[1].splitlines()] == list(app.COMMANDS)


@pytest.mark.parametrize("words", [["relase"], ["catalog", "chek"], ["review", "serv"], ["check", "Saw (2004)"]])
def test_a_mistyped_command_gets_a_suggestion(words, cli):
    """README's table listed `check` behind `catalog`, and nothing said that it belongs to it."""
    meant = {"relase": "release", "chek": "check", "serv": "serve", "Saw (2004)": "catalog check"}[words[-1]]
    run = cli(*words)
    assert run.code == 2 and f"Did you mean {meant!r}?" in run.err


@pytest.mark.parametrize("group", ["catalog", "review"])
def test_no_line_of_a_groups_help_is_cut(group):
    lines = [command.get_short_help_str(62) for command in app._load(group).commands.values()]
    assert len(lines) > 7 and not [line for line in lines if line.endswith("...")]


def test_help_imports_no_command():
    code = "import sys; from typer.testing import CliRunner; from saferec_builder.cli import app as a;"
    code += " CliRunner().invoke(a.app, ['--help']);"
    code += " print(*[m for m in sys.modules if m.startswith('saferec_builder.cli.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert set(run.stdout.split()) == {f"saferec_builder.cli.{m}" for m in ("app", "interrupts", "output")}
