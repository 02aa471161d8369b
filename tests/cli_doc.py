"""Writes docs/cli.md from the help of the commands: `python -m tests.cli_doc`. A test compares the two."""

import os
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from tests import ROOT

PAGE = ROOT / "docs" / "cli.md"
HEAD = """\
# Every command

Made from the commands' own `--help`; edit that and run `python -m tests.cli_doc`.

A command can be run again: it does only what is missing. It ends with counts that balance (in = out + dropped, each
drop with its reason). `-C FOLDER` behind a command that has it is the workspace (default: where you are); `--json`
gives one JSON object on stdout, of every command but `demo`, `review serve` and `review link`. Exit 0: done; 1:
something that you can change, said in one line; 2: usage.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Yields ("review push", its click command) for every command but groups."""
    import typer

    from saferec_builder.cli.app import app

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        subcommands = command.list_commands(None) if hasattr(command, "list_commands") else []
        if not subcommands:
            yield name, command
        for subcommand in subcommands:
            yield from below(f"{name} {subcommand}".strip(), command.get_command(None, subcommand))

    return below("", typer.main.get_command(app))


def section(name: str, command: Any) -> str:
    text = "\n\n".join(map(paragraph, re.split(r"\n\s*\n", (command.help or "").strip())))
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help" and not p.hidden]
    lines = [f"## saferec-build {name}", "", text]
    if arguments:
        lines += ["", "| argument | what |", "|---|---|"]
        lines += [f"| `{(p.metavar or p.name).upper()}` | {cell(p.help)}{default(p)} |" for p in arguments]
    if options:
        lines += ["", "| option | what |", "|---|---|"]
        lines += [f"| {flags(p)} | {cell(p.help)}{default(p)} |" for p in options]
    return "\n".join(lines)


def paragraph(text: str) -> str:
    """One line, or a block if the help keeps its line breaks (\\b)."""
    block = text.strip().removeprefix("\b")
    return f"```text\n{block.strip(chr(10))}\n```" if block != text.strip() else " ".join(text.split())


def flags(option: Any) -> str:
    return " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def default(param: Any) -> str:
    value = param.default
    if value in (None, False, (), [], "") or callable(value) or "default" in (param.help or "").lower():
        return ""
    return f" (default: {getattr(value, 'value', value)})"


def training() -> str:
    """The help of each verb of training.safecrs, which is not part of saferec-build."""
    from training.safecrs import parser

    with mock.patch.dict(os.environ, COLUMNS="100"):
        verbs = next(a for a in parser()._actions if a.choices and a.dest == "verb").choices or {}
        helps = [f"## python -m training.safecrs {verb}\n\n```text\n{p.format_help()}```" for verb, p in verbs.items()]
    return "\n\n".join(helps)


def page() -> str:
    return "\n\n".join([HEAD.rstrip(), *(section(name, command) for name, command in commands()), training()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
