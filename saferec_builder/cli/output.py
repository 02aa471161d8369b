"""The counts that every command prints at its end: in = out + dropped, out = added + skipped."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.core import errors
from saferec_builder.core.counts import Counts, many
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import at_work

PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
Folder = Annotated[Path, typer.Option("-C", "--workspace", help="Folder of the workspace.", show_default=False)]
Repo = Annotated[
    str | None, typer.Option(help="NAMESPACE/NAME on the Hub; default: repo in saferec.toml.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of text.")]
LABELS = {  # figures whose names say too little to people
    "on_no_item_here": "counted as out, though on no one item here (none, or several of that title and year)",
    "rows_of_files": "rows of these files (a `*` is an answer, and each trait that it names or named is one more)",
    "digest": "digest (sha256 of SHA256SUMS)",
    "posts": "posts and comments",
    "new": "new tasks, one for each reader of a text",
    "id_conflicts": "id conflicts (listed by `saferec-build catalog merges --conflicts`)",
}
line = errors.line
working = partial(at_work, partial(typer.echo, err=True))  # for a command, where it counts no steps


def say(counts: Counts, as_json: bool, noun: str = "rows", *, writes: bool = True) -> None:
    """Prints the counts, for people or as one JSON object; the line of totals only with a `noun`. `writes`: the command
    adds rows, so that some may be there already."""
    if as_json:
        totals = {"command": counts.command, "in": counts.came, "out": counts.out, "added": counts.added}
        totals |= {"skipped": counts.skipped, "dropped": counts.dropped, "examples": counts.examples}
        typer.echo(json.dumps({**totals, **counts.figures}, ensure_ascii=False, default=str))
        return
    for name, value in counts.figures.items():
        typer.echo(f"  {LABELS.get(name, name).replace('_', ' ')}: {line(_text(value))}{_example(counts, name)}")
    for reason, n in sorted(counts.dropped.items(), key=lambda pair: -pair[1]):
        typer.echo(f"  dropped, {line(reason)}: {n:,}{_example(counts, reason)}")
    if not noun:
        return
    dropped = sum(counts.dropped.values())
    came = many(counts.came, noun.removesuffix("s"), noun)
    stored = f" ({counts.added:,} added, {counts.skipped:,} already there)" if writes else ""
    typer.echo(f"{counts.command}: {came} in = {counts.out:,} out + {dropped:,} dropped{stored}")


def _example(counts: Counts, name: str) -> str:
    example = counts.examples.get(name, [])
    if isinstance(example, str):
        return f", such as {line(example)}"
    return ":" * bool(example) + "".join(f"\n    {line(part)}" for part in example)


def _text(value: JsonValue) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
