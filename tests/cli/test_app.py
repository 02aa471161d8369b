"""The command tree: each command is found, imported when it is called, and its line in `--help` is whole."""

import os
import subprocess
import sys

from saferec_builder.cli import app


def test_the_list_of_commands_is_whole_at_80_columns_and_each_is_there():
    for name, where in app.COMMANDS.items():
        command = app._loaded(name)
        assert command.name == name and command.params is not None
        assert len(where.help) <= 60 and where.help.endswith("."), name
    words, narrow = [sys.executable, "-m", "saferec_builder.cli.app", "--help"], {**os.environ, "COLUMNS": "80"}
    ran = subprocess.run(words, capture_output=True, text=True, env=narrow)
    assert "..." not in ran.stdout.replace("COMMAND [ARGS]...", "") and ran.returncode == 0
    assert [line.split()[0] for line in ran.stdout.split("Commands:\n")[1].splitlines()] == list(app.COMMANDS)


def test_help_imports_no_command():
    code = "import sys; from typer.testing import CliRunner; from saferec_builder.cli import app as a;"
    code += " CliRunner().invoke(a.app, ['--help']);"
    code += " print(*[m for m in sys.modules if m.startswith('saferec_builder.cli.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert set(ran.stdout.split()) == {f"saferec_builder.cli.{m}" for m in ("app", "interrupts", "output")}
